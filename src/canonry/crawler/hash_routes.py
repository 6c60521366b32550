"""Hash routes: pages that a script shows for a fragment such as `#/about` or `#!/about`."""

from __future__ import annotations

_PREFIXES = ("/", "!/")


def find_route(url: str) -> str:
    """Return the fragment of a URL with `#` if it names a route; empty for `#/`, the first page, and others."""
    fragment = url.partition("#")[2]
    return f"#{fragment}" if fragment.startswith(_PREFIXES) and fragment not in _PREFIXES else ""
