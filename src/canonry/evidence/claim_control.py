"""Check the redirect and the canonical URL of a page with a control, a made-up URL beside the page (contract E2)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from canonry.errors import FetchFailed, UnsafeUrl
from canonry.evidence.facts import ControlResult
from canonry.evidence.page_controls import judge_control, make_control_url
from canonry.evidence.page_view import PageView, read_page_view
from canonry.evidence.resolve_decisions import PageDoubt
from canonry.net.search_fetcher import raise_for_status

if TYPE_CHECKING:
    from canonry.evidence.facts import PageFact
    from canonry.net.origin import Origin
    from canonry.net.response import Fetch


async def control_claims(fact: PageFact, fetch: Fetch, *, origin: Origin, max_bytes: int) -> PageFact:
    """Return a fact with the result of one request for a made-up URL beside its page."""
    answer: PageView | FetchFailed | UnsafeUrl
    try:
        url = make_control_url(fact.url, fact.permanent_url or fact.canonical_url)
        response = await fetch(url, origin=origin, max_bytes=max_bytes)
        raise_for_status(response, datetime.now(UTC))
        answer = await asyncio.to_thread(read_page_view, response)
    except (FetchFailed, UnsafeUrl) as error:
        answer = error
    own_url = fact.permanent_url or fact.url
    return replace(
        fact, control=judge_claims(judge_control(answer, fact, fact.url, final_url=own_url, own_url=own_url))
    )


def judge_claims(doubt: PageDoubt | None) -> ControlResult:
    """Return the result of a control that raised a doubt, or none."""
    if doubt is None:
        return ControlResult.PASSED
    return ControlResult.NONE if doubt is PageDoubt.NOT_CONTROLLED else ControlResult.SHOWN_EVERYWHERE
