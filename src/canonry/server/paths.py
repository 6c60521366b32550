"""What follows from the path of a request: page or API, the kind of authentication, whether a GET may write."""

from __future__ import annotations

from canonry.feeds.websub import CALLBACK_PATH

PROBES = frozenset({"/healthz", "/readyz"})


def is_api(path: str) -> bool:
    """Return whether a path is for programs, not for people."""
    return path.startswith(("/api/", "/v1/")) or path in {"/api", "/metrics"} or path in PROBES


def is_feed_document(path: str) -> bool:
    """Return whether a path is a list of items for feed readers, which know Basic authentication and no tokens."""
    return path.startswith("/api/") and path.endswith(("/items.atom", "/items.json"))


def checks_own_token(path: str) -> bool:
    """Return whether a path belongs to an API of another service, which always requires its own kind of token.

    The APIs of Pinboard and Google Reader: their GETs write, or their requests are forms.
    """
    return path.startswith(("/v1/", "/api/greader/"))


def answers_head(path: str) -> bool:
    """Return whether HEAD is answered like GET: not where a GET may write, as the confirmation of a hub does."""
    return not checks_own_token(path) and not path.startswith(CALLBACK_PATH)
