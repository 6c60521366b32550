"""What is learned of generated sites can be exported, applied by the command line, and is a fixed point (contract L4)."""

from __future__ import annotations

import random
import subprocess
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest
from benchmarks.learn_adversarial_sites import ADVERSARIAL_KINDS
from benchmarks.learn_late_sites import LATE_KINDS
from benchmarks.learn_sites import KINDS, Row, make_sites
from benchmarks.learn_unseen_sites import UNSEEN_KINDS
from click.testing import CliRunner

import canonry
from canonry.cli.group import canonry as command
from canonry.core import normalize as reference
from canonry.core.url import parse
from canonry.learner.export_rules import make_overrides
from canonry.learner.values import RefusalReason

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("duckdb")
ALL_KINDS = [*KINDS, *UNSEEN_KINDS, *ADVERSARIAL_KINDS, *LATE_KINDS]
NEUTRAL = canonry.Policy("neutral", 1, fragment="drop")


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return [row for site in make_sites(551, ALL_KINDS, hosts=1) for row in site.rows]


@pytest.fixture(scope="module")
def learned(rows: list[Row]) -> canonry.Learned:
    return canonry.learn(rows)


@pytest.mark.slow
def test_the_order_of_rows_does_not_matter(rows: list[Row], learned: canonry.Learned) -> None:
    mixed = list(rows)
    random.Random(3).shuffle(mixed)
    assert canonry.learn(mixed) == learned
    assert canonry.learn(mixed).overrides() == learned.overrides()


@pytest.mark.slow
def test_each_rule_merges_its_examples_and_is_a_fixed_point(rows: list[Row], learned: canonry.Learned) -> None:
    by_host: dict[str, list[str]] = {}
    for row in rows:
        by_host.setdefault(parse(row.url).host, []).append(row.url)
    assert len(learned.rules) > 80
    for rule in learned.rules:
        policy = NEUTRAL.with_overrides(make_overrides([rule.overrides]))
        changed = 0
        for url in {url for host in {host for host, _, _ in rule.overrides} for url in by_host[host]}:
            once = canonry.normalize(url, policy)
            changed += once != canonry.normalize(url, NEUTRAL)
            assert canonry.normalize(once, policy) == once
            assert reference.normalize(url, policy) == once
        assert changed, rule.text
    everything = NEUTRAL.with_overrides(learned.overrides())
    for rule in learned.rules:
        for pair in rule.examples:
            assert canonry.normalize(pair.one, everything) == canonry.normalize(pair.other, everything)


@pytest.mark.slow
def test_the_command_line_learns_and_normalizes(rows: list[Row], learned: canonry.Learned, tmp_path: Path) -> None:
    from canonry.learner.duckdb_engine import SCHEMA

    pa: Any = import_module("pyarrow")
    parquet: Any = import_module("pyarrow.parquet")
    source, overrides = tmp_path / "rows.parquet", tmp_path / "o.json"
    columns = {name: [getattr(row, name) for row in rows] for name in SCHEMA.names}
    parquet.write_table(pa.table(columns, schema=SCHEMA), source)
    done = CliRunner().invoke(command, ["learn", str(source), "--overrides", str(overrides)])
    assert done.exit_code == 0, done.output
    assert overrides.read_text() == learned.overrides()

    def normalize(urls: list[str]) -> list[str]:
        arguments = [sys.executable, "-m", "canonry", "normalize", "--overrides", str(overrides)]
        text = "\n".join(urls) + "\n"
        return subprocess.run(arguments, input=text, capture_output=True, text=True, check=True).stdout.splitlines()

    urls = sorted({row.url for row in rows})
    once = normalize(urls)
    assert len(once) == len(urls)
    assert len(set(once)) < 0.7 * len(urls)
    assert normalize(once) == once


@pytest.mark.parametrize(
    ("urls", "other"),
    [
        # An overrides file reads a* as a prefix: the rule would drop article=7.
        (["https://shop.example/p/{n}?a*=1", "https://shop.example/p/{n}?a*=2"], "https://shop.example/p/1?article=7"),
        (
            ["https://shop.example/p/{n}?a*=1", "https://shop.example/p/{n}?a*=2", "https://shop.example/q/s?a*={n}"],
            "https://shop.example/p/1?article=7",
        ),
    ],
    ids=["everywhere", "below a folder"],
)
def test_a_parameter_that_ends_in_a_star_is_not_exported_as_a_prefix(urls: list[str], other: str) -> None:
    rows = [(url.format(n=n), f"{url.split('?')[0]} {n}") for url in urls for n in range(40)]
    learned = canonry.learn(rows)
    assert canonry.normalize(other, NEUTRAL.with_overrides(learned.overrides())) == other
    reasons = [rule.reason for rule in learned.refused if rule.name.endswith("a*")]
    assert reasons.count(RefusalReason.NOT_EXPRESSIBLE) == 1
