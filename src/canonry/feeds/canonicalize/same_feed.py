"""Evidence: do two answers show the same feed? (contract F5)"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from canonry.core.native import normalize
from canonry.feeds.canonicalize.fetcher import called, settled
from canonry.feeds.canonicalize.result import Reason
from canonry.feeds.content import feed_signature, is_overlapping, is_same_signature
from canonry.net.charset import decode

if TYPE_CHECKING:
    from canonry.feeds.read import Feed
    from canonry.net.response import Response

_XML_DECLARATION = re.compile(r"\A\s*<\?xml[^>]*\?>\s*")  # it names the charset, which is no content
Parse: TypeAlias = "Callable[[Response], Feed | Awaitable[Feed]]"
Digest: TypeAlias = Callable[[str], "str | Awaitable[str]"]


@dataclass(frozen=True, slots=True)
class Document:
    """A feed as it was fetched, and what to compare of it."""

    response: Response
    feed: Feed
    text_hash: str

    @property
    def url(self) -> str:
        return self.response.permanent_url


async def read_document(response: Response, *, parse: Parse | None, digest: Digest | None) -> Document:
    """An answer read as a feed; NotAFeed where it is none."""
    from canonry.feeds.read import read_feed

    kind = response.header("content-type")
    if parse is None:
        feed = await asyncio.to_thread(read_feed, response.body, url=response.url, content_type=kind)
    else:
        feed = await settled(parse(response))
    text = _XML_DECLARATION.sub("", decode(response.body, kind))
    text_hash = await called(digest or _sha256, text)
    return Document(response, feed, text_hash)


def evidence(one: Document, other: Document, *, use_signature: bool) -> Reason | None:
    """What proves that both are the same feed; None where nothing does."""
    is_one_form = form(one.url) == form(other.url)
    if one.response.body == other.response.body and (one.feed.items or is_one_form):
        return Reason.CONTENT_VERIFIED
    if not one.feed.items or not other.feed.items:
        return None  # two empty feeds look alike, whatever they are
    if one.text_hash == other.text_hash:
        return Reason.CONTENT_VERIFIED
    urls = one.response.url, other.response.url
    ours, theirs = (feed_signature(each.feed.title, each.feed.items, *urls) for each in (one, other))
    is_same = is_same_signature(ours, theirs) or (is_one_form and is_overlapping(ours, theirs))
    return Reason.SIGNATURE_VERIFIED if use_signature and is_same else None


def form(url: str) -> str:
    """The URL without any cosmetic difference, the scheme included."""
    return normalize(url, "feed-aggressive").partition(":")[2]


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
