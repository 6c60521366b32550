"""Where redirects lead, and which of their targets may stand for what was asked for (contract F3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from canonry.core.native import normalize
from canonry.core.url import parse
from canonry.net.response import PERMANENT_REDIRECTS
from canonry.net.transient_urls import is_transient
from canonry.net.wall_urls import is_wall

if TYPE_CHECKING:
    from collections.abc import Sequence

    from canonry.net.response import Hop, Response


def find_adoptable_url(response: Response) -> str:
    """Return the URL that may replace the one that was requested, as `follow_permanent_redirects` finds it."""
    return follow_permanent_redirects(response.hops, response.url)


def follow_permanent_redirects(hops: Sequence[Hop], final_url: str) -> str:
    """Return where the permanent redirects at the start of a chain lead.

    The chain ends before the first other redirect, and before a stopgap.
    """
    for hop in hops:
        if hop.status not in PERMANENT_REDIRECTS or is_stopgap(hop.location, hop.url):
            return hop.url
    return final_url


def is_stopgap(url: str, own_url: str) -> bool:
    """Return whether a URL shows something for now in the place of `own_url`, and so must not replace it.

    These are URLs that were made for one request, and those of login forms, consent walls and error pages.
    """
    return (is_transient(url) and not is_transient(own_url)) or (is_wall(url) and not is_wall(own_url))


def find_temporary_targets(response: Response) -> frozenset[str]:
    """Return the URLs that only a temporary redirect led to, as `strip_cosmetics` writes them (contract F3)."""
    kept = find_adoptable_url(response)
    chain = [*(hop.url for hop in response.hops), response.url]
    return frozenset(map(strip_cosmetics, chain[chain.index(kept) + 1 :])) - {strip_cosmetics(kept)}


def list_aliases(response: Response) -> list[str]:
    """List the URLs that redirected to a response, up to where permanent redirects ended."""
    chain = [*(hop.url for hop in response.hops), response.url]
    return chain[: chain.index(find_adoptable_url(response)) + 1]


def swap_scheme(url: str) -> str:
    """Return the http twin of an https URL, and the other way round."""
    parts = parse(url)
    parts.set_scheme("http" if parts.scheme == "https" else "https")
    return str(parts)


def strip_cosmetics(url: str) -> str:
    """Return the `feed-aggressive` form of a URL without its scheme: equal for URLs that differ only in form."""
    return normalize(url, "feed-aggressive").partition(":")[2]
