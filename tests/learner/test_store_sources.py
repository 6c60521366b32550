"""Rules are learned from facts about pages and from what people decided (contract L1, L4)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from sqlalchemy import insert

import canonry
from canonry.cli.group import canonry as command
from canonry.evidence.fact_store import refuse_pair
from canonry.store.database import Database
from canonry.store.schema import bookmark_merges, page_facts

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("duckdb")
AT = "2026-01-01T00:00:00.000000Z"


def make_url(page: int, visit: int) -> str:
    return f"https://shop.example/item?kind={page}&zog={visit}"


def learn_from(url: str, *sources: str) -> dict[str, list[str]]:
    """Return the names of rules, and the reasons of those that were refused."""
    done = CliRunner().invoke(command, ["learn", *sources, "--db", url, "--json"])
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    rules = [row["name"] for row in rows if row["outcome"] == "rule"]
    return {"rules": rules, "refused": [row["reason"] for row in rows if row["outcome"] == "refused"]}


def test_facts_and_merges_are_evidence_and_a_veto_refuses(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/c.db"
    facts = [
        {"url_key": f"{page} {visit}", "url": make_url(page, visit), "form_key": "", "status": 200, "words": 50,
         "text_hash": f"text {page}", "simhash": f"{page:016x}", "body_hash": "", "fetched_at": AT}
        for page in range(20) for visit in (1, 2)
    ]  # fmt: skip
    merges = [
        {"owner_id": 1, "same_key": str(page), "kept_id": 1, "why": "review", "created_at": AT,
         "rows": json.dumps([{"url": make_url(page, visit), "private": 0} for visit in (1, 2)]),
         "undone_at": AT if page % 2 else None}
        for page in range(200, 240)
    ]  # fmt: skip
    with Database(url) as database:
        database.write_now(lambda connection: connection.execute(insert(page_facts), facts))
        database.write_now(lambda connection: connection.execute(insert(bookmark_merges), merges))
    assert learn_from(url, "facts") == {"rules": ["param:zog"], "refused": []}
    assert learn_from(url, "decisions") == {"rules": ["param:zog"], "refused": []}
    with Database(url) as database:
        pair = (make_url(7, 1), make_url(7, 2))
        database.write_now(lambda connection: refuse_pair(connection, 1, *pair, AT))
    assert learn_from(url, "facts") == {"rules": ["param:zog"], "refused": []}
    assert learn_from(url, "facts", "decisions") == {"rules": [], "refused": ["vetoed"]}


def test_vetoes_refuse_only_the_rules_that_merge_the_pair() -> None:
    rows = [(make_url(page, visit) + tail, f"content {page}")
            for page in range(60) for visit in (1, 2) for tail in ("", "&from=mail")]  # fmt: skip
    assert [rule.name for rule in canonry.learn(rows).rules] == ["param:from", "param:zog"]
    learned = canonry.learn(rows, vetoes=[(make_url(3, 1), make_url(3, 2)), (make_url(3, 1), "no URL")])
    assert [rule.name for rule in learned.rules] == ["param:from"]
    (refused,) = learned.refused
    assert (refused.name, refused.reason) == ("param:zog", "vetoed")
    both = canonry.learn(rows, vetoes=[(make_url(3, 1), make_url(3, 2) + "&from=mail")])
    assert both.rules == ()


@pytest.mark.parametrize("folder", ["caf%C3%A9", "a%20b", "x;y", "a+b", "~u", "a.b"])
def test_every_rule_that_is_exported_can_be_read_and_reaches_a_fixed_point(folder: str) -> None:
    """A parameter that matters elsewhere: the rule is about a folder, whose name may not be expressible."""
    rows = [(f"https://s.example/{folder}/{n}?v={v}", f"item {n}") for n in range(40) for v in "abc"]
    rows += [(f"https://s.example/list/{n}?v={v}", f"list {n} {v}") for n in range(40) for v in "abc"]
    learned = canonry.learn(rows)
    policy = canonry.policy("crawl@2").with_overrides(learned.overrides())
    for url, _ in rows:
        once = canonry.normalize(url, policy)
        assert canonry.normalize(once, policy) == once
    assert [rule.name for rule in learned.rules] or "not_expressible" in [rule.reason for rule in learned.refused]
