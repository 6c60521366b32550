"""Rules are learned from contents, the same for any order of the rows, and traps do not produce rules (contract L)."""

from __future__ import annotations

import gzip
import json
import random
from typing import TYPE_CHECKING, Any

import pytest

import canonry
from canonry.errors import LearnError
from canonry.learner.confidence import compute_confidence
from canonry.learner.values import Pair

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("duckdb")
Rows = list[tuple[str, str]]


def make_session_rows(host: str = "shop.example", pages: int = 40) -> Rows:
    """Pages whose `zog` is a session; `kind` selects the page."""
    return [
        (f"https://{host}/item?kind={page}&zog={(page * 7 + copy) % 97}", f"{host} content {page}")
        for page in range(pages)
        for copy in range(3)
    ]


def list_names(learned: canonry.Learned) -> list[tuple[str, str]]:
    return [(rule.host, rule.name) for rule in learned.rules]


def test_a_parameter_that_does_not_matter_is_found() -> None:
    learned = canonry.learn(make_session_rows())
    (rule,) = learned.rules
    assert (rule.host, rule.kind, rule.name, rule.support, rule.against) == (
        "shop.example", "param", "param:zog", 40, 0,
    )  # fmt: skip
    assert rule.confidence == pytest.approx(compute_confidence(40, 0))
    assert len(rule.examples) == 2
    assert json.loads(learned.overrides()) == {
        "overrides": [{"match": {"host": "shop.example"}, "drop_query_params": ["zog"]}]
    }


@pytest.mark.parametrize(("support", "confidence"), [(16, 0.80), (73, 0.95)])
def test_confidence_is_the_lower_bound_of_wilson(support: int, confidence: float) -> None:
    assert round(compute_confidence(support, 0), 2) >= confidence
    assert compute_confidence(support - 1, 0) < confidence + 0.01


def test_the_order_of_rows_does_not_matter() -> None:
    rows = make_session_rows() + make_session_rows("other.example", 60)
    mixed = list(rows)
    random.Random(4).shuffle(mixed)
    assert canonry.learn(rows) == canonry.learn(mixed)


def test_too_few_pages_give_no_rule() -> None:
    learned = canonry.learn(make_session_rows(pages=8))
    assert learned.rules == ()
    assert [(rule.name, rule.reason) for rule in learned.refused] == [("param:zog", "too_few")]


def test_a_parameter_that_matters_sometimes_is_refused_with_a_counter_example() -> None:
    rows = make_session_rows(pages=100)
    rows += [(f"https://shop.example/item?kind=x{n % 5}&zog={n}", f"special {n}") for n in range(15)]
    learned = canonry.learn(rows)
    assert learned.rules == ()
    refused = {rule.name: rule for rule in learned.refused}["param:zog"]
    assert refused.reason == "contents_differ"
    assert refused.counter_examples


def test_a_soft_404_counts_for_nothing() -> None:
    rows = [(f"https://s.example/search?q=word{n}", "nothing found") for n in range(300)]
    rows += [(f"https://s.example/item/{n}", "gone" if n % 3 else f"item {n}") for n in range(300)]
    assert canonry.learn(rows).rules == ()


def test_a_default_value_is_found() -> None:
    rows: Rows = []
    for thread in range(40):
        rows += [(f"https://f.example/t?id={thread}&at={at}", f"{thread} {at}") for at in (0, 10, 20)]
        rows.append((f"https://f.example/t?id={thread}", f"{thread} 0"))
    learned = canonry.learn(rows)
    assert list_names(learned) == [("f.example", "value:at=0")]
    policy = canonry.policy("crawl@2").with_overrides(learned.overrides())
    assert canonry.normalize("https://f.example/t?id=999&at=0", policy) == "https://f.example/t?id=999"
    assert canonry.normalize("https://f.example/t?id=999&at=10", policy) == "https://f.example/t?id=999&at=10"


def test_path_and_query_are_one_page() -> None:
    rows: Rows = []
    for number in range(30):
        rows += [(f"https://w.example/wiki/Title_{number}", f"page {number}")]
        rows += [(f"https://w.example/index.php?title=Title_{number}", f"page {number}")]
    learned = canonry.learn(rows)
    policy = canonry.policy("crawl@2").with_overrides(learned.overrides())
    assert canonry.normalize("https://w.example/index.php?title=New", policy) == "https://w.example/wiki/New"


def test_a_rule_about_path_and_query_has_examples() -> None:
    site = "https://w.example"
    rows = [(f"{site}/{form}{n}", f"page {n}") for n in range(40) for form in ("show?id=", "item/")]
    [rule] = canonry.learn(rows).rules
    assert rule.examples == tuple(Pair(f"{site}/show?id={n}", f"{site}/item/{n}") for n in (0, 1))
    rows += [(f"{site}/{form}{n}", f"{form} {n}") for n in range(40, 80) for form in ("show?id=", "item/")]
    refused = next(each for each in canonry.learn(rows).refused if each.name.startswith("path-query:"))
    assert refused.counter_examples == (Pair(f"{site}/show?id=40", f"{site}/item/40"),)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet", ".cdxj", ".cdx", ".cdxj.gz"])
def test_every_format_gives_the_same_rules(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"rows{suffix}"
    write_file(path, make_session_rows())
    assert list_names(canonry.learn(path)) == [("shop.example", "param:zog")]


def write_file(path: Path, rows: Rows) -> None:
    if path.suffix == ".parquet":
        import pyarrow
        import pyarrow.parquet

        pa: Any = pyarrow
        table = pa.table({"url": [row[0] for row in rows], "content_digest": [row[1] for row in rows]})
        pa.parquet.write_table(table, path)
        return
    lines = {
        ".csv": ["url,content_hash", *(f"{url},{content}" for url, content in rows)],
        ".jsonl": [json.dumps({"url": url, "content_hash": content}) for url, content in rows],
        ".cdx": [" CDX N b a m s k", *(f"x 20240101000000 {url} text/html 200 {content.replace(' ', '')}"
                                       for url, content in rows)],
        ".cdxj": [f'x 20240101000000 {json.dumps({"url": url, "digest": content, "status": "200"})}'
                  for url, content in rows],
    }  # fmt: skip
    text = "\n".join(lines[".cdxj" if path.suffix == ".gz" else path.suffix]) + "\n"
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("missing.csv", None),
        ("rows.txt", "x"),
        ("rows.csv", "address,hash\na,b\n"),
        ("rows.cdx", "nothing of the kind\n"),
        ("rows.jsonl", "{broken\n"),
    ],
)
def test_a_source_that_cannot_be_read_is_an_error_of_one_line(tmp_path: Path, name: str, text: str | None) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(LearnError) as caught:
        canonry.learn(tmp_path / name)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_rows_with_an_invalid_url_are_counted() -> None:
    learned = canonry.learn([*make_session_rows(), ("not a url", "x")])
    assert (learned.rows, learned.invalid, len(learned.rules)) == (121, 1, 1)


def test_rows_without_a_value_for_the_url_are_counted_as_in_files() -> None:
    empty: list[Any] = [(None, "x"), {"url": None, "content_hash": "x"}]
    learned = canonry.learn([*make_session_rows(), *empty])
    assert (learned.rows, learned.invalid, len(learned.rules)) == (122, 2, 1)
    with pytest.raises(LearnError, match="has no url"):
        canonry.learn([{"address": "https://a.example/", "content_hash": "x"}])


def test_a_row_with_text_that_is_no_unicode_is_an_error_that_names_the_column() -> None:
    with pytest.raises(LearnError, match="wrong url"):
        canonry.learn([("https://a.example/\ud800", "x")])


def test_garbage_and_nothing_give_no_rule() -> None:
    assert canonry.learn([]).rules == ()
    rows = [(f"https://[::1]:8{n}/%zz//;;?&&=&{n}#", None) for n in range(50)]
    assert canonry.learn(rows).rules == ()
