"""Learn rules about URLs from what was fetched: which parts of a site's URLs do not change the page (contract L).

The learner needs DuckDB and pyarrow (`canonry[bulk]`), with `engine="spark"` also PySpark (`canonry[spark]`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from canonry.errors import LearnError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from canonry.learner.values import Learned

MIN_MEMORY = 300 * 1000**2


def learn(
    rows: object,
    *,
    engine: str = "duckdb",
    min_confidence: float = 0.8,
    memory: int = 1000**3,
    master: str | None = None,
    vetoes: Iterable[tuple[str, str]] = (),
) -> Learned:
    """Learn from a path, several paths, a table, or rows of (url, content_hash, simhash, canonical_url, fetched_at).

    `memory` is in bytes. `vetoes` are pairs of URLs that are not the same page, whatever their contents: rules that
    merge them are refused. LearnError if a source cannot be read.
    """
    from canonry.learner.read_rows import read_rows
    from canonry.learner.refuse_rules import apply_vetoes
    from canonry.learner.values import Pair

    batches = read_rows(rows)
    learned = learn_batches(batches, engine=engine, min_confidence=min_confidence, memory=memory, master=master)
    return apply_vetoes(learned, (Pair(*pair) for pair in vetoes))


def learn_batches(
    batches: Iterable[Any], *, engine: str, min_confidence: float, memory: int, master: str | None = None
) -> Learned:
    """Learn from Arrow batches with the columns of `duckdb_engine.SCHEMA`."""
    if not 0 < min_confidence < 1:
        raise LearnError(f"min_confidence must be between 0 and 1, not {min_confidence}.")
    if memory < MIN_MEMORY:
        raise LearnError(f"The memory limit must be at least {MIN_MEMORY // 1000**2} MB.")
    from canonry.learner.refuse_rules import refuse_inexpressible

    if engine == "duckdb":
        from canonry.learner.duckdb_engine import learn_on_duckdb

        return refuse_inexpressible(learn_on_duckdb(batches, min_confidence=min_confidence, memory=memory))
    if engine == "spark":
        from canonry.learner.spark_engine import learn_on_spark

        learned = learn_on_spark(batches, min_confidence=min_confidence, memory=memory, master=master)
        return refuse_inexpressible(learned)
    raise LearnError(f"There is no engine {engine!r}: choose duckdb or spark.")
