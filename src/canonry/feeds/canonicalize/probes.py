"""Probes: other URLs under which a publishing system serves the same feed (contract F14)."""

from __future__ import annotations

import re

from canonry.core.rules import drop_params, get_param_name
from canonry.core.url import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# The value of WordPress's `feed` parameter → the path of the same feed.
_WORDPRESS_PATHS = {
    "feed": "feed/",
    "rss2": "feed/",
    "rss": "feed/rss/",
    "rdf": "feed/rdf/",
    "atom": "feed/atom/",
    "comments-rss2": "comments/feed/",
    "comments-atom": "comments/feed/atom/",
}


# The end of a path that names a feed already; the parameter then repeats it or chooses another format.
_FEED_AT_END = re.compile(r"/(comments/)?feed(?:/(?:feed|rss2?|rdf|atom))?/?$")


def probe_wordpress(url: str) -> str | None:
    """`/blog/?feed=atom&cat=5` → `/blog/feed/atom/?cat=5`; None if the URL is not such a feed."""
    parts = parse(url)
    values = [param.partition("=")[2] for param in (parts.query or "").split("&") if get_param_name(param) == "feed"]
    if len(values) != 1 or values[0].lower() not in _WORDPRESS_PATHS:
        return None
    feed_path = _WORDPRESS_PATHS[values[0].lower()]
    named = _FEED_AT_END.search(parts.path)
    if named is None:
        folder, _, page = parts.path.rpartition("/")
        if page not in {"", "index.php"}:
            return None
    else:
        folder = parts.path[: named.start()]
        if bool(named[1]) != feed_path.startswith("comments/"):
            return None  # the path and the parameter name different feeds
    parts.path = f"{folder}/{feed_path}"
    parts.query = drop_params(parts.query, lambda param: get_param_name(param) == "feed")
    parts.fragment = None
    return str(parts)


PROBES: dict[str, Callable[[str], str | None]] = {"wordpress": probe_wordpress}
