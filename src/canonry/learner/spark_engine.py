"""Learn on many machines (contract L6): Spark brings the rows of a site to one task, which runs the same SQL.

Rules are never made across sites, so tasks do not depend on each other. The result is the same as on one machine, byte
for byte: a task runs the learner of `duckdb_engine.py`, which does not depend on the order of the rows.
"""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.parquet  # pyright: ignore[reportMissingTypeStubs]

from canonry.bulk.spark import open_session
from canonry.core.native import normalize_many
from canonry.core.url import parse
from canonry.errors import LearnError
from canonry.learner.duckdb_engine import PARSE_ONLY, SCHEMA, learn_on_duckdb, sort_results

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from canonry.learner.values import Learned

pa: Any = pyarrow  # pyarrow has no type stubs
pq: Any = pyarrow.parquet
_ROWS_PER_TASK = 500_000
_FAMILY_LABELS = 2  # hosts with these last labels in common may be one site
_RESULT_SCHEMA = pa.schema([("result", pa.binary())])


def learn_on_spark(batches: Iterable[Any], *, min_confidence: float, memory: int, master: str | None) -> Learned:
    """Learn with Spark, in the active session or in one of its own."""
    with tempfile.TemporaryDirectory(prefix="canonry-learn-") as folder:
        file = str(Path(folder, "rows.parquet"))
        rows = _write(batches, file)
        with open_session(master, Path(folder), LearnError) as session:
            frame = session.read.parquet(Path(file).absolute().as_uri())
            tasks = frame.repartition(rows // _ROWS_PER_TASK + 1, "family").drop("family")
            results = tasks.mapInArrow(_make_task(min_confidence, memory), "result binary")
            learned = [_load(row[0]) for row in results.toLocalIterator()]
    return sort_results(
        [rule for each in learned for rule in each.rules],
        [rule for each in learned for rule in each.refused],
        sum(each.rows for each in learned),
        sum(each.invalid for each in learned),
    )


def _write(batches: Iterable[Any], file: str) -> int:
    """Write the rows with the last labels of their host, by which they are sent to tasks; return their number."""
    rows = 0
    with pq.ParquetWriter(file, SCHEMA.append(pa.field("family", pa.string()))) as writer:
        for batch in batches:
            urls = normalize_many(batch.column("url").to_pylist(), PARSE_ONLY)
            families = [None if url is None else _get_family(url) for url in urls]
            writer.write_table(batch.append_column("family", pa.array(families, pa.string())))
            rows += len(urls)
    return rows


def _get_family(url: str) -> str:
    return ".".join(parse(url).host.split(".")[-_FAMILY_LABELS:])


def _make_task(min_confidence: float, memory: int) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return the function that workers run: it learns from all rows of its partition."""

    def learn_partition(batches: Iterator[Any]) -> Iterator[Any]:
        tables = (_restore(pa.Table.from_batches([batch])) for batch in batches)
        learned = learn_on_duckdb(tables, min_confidence=min_confidence, memory=memory)
        yield pa.RecordBatch.from_pylist([{"result": pickle.dumps(learned)}], _RESULT_SCHEMA)

    return learn_partition


def _restore(table: Any) -> Any:
    """Return the columns with the types that they had: Spark has no unsigned numbers, and reads them as decimals."""
    return table.select(SCHEMA.names).cast(SCHEMA)


def _load(data: bytes | bytearray) -> Learned:
    learned: Learned = pickle.loads(bytes(data))  # noqa: S301 – made by our own task
    return learned
