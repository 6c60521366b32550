"""Compare two fetched feeds: are they the same feed? (contract F5)"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from canonry.feeds.canonicalize.result import DifferenceKind, FeedDifference, Reason
from canonry.feeds.content import feed_signature, is_overlapping, is_same_signature, is_similar_length
from canonry.net.charset import decode
from canonry.net.moved_urls import find_adoptable_url, strip_cosmetics
from canonry.net.search_fetcher import await_if_needed, run_callback

if TYPE_CHECKING:
    from canonry.feeds.read import Feed
    from canonry.net.response import Response

# The declaration names the charset of the bytes, which is not part of the content.
_XML_DECLARATION = re.compile(r"\A\s*<\?xml[^>]*\?>\s*")
Parse: TypeAlias = "Callable[[Response], Feed | Awaitable[Feed]]"
Digest: TypeAlias = Callable[[str], "str | Awaitable[str]"]


@dataclass(frozen=True, slots=True)
class FetchedFeed:
    """A response, the feed in it, and the hash of its text."""

    response: Response
    feed: Feed
    text_hash: str

    @property
    def url(self) -> str:
        """The URL to adopt: where permanent redirects ended (contract F3), before a URL for one request."""
        return find_adoptable_url(self.response)


async def read_response(
    response: Response, *, parse: Parse | None, digest: Digest | None, max_bytes: int
) -> FetchedFeed:
    """Read a response as a feed; raise NotAFeed if it is not one."""
    from canonry.feeds.read import read_feed

    content_type = response.header("content-type")
    if parse is None:
        feed = await asyncio.to_thread(
            read_feed, response.body, url=response.url, content_type=content_type, max_bytes=max_bytes
        )
    else:
        feed = await await_if_needed(parse(response))
    text = _XML_DECLARATION.sub("", decode(response.body, content_type))
    text_hash = await run_callback(digest or _hash_text, text)
    return FetchedFeed(response, feed, text_hash)


def find_evidence(one: FetchedFeed, other: FetchedFeed, *, use_signature: bool) -> Reason | None:
    """Return what proves that both are the same feed, or None."""
    differs_only_in_form = strip_cosmetics(one.url) == strip_cosmetics(other.url)
    if one.response.body == other.response.body and (one.feed.items or differs_only_in_form):
        return Reason.CONTENT_VERIFIED
    if not one.feed.items or not other.feed.items:
        return None  # empty feeds look alike, so they prove nothing
    if one.text_hash == other.text_hash:
        return Reason.CONTENT_VERIFIED
    if not use_signature:
        return None
    urls = one.response.url, other.response.url
    signature, other_signature = (feed_signature(each.feed.title, each.feed.items, *urls) for each in (one, other))
    if is_same_signature(signature, other_signature):
        return Reason.SIGNATURE_VERIFIED
    if differs_only_in_form and is_overlapping(signature, other_signature):
        return Reason.SIGNATURE_VERIFIED
    return None


def find_differences(one: FetchedFeed, other: FetchedFeed, *, use_signature: bool) -> tuple[FeedDifference, ...]:
    """Return in what two feeds differ, for two feeds without evidence that they are the same."""
    counts = len(one.feed.items), len(other.feed.items)
    urls = one.response.url, other.response.url
    first, second = (feed_signature(each.feed.title, each.feed.items, *urls) for each in (one, other))
    found: list[FeedDifference] = []
    if first.title != second.title:
        found.append(FeedDifference(DifferenceKind.TITLE, first.title, second.title))
    if 0 in counts:
        found.append(FeedDifference(DifferenceKind.NO_ITEMS, *map(str, counts)))
    elif first.items != second.items:
        only = len(first.items - second.items), len(second.items - first.items)
        found.append(FeedDifference(DifferenceKind.ITEMS, *map(str, only)))
    elif not is_similar_length(first, second):
        found.append(FeedDifference(DifferenceKind.TEXT_SIZE, str(first.text_length), str(second.text_length)))
    if not found and not use_signature:
        sizes = len(one.response.body), len(other.response.body)
        found.append(FeedDifference(DifferenceKind.CONTENT, *map(str, sizes)))
    return tuple(found)


def _hash_text(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
