"""Fold pages that repeat another page of the crawl: the same text and title under the same path (contract C8).

Such a page differs in its query only: tracking, a session, a print view. It is recorded, with the page that it repeats,
but its links are not followed again. Links without a query are followed, because no decoration can hide in them, so
that no page is lost. Pages of few words are never folded: they look alike.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING

from sqlalchemy import Connection, bindparam, text

from canonry.core.url import parse
from canonry.crawler.results import PageState
from canonry.evidence.same_page import MIN_WORDS

if TYPE_CHECKING:
    from canonry.crawler.results import PageResult
    from canonry.store.database import Database

_INSERT = text(
    "INSERT INTO crawl_folds (crawl_id, digest, url) VALUES (:crawl_id, :digest, :url) ON CONFLICT DO NOTHING"
)
_SELECT = text("SELECT digest, url FROM crawl_folds WHERE crawl_id = :crawl_id AND digest IN :digests").bindparams(
    bindparam("digests", expanding=True)
)

_SELECT_REPEATS = text(
    "SELECT url, repeats_url FROM crawl_pages WHERE crawl_id = :crawl_id AND repeats_url <> '' ORDER BY id LIMIT :count"
)


def fold_repeats(connection: Connection, crawl_id: int, results: list[PageResult]) -> list[PageResult]:
    """Return results in which pages that repeat another one say so, and their links with a query are not followed."""
    digests = {each.page.id: make_fold_digest(each) for each in results if _has_text(each)}
    if not digests:
        return results
    rows = [
        {"crawl_id": crawl_id, "digest": digests[each.page.id], "url": each.url}
        for each in results
        if each.page.id in digests
    ]
    connection.execute(_INSERT, rows)
    found = connection.execute(_SELECT, {"crawl_id": crawl_id, "digests": sorted(set(digests.values()))})
    firsts = {row.digest: row.url for row in found}
    return [fold_page(each, firsts[digests[each.page.id]]) if each.page.id in digests else each for each in results]


@dataclass(frozen=True, slots=True)
class RepeatedPage:
    """A page of a crawl, and the queries under which it was read again; an empty one for no query."""

    url: str
    queries: tuple[str, ...]


async def list_repeated_pages(database: Database, crawl_id: int, *, limit: int = 50) -> list[RepeatedPage]:
    """Return pages of a crawl that others repeat, from the first `limit` of those others."""
    values = {"crawl_id": crawl_id, "count": limit}
    rows = await database.read(
        lambda connection: [(row.repeats_url, row.url) for row in connection.execute(_SELECT_REPEATS, values)]
    )
    queries: dict[str, list[str]] = {}
    for first_url, url in rows:  # both have the same path
        queries.setdefault(first_url, []).append(parse(url).query or "")
    return [RepeatedPage(url, tuple(each)) for url, each in queries.items()]


def fold_page(result: PageResult, first_url: str) -> PageResult:
    """Return the result of a page that shows what `first_url` showed; the first page itself stays as it is."""
    if _strip_scheme(result.url) == _strip_scheme(first_url) or not result.page.depth:
        return result
    followed = tuple(each for each in result.found if parse(each.url).query is None)
    return replace(result, repeats_url=first_url, found=followed)


def make_fold_digest(result: PageResult) -> str:
    """Return a digest that is equal for pages with the same path, title and text."""
    path = parse(result.url).path
    parts = "\n".join((path, result.title, result.text_hash))
    return blake2b(parts.encode(errors="replace"), digest_size=16).hexdigest()


def _has_text(result: PageResult) -> bool:
    is_read = result.state is PageState.DONE and result.status < 400 and not result.redirects_to
    return is_read and result.fingerprint.words >= MIN_WORDS


def _strip_scheme(url: str) -> str:
    return url.partition(":")[2]
