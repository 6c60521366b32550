"""Read what a response says about WebSub: its hubs, and the URL under which they know the feed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from canonry.core.url import join
from canonry.errors import InvalidUrl
from canonry.net.page_facts import parse_link_header

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from canonry.feeds.read import Feed
    from canonry.net.response import Response

_MAX_HUBS = 5
_MAX_URL_CHARS = 2000


class HubLinks(NamedTuple):
    """The hubs of a feed, and the URL under which they know it, empty if the feed does not say it."""

    hubs: tuple[str, ...] = ()
    topic: str = ""


def find_hub_links(response: Response, read: Feed) -> HubLinks:
    """Return the hubs and the topic of a feed; the Link headers come before the document (WebSub, section 4)."""
    header = response.header("link")
    if not header and not read.hubs:  # true of most feeds
        return HubLinks()
    links = [(link.rel.lower().split(), link.url) for link in parse_link_header(header, response.url)]
    hubs = [*(url for relations, url in links if "hub" in relations), *read.hubs]
    topics = [*(url for relations, url in links if "self" in relations), read.self_url]
    found = tuple(dict.fromkeys(_select_usable(hubs, response.url)))[:_MAX_HUBS]
    return HubLinks(found, next(_select_usable(topics, response.url), "")) if found else HubLinks()


def _select_usable(urls: Iterable[str], base: str) -> Iterator[str]:
    """Yield the http(s) URLs, absolute and not too long."""
    for url in filter(None, urls):
        try:
            absolute = join(base, url)
        except InvalidUrl:
            continue
        if len(absolute) <= _MAX_URL_CHARS and absolute.startswith(("http://", "https://")):
            yield absolute
