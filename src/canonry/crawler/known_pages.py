"""The pages that a crawl knows: found pages are added, and known ones keep the best that was found about them.

Links to a known page can tell a shorter way from the start page, https, or another spelling of its URL. Pages are
opened before all shorter ways are known; a page whose depth falls passes it on through its stored links.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection, Row, bindparam, text

from canonry.core.native import normalize
from canonry.core.scope import Verdict
from canonry.crawler.crawl_options import parse_options
from canonry.crawler.reasons import SkipReason
from canonry.crawler.results import PageState, PageUrl
from canonry.crawler.session_ids import find_session_id
from canonry.errors import InvalidUrl
from canonry.net.origin import Origin

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from canonry.crawler.crawl_options import CrawlOptions

_MAX_SPELLINGS = 5  # of one page
_KEYS_PER_QUERY = 500


class Spelling(NamedTuple):
    """Another URL as found of a page, who named it, and whether it was requested."""

    requested_url: str
    origin: str
    is_tried: bool = False


@dataclass(frozen=True, slots=True)
class KnownPage:
    """A page of the frontier, as far as links to it can change it."""

    id: int
    key: str
    url: str
    requested_url: str
    origin: str
    depth: int
    state: PageState
    status: int = 0
    skip_reason: str = ""
    is_begun: bool = False
    spellings: tuple[Spelling, ...] = ()

    @property
    def needs_other_spelling(self) -> bool:
        """Whether the page was requested and was not read at this spelling of its URL, but may be at another."""
        return needs_other_spelling(self.state, self.status, self.skip_reason)


def needs_other_spelling(state: PageState, status: int, skip_reason: str | None) -> bool:
    """Return whether a page with this result may be read at another spelling of its URL."""
    if state is PageState.SKIPPED:
        return skip_reason == SkipReason.ROBOTS_DISALLOWED
    return state is PageState.FAILED or (state is PageState.DONE and status >= 400)


def improve_page(known: KnownPage, found: PageUrl, depth: int) -> KnownPage:
    """Return a known page with what a link to it, found on a page at `depth` - 1, adds."""
    page = replace(known, depth=min(known.depth, depth))
    if known.url.startswith("http:") and found.url.startswith("https:"):
        page = replace(page, url=found.url)
        if not known.is_begun:
            before = Spelling(known.requested_url, known.origin)
            page = replace(page, requested_url=found.requested_url, origin=str(found.origin))
            return replace(page, spellings=(*page.spellings, before)[:_MAX_SPELLINGS])
    return _add_spelling(page, Spelling(found.requested_url, str(found.origin)))


def try_next_spelling(page: KnownPage) -> KnownPage | None:
    """Return a page, queued under the next spelling of its URL; None if all were tried."""
    following = next((each for each in page.spellings if not each.is_tried), None)
    if following is None:
        return None
    others = [each for each in page.spellings if each is not following]
    tried = Spelling(page.requested_url, page.origin, is_tried=True)
    return replace(
        page,
        state=PageState.QUEUED,
        requested_url=following.requested_url,
        origin=following.origin,
        spellings=(*others, tried),
    )


def _add_spelling(page: KnownPage, spelling: Spelling) -> KnownPage:
    known = {page.requested_url, *(each.requested_url for each in page.spellings)}
    may_need_it = page.needs_other_spelling or page.state in {PageState.QUEUED, PageState.FETCHING}
    if spelling.requested_url in known or not may_need_it or len(page.spellings) >= _MAX_SPELLINGS:
        return page
    page = replace(page, spellings=(*page.spellings, spelling))
    return (try_next_spelling(page) or page) if page.needs_other_spelling else page


def make_page_key(url: str) -> str:
    """Return the key of a normalized URL: a digest without the scheme, so that http and https are one page."""
    return blake2b(url.partition(":")[2].encode(), digest_size=16).hexdigest()


def make_group_key(url: str) -> str:
    """Return the key that a page has without what looks like a session identifier; empty if there is none."""
    session = find_session_id(url)
    return "" if session is None else make_page_key(session.stripped_url)


_KNOWN_COLUMNS = "id, key, url, requested_url, origin, depth, state, status, skip_reason, begun_at, spellings"
_SELECT_BY_KEYS = text(
    f"SELECT {_KNOWN_COLUMNS} FROM crawl_pages WHERE crawl_id = :crawl_id AND key IN :keys"  # noqa: S608
).bindparams(bindparam("keys", expanding=True))
_SELECT_BY_IDS = text(f"SELECT {_KNOWN_COLUMNS} FROM crawl_pages WHERE id IN :ids").bindparams(  # noqa: S608
    bindparam("ids", expanding=True)
)
_SELECT_LINKS = text(
    "SELECT crawl_pages.state, url, final_url, links, link_origin, skip_reason, options"
    " FROM crawl_pages JOIN crawls ON crawls.id = crawl_id WHERE crawl_pages.id = :id"
)
_INSERT = text(
    "INSERT INTO crawl_pages (crawl_id, key, url, requested_url, depth, referrer, origin, group_key)"
    " VALUES (:crawl_id, :key, :url, :requested_url, :depth, :referrer, :origin, :group_key)"
    " ON CONFLICT (crawl_id, key) DO NOTHING"
)
_UPDATE = text(
    "UPDATE crawl_pages SET url = :url, requested_url = :requested_url, origin = :origin, depth = :depth,"
    " spellings = :spellings WHERE id = :id"
)
_QUEUE_AGAIN = text(
    "UPDATE crawl_pages SET state = 'queued', attempts = 0, retry_at = NULL, is_last_retry = 0, skip_reason = '',"
    " lease = '', lease_until = NULL WHERE id = :id"
)
_SELECT_DEEPEST = text(
    "SELECT id, depth FROM crawl_pages WHERE crawl_id = :crawl_id AND state = 'done' AND depth >= :depth ORDER BY id"
)


class _FoundPages(NamedTuple):
    """Pages that were found on one page, and their depth."""

    pages: Sequence[PageUrl]
    depth: int
    referrer: str


def add_pages(
    connection: Connection,
    crawl_id: int,
    pages: Sequence[PageUrl],
    depth: int,
    referrer: str,
    *,
    max_depth: int | None = None,
) -> list[PageUrl]:
    """Queue pages that are not known yet, and improve known ones; the caller holds the row lock of the crawl.

    Return those of the pages that are new.
    """
    added: list[PageUrl] = []
    waiting = [_FoundPages(pages, depth, referrer)]
    while waiting:
        found = waiting.pop()
        if max_depth is not None and found.depth > max_depth:
            continue
        for start in range(0, len(found.pages), _KEYS_PER_QUERY):
            some = found._replace(pages=found.pages[start : start + _KEYS_PER_QUERY])
            nearer, new = _add_some(connection, crawl_id, some)
            added += new
            waiting += [_find_followers(connection, page.id, page.depth) for page in nearer]
    return added


def follow_deeper(connection: Connection, crawl_id: int, *, before: int, max_depth: int | None) -> None:
    """Queue the pages that were left out because the maximum depth was `before`, and is higher now."""
    for page_id, depth in connection.execute(_SELECT_DEEPEST, {"crawl_id": crawl_id, "depth": before}).all():
        found = _find_followers(connection, page_id, depth)
        add_pages(connection, crawl_id, found.pages, found.depth, found.referrer, max_depth=max_depth)


def load_known_pages(connection: Connection, ids: Iterable[int]) -> dict[int, KnownPage]:
    """Return pages of the frontier by id."""
    return {row.id: _make_known(row) for row in connection.execute(_SELECT_BY_IDS, {"ids": list(ids)})}


def save_known_page(connection: Connection, before: KnownPage, page: KnownPage) -> None:
    """Store what changed about a known page."""
    values = {"id": page.id, "url": page.url, "requested_url": page.requested_url, "origin": page.origin}
    connection.execute(_UPDATE, values | {"depth": page.depth, "spellings": json.dumps(page.spellings)})
    if page.state is PageState.QUEUED and before.state is not PageState.QUEUED:
        connection.execute(_QUEUE_AGAIN, {"id": page.id})


def _add_some(connection: Connection, crawl_id: int, found: _FoundPages) -> tuple[list[KnownPage], list[PageUrl]]:
    """Add pages; return those that were read and are nearer to the start page than they seemed, and the new ones."""
    keys = [make_page_key(page.url) for page in found.pages]
    known = _load_by_keys(connection, crawl_id, keys)
    new: dict[str, PageUrl] = {}  # in the order in which they are first linked
    for key, page in zip(keys, found.pages, strict=True):
        if key not in known:
            new.setdefault(key, page)
    if new:
        rows = [
            {
                "crawl_id": crawl_id,
                "key": key,
                "url": page.url,
                "requested_url": page.requested_url,
                "depth": found.depth,
                "referrer": found.referrer,
                "origin": str(page.origin),
                "group_key": make_group_key(page.url),
            }
            for key, page in new.items()
        ]
        connection.execute(_INSERT, rows)
        if len(new) + len(known) < len(keys):  # one page links to several spellings of a new one
            known = _load_by_keys(connection, crawl_id, keys)
    nearer: dict[str, KnownPage] = {}
    for key, page in zip(keys, found.pages, strict=True):
        before = known.get(key)
        if before is None or (after := improve_page(before, page, found.depth)) == before:
            continue
        save_known_page(connection, before, after)
        known[key] = after
        if after.depth < before.depth and before.state in {PageState.DONE, PageState.SKIPPED}:
            nearer[key] = after
    return list(nearer.values()), list(new.values())


def _load_by_keys(connection: Connection, crawl_id: int, keys: Sequence[str]) -> dict[str, KnownPage]:
    rows = connection.execute(_SELECT_BY_KEYS, {"crawl_id": crawl_id, "keys": keys}) if keys else ()
    return {row.key: _make_known(row) for row in rows}


def _find_followers(connection: Connection, page_id: int, depth: int) -> _FoundPages:
    """Return the pages that a recorded page links to, or redirects to."""
    row = connection.execute(_SELECT_LINKS, {"id": page_id}).one()
    origin = Origin.parse(row.link_origin)
    if row.state == PageState.SKIPPED:
        is_redirect = row.skip_reason == SkipReason.REDIRECT_TO_PAGE
        target = [row.final_url] if is_redirect else []
        return _FoundPages(_make_pages(target, origin, parse_options(row.options)), depth, row.url)
    links: list[list[str]] = json.loads(row.links)  # a link has a source after these, if it is an unusual one
    followed = [
        PageUrl(url, _cut_fragment(href, url), origin)
        for href, url, _, verdict, *_ in links
        if verdict == Verdict.CRAWL
    ]
    return _FoundPages(followed, depth + 1, row.url)


def _cut_fragment(href: str, url: str) -> str:
    """Return the URL to request for a link: with its fragment only if that is a route, which the page's URL has."""
    return href if "#" in url else href.partition("#")[0]


def _make_pages(urls: Sequence[str], origin: Origin, options: CrawlOptions) -> list[PageUrl]:
    try:
        return [PageUrl(normalize(url, options.load_policy()), url, origin) for url in urls if url]
    except InvalidUrl:
        return []


def _make_known(row: Row[Any]) -> KnownPage:
    return KnownPage(
        row.id,
        row.key,
        row.url,
        row.requested_url,
        row.origin,
        row.depth,
        PageState(row.state),
        row.status,
        row.skip_reason,
        row.begun_at is not None,
        tuple([Spelling(url, origin, bool(is_tried)) for url, origin, is_tried in json.loads(row.spellings)]),
    )
