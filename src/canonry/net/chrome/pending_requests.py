"""The requests of a page that are under way, counted from Chrome's network events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

# Requests that add no links to a page, or that stay open on purpose.
_IGNORED_TYPES = frozenset(
    {"CSPViolationReport", "EventSource", "Font", "Image", "Manifest", "Media", "Ping", "Prefetch", "TextTrack"}
)
_STREAM = "text/event-stream"


@dataclass(slots=True)
class PendingRequests:
    """The requests of one visit whose answer may still add links; `last_change` is when one began or ended."""

    frame_id: str  # the main frame
    last_change: float = 0.0
    _loader_ids: dict[str, str] = field(default_factory=dict[str, str])  # by request ID

    def __len__(self) -> int:
        return len(self._loader_ids)

    def is_quiet(self, now: float, seconds: float) -> bool:
        """Return whether no request is under way, and none was during the last `seconds`."""
        return not self._loader_ids and now - self.last_change >= seconds

    def update(self, method: str, params: dict[str, Any], now: float) -> None:
        """Apply an event of the tab."""
        match method:
            case "Network.requestWillBeSent" if params.get("type") not in _IGNORED_TYPES:
                self._loader_ids[params["requestId"]] = params["loaderId"]
                self.last_change = now
            case "Network.responseReceived" if params["response"].get("mimeType") == _STREAM:
                self._loader_ids.pop(params["requestId"], None)
            case "Network.loadingFinished" | "Network.loadingFailed":
                if self._loader_ids.pop(params["requestId"], None) is not None:
                    self.last_change = now
            case "Page.frameNavigated" if params["frame"]["id"] == self.frame_id:
                kept = params["frame"]["loaderId"]  # requests of the previous document no longer matter
                self._loader_ids = {request: loader for request, loader in self._loader_ids.items() if loader == kept}
            case _:
                pass
