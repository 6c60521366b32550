"""What an answer is for a crawl: a page, a file, nothing, or an error; the same for both engines."""

from __future__ import annotations

from canonry.errors import FailureKind
from canonry.net.engine import PageFailure
from canonry.net.response import is_unavailable_status

_NO_CONTENT = frozenset({204, 205})
DOWNLOAD = PageFailure(FailureKind.DOWNLOAD, "The URL is a download, not a page")
# Types that browsers show in a tab, besides text, pictures and media.
_SHOWN_TYPES = frozenset(
    {
        "",
        "application/ecmascript",
        "application/javascript",
        "application/json",
        "application/pdf",
        "application/x-javascript",
        "application/xhtml+xml",
        "application/xml",
    }
)
_SHOWN_FAMILIES = ("text/", "image/", "audio/", "video/", "multipart/")
# Texts that browsers save instead.
_SAVED_TEXTS = frozenset(
    {"text/calendar", "text/comma-separated-values", "text/csv", "text/rtf", "text/tab-separated-values", "text/vcard"}
)


def explain_status(status: int) -> PageFailure | None:
    """Return the failure that a status stands for; None for a page, and for status 0, no answer."""
    if status in _NO_CONTENT:
        return PageFailure(FailureKind.NO_CONTENT, f"The server sent no page (status {status})")
    if not status or 200 <= status < 300:
        return None
    kind = FailureKind.UNAVAILABLE if is_unavailable_status(status) else FailureKind.STATUS
    return PageFailure(kind, f"the server answered {status}")


def has_links(status: int) -> bool:
    """Return whether links are read from an answer: also from pages that explain a missing one (404, 410)."""
    return status not in _NO_CONTENT and (200 <= status < 300 or 400 <= status < 500) and status != 429


def is_download(content_type: str, disposition: str) -> bool:
    """Return whether a browser saves an answer with these headers as a file instead of showing it."""
    if disposition.partition(";")[0].strip().lower() not in {"", "inline"}:
        return True
    kind = content_type.partition(";")[0].strip().lower()
    is_text = kind.endswith(("+xml", "+json")) or kind.startswith(_SHOWN_FAMILIES)
    return kind in _SAVED_TEXTS or not (is_text or kind in _SHOWN_TYPES)
