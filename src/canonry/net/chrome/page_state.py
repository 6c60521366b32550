"""What is in a tab of Chrome, as its events tell."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from canonry.net.response import Hop

CRASHED = "the tab crashed"
_MAX_DOCUMENTS = 10  # that a page may put in its place
_MAX_DIALOGS = 20
_SOON = 1.0  # seconds: a refresh that comes later is for people who stay


@dataclass(slots=True)
class Document:
    """What the network said about a document."""

    url: str
    status: int = 0
    content_type: str = ""
    retry_after: str = ""
    hops: list[Hop] = field(default_factory=list[Hop])
    is_from_proxy: bool = False


@dataclass(slots=True)
class Page:
    """What is in the main frame, as far as Chrome has told; `lost` says why it cannot be used any more."""

    frame: str
    proxy_mark: str  # of the answers that our proxy makes itself
    documents: dict[str, Document] = field(default_factory=dict[str, Document])  # by loader, in order
    committed: list[str] = field(default_factory=list[str])
    first: str = ""  # the loader of the document that was asked for
    unreachable: str = ""
    is_loading: bool = False
    is_leaving: bool = False
    dialogs: int = 0
    is_crashed: bool = False
    lost: str = ""

    @property
    def loader(self) -> str:
        """Of the document that is there."""
        return self.committed[-1] if self.committed else ""

    @property
    def document(self) -> Document:
        """The latest of which something is known."""
        if self.loader in self.documents:
            return self.documents[self.loader]
        return next(reversed(self.documents.values()), Document(""))

    @property
    def has_come(self) -> bool:
        """Is it there, or one that it has put in its place?"""
        return self.first in self.committed

    def is_settled(self) -> bool:
        """Has it come, and does it stay?"""
        return self.has_come and not self.is_loading and not self.is_leaving

    def hops(self) -> tuple[Hop, ...]:
        """All redirects on the way here."""
        return tuple(hop for each in self.documents.values() for hop in each.hops)

    def take(self, method: str, params: dict[str, Any]) -> bool:  # noqa: PLR0912
        """Learn from an event; False where it says nothing of this page."""
        match method:
            case "Network.requestWillBeSent":
                self._on_request(params)
            case "Network.responseReceived":
                self._on_response(params)
            case "Network.loadingFailed" if self.documents and params["requestId"] == next(reversed(self.documents)):
                self.is_leaving = False  # a download, or nothing
            case "Page.frameNavigated" if params["frame"]["id"] == self.frame:
                self.commit(params["frame"])
            case "Page.frameStartedLoading" if params["frameId"] == self.frame:
                self.is_loading = True
            case "Page.frameStoppedLoading" if params["frameId"] == self.frame:
                self.is_loading = False
            case "Page.frameScheduledNavigation" if params["frameId"] == self.frame:
                self.is_leaving = self.is_leaving or params["delay"] <= _SOON
            case "Page.frameClearedScheduledNavigation" if params["frameId"] == self.frame:
                self.is_leaving = False
            case "Page.frameStartedNavigating" if params["frameId"] == self.frame:
                self.is_leaving = self.is_leaving or params.get("navigationType") != "sameDocument"
            case "Page.javascriptDialogOpening":
                self.dialogs += 1
                if self.dialogs > _MAX_DIALOGS:
                    self.lost = "it asks the reader again and again"
            case "Inspector.targetCrashed":
                self.lost, self.is_crashed = CRASHED, True
            case "Inspector.detached":
                self.lost = self.lost or "the tab was closed"
            case _:
                return False
        return True

    def commit(self, frame: dict[str, Any]) -> None:
        """Another document is there."""
        self.committed.append(frame["loaderId"])
        self.unreachable = frame.get("unreachableUrl", "")
        self.is_loading, self.is_leaving = True, False
        if len(self.committed) > _MAX_DOCUMENTS:
            self.lost = "it goes on to another page again and again"

    def _on_request(self, params: dict[str, Any]) -> None:
        loader = params["loaderId"]
        if params.get("frameId") != self.frame or params["requestId"] != loader:
            return
        document = self.documents.setdefault(loader, Document(""))
        if redirect := params.get("redirectResponse"):
            document.hops.append(Hop(redirect["status"], redirect["url"], params["request"]["url"]))
        document.url = params["request"]["url"]

    def _on_response(self, params: dict[str, Any]) -> None:
        document = self.documents.get(params["requestId"])
        if document is None:
            return
        response = params["response"]
        headers = {name.lower(): value for name, value in response["headers"].items()}
        document.status = response["status"]
        document.content_type = headers.get("content-type", "").splitlines()[0] if headers.get("content-type") else ""
        document.retry_after = headers.get("retry-after", "")
        document.is_from_proxy = headers.get("canonry-proxy") == self.proxy_mark
