"""contract F15: every scenario over a real loopback web behind the guarded client, and over a dict as the web."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import canonry
from canonry.core.url import parse, read_url
from dict_web import DictWeb
from loopback import LoopbackWeb

SCENARIOS = json.loads((Path(__file__).parent.parent / "cases" / "feed_scenarios.json").read_text())


def options_of(scenario: dict[str, Any]) -> dict[str, Any]:
    """A scenario's options as those of canonicalize; what the caller knows becomes a callback."""
    options = dict(scenario["options"])
    known = options.pop("exists", None)
    if known is not None:

        async def exists(urls: list[str]) -> canonry.Existing | None:
            return next((canonry.Existing(url) for url in urls if url in known), None)

        options["exists"] = exists
    return {**options, "timeout": 3.0}


def may_send(scenario: dict[str, Any]) -> int | None:
    """How many requests the peer sent, where it was right and had fetched what it returned."""
    peer = scenario["peer"]
    was_right = peer["answer"] == scenario["expected"] and peer["fetches"]
    fetched = str(parse(read_url(scenario["input"])))
    for _ in scenario["pages"]:
        fetched = scenario["pages"].get(fetched, {}).get("headers", {}).get("location", fetched)
    had_fetched = peer["fetches"] > 1 or peer["answer"] in (None, fetched) or "exists" in scenario["options"]
    return peer["wire_requests"] if was_right and had_fetched else None


def test_the_limit_is_the_peers_where_it_was_right() -> None:
    limited = [row["id"] for row in SCENARIOS if may_send(row) is not None]
    assert len(limited) >= 30
    assert "tracking-only" not in limited  # one fetch, and another URL as the answer


async def answer(url: str, **options: Any) -> str | None:
    try:
        return (await canonry.canonicalize(url, **options)).url
    except (canonry.FetchFailed, canonry.NotAFeed, canonry.UnsafeUrl):
        return None


async def over_loopback(scenario: dict[str, Any]) -> tuple[str | None, int]:
    async with LoopbackWeb(scenario["pages"]) as web, web.client() as client:
        found = await answer(scenario["input"], fetch=client.fetch, **options_of(scenario))
        return found, len(web.requests)


@pytest.mark.parametrize("scenario", [pytest.param(row, id=row["id"]) for row in SCENARIOS])
def test_over_loopback(scenario: dict[str, Any]) -> None:
    found, requests = asyncio.run(over_loopback(scenario))
    assert found == scenario["expected"]
    limit = may_send(scenario)
    assert limit is None or requests <= limit


@pytest.mark.parametrize("scenario", [pytest.param(row, id=row["id"]) for row in SCENARIOS])
def test_over_a_dict(scenario: dict[str, Any]) -> None:
    web = DictWeb(scenario["pages"])
    found = asyncio.run(answer(scenario["input"], fetch=web.fetch, **options_of(scenario)))
    assert found == scenario["expected"]
    assert found is None or found in web.fetched or "exists" in scenario["options"]
    limit = may_send(scenario)
    assert limit is None or web.wire_requests <= limit
