"""The requests of a page that are under way, counted from Chrome's network events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

# Requests that add no links to a page, or that stay open on purpose.
_IGNORED_TYPES = frozenset(
    {"CSPViolationReport", "EventSource", "Font", "Image", "Manifest", "Media", "Ping", "Prefetch", "TextTrack"}
)
_STREAM = "text/event-stream"


class _Source(NamedTuple):
    """The document and the frame that sent a request."""

    loader_id: str
    frame_id: str


@dataclass(slots=True)
class PendingRequests:
    """The requests of one visit whose answer may still add links; `last_change` is when one began or ended.

    Only requests whose end Chrome reports for this tab are counted: it does not report that of a frame of another site,
    which gets a process of its own, nor that of the script of a worker.
    """

    frame_id: str  # the main frame
    last_change: float = 0.0
    _sources: dict[str, _Source] = field(default_factory=dict[str, _Source])  # by request ID

    def __len__(self) -> int:
        return len(self._sources)

    def is_quiet(self, now: float, seconds: float) -> bool:
        """Return whether no request is under way, and none was during the last `seconds`."""
        return not self._sources and now - self.last_change >= seconds

    def update(self, method: str, params: dict[str, Any], now: float) -> None:
        """Apply an event of the tab."""
        match method:
            case "Network.requestWillBeSent" if params.get("type") not in _IGNORED_TYPES and params["loaderId"]:
                self._sources[params["requestId"]] = _Source(params["loaderId"], params.get("frameId", ""))
                self.last_change = now
            case "Network.responseReceived" if params["response"].get("mimeType") == _STREAM:
                self._sources.pop(params["requestId"], None)
            case "Network.loadingFinished" | "Network.loadingFailed":
                if self._sources.pop(params["requestId"], None) is not None:
                    self.last_change = now
            case "Page.frameNavigated" if params["frame"]["id"] == self.frame_id:
                kept = params["frame"]["loaderId"]  # requests of the previous document no longer matter
                self._sources = {
                    request: source for request, source in self._sources.items() if source.loader_id == kept
                }
            case "Page.frameDetached":  # removed, or moved to another process
                left = params["frameId"]
                kept_requests = {name: source for name, source in self._sources.items() if source.frame_id != left}
                if len(kept_requests) < len(self._sources):
                    self._sources, self.last_change = kept_requests, now
            case _:
                pass
