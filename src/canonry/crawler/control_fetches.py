"""Control fetches of a crawl: some pages are requested again, or without one of their parameters (contract C8).

They show how much a page changes between two requests and which parameters do not matter, which is what rules are
learned from (contract L). At most one request in 25 is such a fetch, and only pages whose URL has parameters are
controlled. Their results are facts, never pages of the crawl.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from sqlalchemy import Connection, insert

from canonry.core.url import parse
from canonry.crawler.results import PageState
from canonry.evidence.same_page import MIN_WORDS
from canonry.store.schema import crawl_controls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from canonry.crawler.results import PageResult
    from canonry.evidence.facts import PageFact

_REQUESTS_PER_CONTROL = 25


class ControlKind(StrEnum):
    """How a control fetch differs from the request for the page."""

    REPEAT = "repeat"  # not at all
    VARIANT = "variant"  # one parameter is left out


@dataclass(frozen=True, slots=True)
class ControlFetch:
    """A control fetch to send."""

    kind: ControlKind
    url: str


@dataclass(frozen=True, slots=True)
class ControlledPage:
    """The result of a control fetch; `page_url` is the URL of the page that it controls."""

    kind: ControlKind
    page_url: str
    fact: PageFact


class ControlBudget:
    """Chooses the pages that one process controls, so that few of its requests are control fetches."""

    def __init__(self, *, is_enabled: bool) -> None:
        self._is_enabled = is_enabled
        self._requests = 0
        self._controls = 0

    def choose(self, result: PageResult) -> ControlFetch | None:
        """Count a page that was requested; return the control fetch for it, if one is due."""
        self._requests += 1
        is_due = self._requests >= _REQUESTS_PER_CONTROL * (self._controls + 1)
        if not (self._is_enabled and is_due and _is_controllable(result)):
            return None
        fetch = choose_control(result.page.requested_url, self._controls)
        if fetch is not None:
            self._controls += 1
        return fetch


def choose_control(url: str, number: int) -> ControlFetch | None:
    """Return the control fetch for a page, by turns a repeat and a variant; None for a URL without parameters."""
    parts = parse(url)
    parameters = [each for each in (parts.query or "").split("&") if each]
    if not parameters:
        return None
    if number % 2 == 0:
        return ControlFetch(ControlKind.REPEAT, url)
    del parameters[number // 2 % len(parameters)]
    parts.query = "&".join(parameters) or None
    return ControlFetch(ControlKind.VARIANT, str(parts))


def save_controls(connection: Connection, crawl_id: int, controls: Sequence[ControlledPage]) -> None:
    """Store what control fetches of a crawl showed."""
    rows = [
        {
            "crawl_id": crawl_id,
            "kind": each.kind.value,
            "page_url": each.page_url,
            "url": each.fact.url,
            "status": each.fact.status,
            "text_hash": each.fact.fingerprint.text_hash,
            "simhash": f"{each.fact.fingerprint.simhash:016x}",
            "words": each.fact.fingerprint.words,
            "fetched_at": each.fact.fetched_at,
        }
        for each in controls
    ]
    if rows:
        connection.execute(insert(crawl_controls), rows)


def _is_controllable(result: PageResult) -> bool:
    is_read = result.state is PageState.DONE and result.status == 200 and not result.redirects_to
    return is_read and result.fingerprint.words >= MIN_WORDS and "#" not in result.page.requested_url
