"""Compare a crawl with an earlier one of the same site: which pages are new, changed, gone or the same (contract C6).

A page is compared by its text and title. The http engine asks for a page only if it has changed since the earlier
crawl; the answer 304 means that the page is as it was stored. Pages that only the earlier crawl found are opened at the
end, to learn whether they are gone or only no longer linked.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, text

from canonry.core.scope import Verdict
from canonry.crawler.known_pages import make_page_key
from canonry.crawler.pages import PageLink
from canonry.crawler.reasons import SkipReason
from canonry.crawler.results import PageChange, PageOutcome, PageResult, PageState, judge_outcome, read_fingerprint
from canonry.errors import FailureKind
from canonry.net.engine import OpenedPage, PageFailure
from canonry.net.page_facts import NO_FACTS, PageFacts, parse_facts
from canonry.net.response import REDIRECTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from canonry.crawler.crawl_store import Crawl
    from canonry.crawler.judge import Judge
    from canonry.evidence.fingerprint import Fingerprint
    from canonry.net.response import Validators
    from canonry.store.database import Database

_COLUMNS = "state, status, failure, skip_reason, requested_url, final_url, title, text_hash, facts"
_SELECT_BY_KEY = text(f"SELECT {_COLUMNS} FROM crawl_pages WHERE crawl_id = :crawl_id AND key = :key")  # noqa: S608
_SELECT_BY_TARGET = text(
    f"SELECT {_COLUMNS} FROM crawl_pages"  # noqa: S608
    " WHERE crawl_id = :crawl_id AND state = 'done' AND final_url = :final_url ORDER BY id LIMIT 1"
)
_SELECT_STORED = text(
    "SELECT status, final_url, title, links, facts, error, failure, text_hash, simhash, words FROM crawl_pages"
    " WHERE crawl_id = :crawl_id AND key = :key AND state = 'done' AND status < 400"
)
_QUEUE_UNLINKED = text(
    "INSERT INTO crawl_pages (crawl_id, key, url, requested_url, depth, referrer, origin, group_key)"
    " SELECT :crawl_id, earlier.key, earlier.url, earlier.requested_url, earlier.depth, '', earlier.origin,"
    " earlier.group_key"
    " FROM crawl_pages AS earlier WHERE earlier.crawl_id = :previous_id AND earlier.state = 'done'"
    " AND earlier.status < 400 AND earlier.depth <= :max_depth AND NOT EXISTS"
    " (SELECT 1 FROM crawl_pages AS known WHERE known.crawl_id = :crawl_id AND known.key = earlier.key)"
    " ORDER BY earlier.id"
)
_MARK_QUEUED = text("UPDATE crawls SET is_previous_queued = 1 WHERE id = :crawl_id")


@dataclass(frozen=True, slots=True)
class Reading:
    """The facts of a page that two crawls compare."""

    outcome: PageOutcome
    final_url: str = ""
    title: str = ""
    text_hash: str = ""
    facts: PageFacts = NO_FACTS
    leaves_site: bool = False  # it redirects to another host


def decide_change(before: Reading | None, after: Reading) -> PageChange | None:
    """Return how a page changed since the earlier crawl; None if that cannot be told, as for a page that failed.

    A page that now redirects to another one is gone, unless it did so before.
    """
    if before is None or before.outcome is not PageOutcome.READ:
        return PageChange.NEW if after.outcome is PageOutcome.READ else None
    if after.outcome is PageOutcome.READ:
        if after.leaves_site and not before.leaves_site:
            return PageChange.GONE
        return PageChange.SAME if _shows_same(before, after) else PageChange.CHANGED
    if after.outcome is PageOutcome.SKIPPED:
        return None if after.final_url == before.final_url else PageChange.GONE
    return PageChange.GONE if after.outcome is PageOutcome.MISSING else None


def _shows_same(before: Reading, after: Reading) -> bool:
    """Return whether two readings have the same text and title.

    Pages without text are the same if they have the same validators or, without these, the same type and size.
    """
    old, new = before.facts, after.facts
    if before.leaves_site or after.leaves_site:
        return before.final_url == after.final_url
    if before.text_hash or after.text_hash:
        return (before.text_hash, before.title) == (after.text_hash, after.title)
    if old.validators or new.validators:
        return old.validators == new.validators
    is_known = bool(old.content_type) and old.size is not None
    return is_known and (old.content_type, old.size, before.title) == (new.content_type, new.size, after.title)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Compares results with the earlier crawl, inside of the transaction that records them."""

    connection: Connection
    previous_id: int | None

    def judge(self, result: PageResult, url: str) -> PageChange | None:
        """Return how the page `url` changed, which gets this result."""
        is_repeat = result.skip_reason is SkipReason.SESSION_ID
        if self.previous_id is None or result.state is PageState.QUEUED or is_repeat:
            return None
        before = self._find(url) or (self._find(result.redirects_to) if result.redirects_to else None)
        failure = None if result.failure is None else result.failure.kind
        outcome = judge_outcome(result.state, result.status, failure=failure, skip_reason=result.skip_reason)
        leaves_site = result.state is PageState.DONE and result.status in REDIRECTS
        after = Reading(outcome, result.final_url, result.title, result.text_hash, result.facts, leaves_site)
        return decide_change(before, after)

    def _find(self, url: str) -> Reading | None:
        keys = {"crawl_id": self.previous_id, "key": make_page_key(url)}
        row = self.connection.execute(_SELECT_BY_KEY, keys).first()
        if row is not None and row.skip_reason == SkipReason.DUPLICATE:  # recorded under a URL that redirects to it
            target = {"crawl_id": self.previous_id, "final_url": row.requested_url}
            row = self.connection.execute(_SELECT_BY_TARGET, target).first()
        return None if row is None else _make_reading(row)


def _make_reading(row: Row[Any]) -> Reading | None:
    state = PageState(row.state)
    if state in {PageState.QUEUED, PageState.FETCHING}:
        return None
    outcome = judge_outcome(state, row.status, failure=row.failure, skip_reason=row.skip_reason)
    leaves_site = state is PageState.DONE and row.status in REDIRECTS
    return Reading(outcome, row.final_url, row.title, row.text_hash, parse_facts(row.facts), leaves_site)


def queue_unlinked(connection: Connection, crawl_id: int, previous_id: int, *, max_depth: int) -> bool:
    """Queue the pages that only the earlier crawl found; return whether there are any."""
    values = {"crawl_id": crawl_id, "previous_id": previous_id, "max_depth": max_depth}
    count = connection.execute(_QUEUE_UNLINKED, values).rowcount
    connection.execute(_MARK_QUEUED, {"crawl_id": crawl_id})
    return count > 0


@dataclass(frozen=True, slots=True)
class StoredReading:
    """A page as the earlier crawl stored it."""

    status: int
    final_url: str
    title: str
    links: tuple[PageLink, ...]
    facts: PageFacts
    failure: PageFailure | None
    fingerprint: Fingerprint

    @property
    def validators(self) -> Validators:
        return self.facts.validators

    def is_meant_by(self, opened: OpenedPage) -> bool:
        """Return whether the answer 304 is about this page, and not about another one with the same validators."""
        return opened.final_url == self.final_url

    def restore(self, opened: OpenedPage) -> OpenedPage:
        """Return an answer 304 as the page that it stands for, without its links."""
        facts = self.facts
        return replace(
            opened,
            status=self.status,
            title=self.title,
            failure=self.failure,
            content_type=facts.content_type,
            size=facts.size,
            robots_directives=facts.robots_directives,
            hreflangs=facts.hreflangs,
            canonical_url=facts.canonical_url,
            is_still_changing=facts.is_still_changing,
            validators=facts.validators,
        )

    def restore_links(self, result: PageResult, judge: Judge) -> PageResult:
        """Return the result of a restored page with its stored links, whose verdicts still hold."""
        if result.state is not PageState.DONE:
            return result
        followed = sum(link.verdict is Verdict.CRAWL for link in self.links)
        found = judge.find_pages(self.links, result.origin, depth=result.page.depth + 1)
        return replace(
            result,
            links=self.links,
            followed=followed,
            found=found,
            facts=self.facts,
            fingerprint=self.fingerprint,
        )


class History:
    """The pages of the earlier crawl, for conditional requests."""

    def __init__(self, database: Database, previous: Crawl) -> None:
        self._database = database
        self._previous_id = previous.id

    async def find(self, url: str) -> StoredReading | None:
        """Return what was stored about a page; None if it was not read, or has no validators."""
        keys = {"crawl_id": self._previous_id, "key": make_page_key(url)}
        stored = await self._database.read(partial(_load_stored, keys=keys))
        return stored if stored is not None and stored.validators else None


def make_history(database: Database, crawl: Crawl, previous: Crawl | None) -> History | None:
    """Return the earlier crawl if its stored verdicts on links hold in this one; Chrome runs scripts in any case."""
    if previous is None:
        return None
    now, before = crawl.options, previous.options
    is_alike = (now.engine, now.nofollow, now.fixed) == ("http", before.nofollow, before.fixed)
    return History(database, previous) if is_alike and before.engine == "http" and crawl.host == previous.host else None


def _load_stored(connection: Connection, keys: Mapping[str, object]) -> StoredReading | None:
    row = connection.execute(_SELECT_STORED, keys).first()
    if row is None:
        return None
    failure = PageFailure(FailureKind(row.failure), row.error) if row.failure else None
    links = tuple(PageLink.from_row(*values) for values in json.loads(row.links))
    fingerprint = read_fingerprint(row.text_hash, row.simhash, row.words)
    return StoredReading(row.status, row.final_url, row.title, links, parse_facts(row.facts), failure, fingerprint)
