"""Facts about the pages that a crawl reads, for the table that bookmarks and feeds share (contract C8, E4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from canonry.evidence.facts import PageFact
from canonry.net.moved_urls import follow_permanent_redirects

if TYPE_CHECKING:
    from canonry.evidence.fingerprint import Fingerprint
    from canonry.net.engine import OpenedPage


def make_crawl_fact(url: str, opened: OpenedPage, fingerprint: Fingerprint, fetched_at: str) -> PageFact | None:
    """Return the fact that an opened page is; None for one without a text, or whose text may not be complete.

    `url` is the requested URL without credentials.
    """
    is_read = 200 <= opened.status < 300 and opened.failure is None and fingerprint.words > 0
    if not is_read or opened.is_still_changing or opened.is_target_unread or "#" in url:
        return None
    end = follow_permanent_redirects(opened.hops, opened.final_url)
    own_url = url if not opened.hops else end.partition("#")[0]
    is_elsewhere = end != opened.final_url  # a temporary redirect led to the text, which declares nothing about the URL
    return PageFact(
        url,
        own_url if own_url != url else "",
        "" if is_elsewhere or opened.canonical_url == url else opened.canonical_url,
        opened.status,
        opened.title,
        fingerprint,
        "",
        fetched_at,
        opened.validators,
    )
