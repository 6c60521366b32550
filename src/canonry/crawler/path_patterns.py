"""Patterns for paths that a crawl includes or excludes, in the syntax of robots.txt (RFC 9309 section 2.2.3)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class PathPatterns:
    """Which pages a crawl reads: those that match a pattern of `include`, if there are any, and none of `exclude`.

    `/docs/` matches every path with this beginning, `*` any characters, and `$` the end of the path with its query.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    _compiled: dict[str, re.Pattern[str]] = field(default_factory=dict[str, re.Pattern[str]], repr=False, compare=False)

    def find_obstacle(self, url: str) -> str | None:
        """Return the option that leaves out a URL, with its pattern; None if the URL is crawled."""
        if not (self.exclude or self.include):
            return None
        parts = urlsplit(url)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        for pattern in self.exclude:
            if self._matches(pattern, path):
                return f"exclude {pattern}"
        if self.include and not any(self._matches(pattern, path) for pattern in self.include):
            return f"include {' '.join(self.include)}"
        return None

    def _matches(self, pattern: str, path: str) -> bool:
        compiled = self._compiled.get(pattern)
        if compiled is None:
            compiled = self._compiled[pattern] = _compile(pattern)
        return compiled.match(path) is not None


def _compile(pattern: str) -> re.Pattern[str]:
    text, end = (pattern[:-1], r"\Z") if pattern.endswith("$") else (pattern, "")
    parts = [re.escape(part) for part in re.split(r"\*+", text)]
    return re.compile(".*?".join(parts) + end, re.DOTALL)
