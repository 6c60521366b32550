"""Resolve relative references in feeds."""

from __future__ import annotations

import re
from urllib.parse import urljoin

from canonry.core.url import join
from canonry.errors import InvalidUrl

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def resolve_reference(base: str, reference: str) -> str:
    """Resolve a relative reference; return it as written if it is absolute or cannot be resolved."""
    if not base or not reference or _SCHEME.match(reference):
        return reference
    try:
        return join(base, reference) if _SCHEME.match(base) else urljoin(base, reference)
    except (InvalidUrl, ValueError):
        return reference
