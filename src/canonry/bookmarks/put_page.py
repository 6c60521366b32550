"""Save the page at a URL, unless it is saved already, under this URL or under another one (contract E5, U4)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from canonry.bookmarks.bookmark import OnDuplicate
from canonry.bookmarks.bookmark_store import put_again, put_bookmark
from canonry.bookmarks.identity_lookup import find_saved_alias
from canonry.errors import PageAlreadySaved

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from canonry.bookmarks.bookmark import BookmarkFields, BookmarkUrl, PutResult


def put_page(
    connection: Connection,
    owner: int,
    url: BookmarkUrl,
    fields: BookmarkFields,
    now: str,
    on_duplicate: OnDuplicate,
    created_at: str = "",
) -> PutResult:
    """Insert a bookmark, or do what `on_duplicate` says if its URL, or a proven alias of it, is saved already.

    ERROR raises AlreadySaved for the URL, and PageAlreadySaved for an alias.
    """
    match = None if on_duplicate is OnDuplicate.ALLOW else find_saved_alias(connection, owner, url)
    if match is None:
        return put_bookmark(connection, owner, url, fields, now, on_duplicate, created_at)
    if on_duplicate is OnDuplicate.ERROR and match.evidence is not None:
        raise PageAlreadySaved(match.bookmark.id, match.bookmark.url, match.evidence)
    put = put_again(connection, owner, match.bookmark, fields, now, on_duplicate)
    return replace(put, alias=url.url, evidence=match.evidence)
