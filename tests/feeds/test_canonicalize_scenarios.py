"""Every scenario of contract F15, over servers on loopback behind the guarded client, and over a dict."""

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


def make_options(scenario: dict[str, Any]) -> dict[str, Any]:
    """Return a scenario's options as arguments of canonicalize; the known URLs become a callback."""
    options = dict(scenario["options"])
    known = options.pop("exists", None)
    if known is not None:

        async def exists(urls: list[str]) -> canonry.Existing | None:
            return next((canonry.Existing(url) for url in urls if url in known), None)

        options["exists"] = exists
    # Short only where a server never answers; elsewhere long enough for a busy machine.
    is_slow = any("delay_ms" in page for page in scenario["pages"].values())
    return {**options, "timeout": 5.0 if is_slow else 60.0, "deadline": 240.0}


def get_request_limit(scenario: dict[str, Any]) -> int | None:
    """Return how many requests the peer sent, or None if it was wrong or had not fetched what it returned."""
    peer = scenario["peer"]
    was_right = peer["answer"] == scenario["expected"] and peer["fetches"]
    fetched = str(parse(read_url(scenario["input"])))
    for _ in scenario["pages"]:
        fetched = scenario["pages"].get(fetched, {}).get("headers", {}).get("location", fetched)
    had_fetched = peer["fetches"] > 1 or peer["answer"] in (None, fetched) or "exists" in scenario["options"]
    return peer["wire_requests"] if was_right and had_fetched else None


def test_most_scenarios_have_a_request_limit() -> None:
    limited = [row["id"] for row in SCENARIOS if get_request_limit(row) is not None]
    assert len(limited) >= 30
    assert "tracking-only" not in limited  # one fetch, and another URL as the answer


async def find_url(url: str, **options: Any) -> str | None:
    try:
        return (await canonry.canonicalize(url, **options)).url
    except (canonry.FetchFailed, canonry.NotAFeed, canonry.UnsafeUrl):
        return None


async def canonicalize_over_loopback(scenario: dict[str, Any]) -> tuple[str | None, int]:
    async with LoopbackWeb(scenario["pages"]) as web, web.client() as client:
        found = await find_url(scenario["input"], fetch=client.fetch, **make_options(scenario))
        return found, len(web.requests)


@pytest.mark.parametrize("scenario", [pytest.param(row, id=row["id"]) for row in SCENARIOS])
def test_a_scenario_over_loopback_gives_the_expected_url(scenario: dict[str, Any]) -> None:
    found, requests = asyncio.run(canonicalize_over_loopback(scenario))
    assert found == scenario["expected"]
    limit = get_request_limit(scenario)
    assert limit is None or requests <= limit


@pytest.mark.parametrize("scenario", [pytest.param(row, id=row["id"]) for row in SCENARIOS])
def test_a_scenario_over_a_dict_gives_the_expected_url(scenario: dict[str, Any]) -> None:
    web = DictWeb(scenario["pages"])
    found = asyncio.run(find_url(scenario["input"], fetch=web.fetch, **make_options(scenario)))
    assert found == scenario["expected"]
    assert found is None or found in web.fetched or "exists" in scenario["options"]
    limit = get_request_limit(scenario)
    assert limit is None or web.wire_requests <= limit
