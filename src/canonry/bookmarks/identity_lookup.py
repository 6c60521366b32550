"""Find the bookmark of a URL: saved under it, under another spelling of it, or under a proven alias (contract B3, E5).

This is the one lookup by URL. `Bookmarks.find_by_identity` in save.py calls it for the API, the search box, the form,
the bookmarklet and the clients.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from sqlalchemy import Connection, select

from canonry.bookmarks.bookmark import Bookmark, ExpansionState
from canonry.bookmarks.bookmark_rows import bookmark_columns, make_key, parse_row
from canonry.bookmarks.bookmark_store import find_bookmarks
from canonry.bookmarks.twins import has_route, make_pair_key
from canonry.bookmarks.url_pipeline import read_http_url
from canonry.core.native import normalize
from canonry.errors import InvalidUrl
from canonry.evidence.fact_store import (
    find_alias_urls,
    find_urls_with_aliases,
    has_aliases,
    load_refused_pairs,
)
from canonry.evidence.same_page import Evidence
from canonry.net.search_fetcher import strip_fragment
from canonry.store.schema import bookmarks

if TYPE_CHECKING:
    from collections.abc import Collection

    from canonry.bookmarks.bookmark import BookmarkUrl

_MAX_SPELLINGS = 400


class MatchKind(StrEnum):
    """How a lookup found a bookmark."""

    URL = "url"  # it is saved under the normal form of the URL
    IDENTITY = "identity"  # it is saved as given, and its normal form is that of the URL
    ALIAS = "alias"  # the URL is proven to show the same page


@dataclass(frozen=True, slots=True)
class BookmarkMatch:
    """A bookmark that a lookup found; `evidence` proves that an alias shows the same page."""

    bookmark: Bookmark
    kind: MatchKind
    evidence: Evidence | None = None


def find_by_identity(
    connection: Connection, owner: int, url: str, *, policy: str, finds_exact: bool = True
) -> BookmarkMatch | None:
    """Return the bookmark of an http(s) URL in any spelling, or of a proven alias; None if there is none.

    Reads the database only. Aliases that the owner said are not the same do not count. Without `finds_exact`, a
    bookmark that was saved as given is found under its own URL only.
    """
    normalized = normalize(url, policy)
    if found := find_by_normal_form(connection, owner, normalized, finds_exact=finds_exact):
        return found
    aliases: dict[str, str] = {}
    for given in _list_pages(url, normalized):
        aliases = find_alias_urls(connection, given, owner) | aliases
    spellings: dict[str, str] = {}
    for alias, evidence in aliases.items():
        for spelling in _list_spellings(alias, policy):
            spellings.setdefault(spelling, evidence)
    refused: set[tuple[str, str]] = load_refused_pairs(connection, owner) if spellings else set()
    for spelling, evidence in list(spellings.items())[:_MAX_SPELLINGS]:
        found = find_by_normal_form(connection, owner, spelling, finds_exact=finds_exact)
        if found and make_pair_key(normalized, found.bookmark.url) not in refused:
            return BookmarkMatch(found.bookmark, MatchKind.ALIAS, Evidence(evidence))
    return None


def find_saved_alias(connection: Connection, owner: int, url: BookmarkUrl) -> BookmarkMatch | None:
    """Return the bookmark to open instead of saving a URL that is not saved: one of a proven alias of it.

    Stricter than `find_by_identity`, because a wrong answer loses what somebody wants to save: an exact URL has no
    alias, a fragment may be what is saved, and doubtful evidence does not count. Reads the database only.
    """
    if url.exact_url or "#" in url.url:
        return None
    given = [url.url]
    if url.original_url is not None and url.expansion is not ExpansionState.EXPANDED:
        with suppress(InvalidUrl):  # a file that is imported may say anything
            given.append(strip_fragment(read_http_url(url.original_url)))
    if not has_aliases(connection, given) or find_bookmarks(connection, owner, url.url):
        return None
    refused = load_refused_pairs(connection, owner)
    for one in given:
        for alias, evidence in find_alias_urls(connection, one, owner, skips_doubtful=True).items():
            for spelling in _list_spellings(alias, url.policy):
                for bookmark in find_bookmarks(connection, owner, spelling):
                    is_refused = any(make_pair_key(each, bookmark.url) in refused for each in given)
                    if not is_refused and "#" not in bookmark.url:
                        return BookmarkMatch(bookmark, MatchKind.ALIAS, Evidence(evidence))
    return None


def find_ids_by_identity(connection: Connection, owner: int, urls: Collection[str], *, policy: str) -> dict[str, int]:
    """Return the ids of the bookmarks that `find_by_identity` finds for these URLs, by URL; a few queries for all.

    Texts that are not http(s) URLs have none.
    """
    normal_forms: dict[str, str] = {}
    for url in urls:
        with suppress(InvalidUrl):
            normal_forms[url] = normalize(read_http_url(url), policy)
    table = bookmarks.c
    keys = {make_key(form) for form in normal_forms.values()}
    is_match = (table.owner_id == owner) & table.same_key.in_(keys) & table.deleted_at.is_(None)
    # Of several, the one whose URL is the normal form wins, then the oldest.
    query = select(table.same_key, table.id).where(is_match).order_by(table.exact_url, table.created_at, table.id)
    by_key: dict[str, int] = {}
    for key, bookmark_id in connection.execute(query):
        by_key.setdefault(key, bookmark_id)
    found = {url: by_key[key] for url, form in normal_forms.items() if (key := make_key(form)) in by_key}
    pages = {url: _list_pages(read_http_url(url), form) for url, form in normal_forms.items() if url not in found}
    with_aliases = find_urls_with_aliases(connection, {page for each in pages.values() for page in each})
    for url in (url for url, each in pages.items() if not with_aliases.isdisjoint(each)):
        match = find_by_identity(connection, owner, read_http_url(url), policy=policy)
        if match is not None:
            found[url] = match.bookmark.id
    return found


def find_by_normal_form(
    connection: Connection, owner: int, url: str, *, finds_exact: bool = True
) -> BookmarkMatch | None:
    """Return the bookmark with this URL, else the oldest one that was saved as given and has it as its normal form."""
    for bookmark in find_bookmarks(connection, owner, url):
        return BookmarkMatch(bookmark, MatchKind.URL)
    if not finds_exact:
        return None
    table = bookmarks.c
    is_match = (table.owner_id == owner) & (table.same_key == make_key(url)) & table.deleted_at.is_(None)
    query = select(*bookmark_columns).where(is_match).order_by(table.created_at, table.id).limit(1)
    for row in connection.execute(query):
        return BookmarkMatch(parse_row(row), MatchKind.IDENTITY)
    return None


def _list_pages(url: str, normalized: str) -> list[str]:
    """List the URLs whose aliases show what a URL shows: without its fragment, unless that selects what is shown."""
    if has_route(normalized):
        return [normalized]
    return list(dict.fromkeys((normalized, strip_fragment(url), strip_fragment(normalized))))


def _list_spellings(url: str, policy: str) -> list[str]:
    try:
        return list(dict.fromkeys((url, normalize(url, policy))))
    except InvalidUrl:
        return [url]
