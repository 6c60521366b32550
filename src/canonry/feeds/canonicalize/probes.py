"""Probes: the address under which a publishing system serves the same feed (contract F14)."""

from __future__ import annotations

from canonry.core.rules import param_name, without_params
from canonry.core.url import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# The value of WordPress's `feed` parameter and the path that stands for it.
_WORDPRESS = {
    "feed": "feed/",
    "rss2": "feed/",
    "rss": "feed/rss/",
    "rdf": "feed/rdf/",
    "atom": "feed/atom/",
    "comments-rss2": "comments/feed/",
    "comments-atom": "comments/feed/atom/",
}


def wordpress(url: str) -> str | None:
    """`/blog/?feed=atom&cat=5` → `/blog/feed/atom/?cat=5`; None where the URL is no such feed."""
    parts = parse(url)
    asked = [param.partition("=")[2] for param in (parts.query or "").split("&") if param_name(param) == "feed"]
    folder, _, page = parts.path.rpartition("/")
    if len(asked) != 1 or page not in {"", "index.php"} or asked[0].lower() not in _WORDPRESS:
        return None
    parts.path = f"{folder}/{_WORDPRESS[asked[0].lower()]}"
    parts.query = without_params(parts.query, lambda param: param_name(param) == "feed")
    parts.fragment = None
    return str(parts)


PROBES: dict[str, Callable[[str], str | None]] = {"wordpress": wordpress}
