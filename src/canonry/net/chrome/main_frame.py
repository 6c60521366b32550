"""The state of a tab's main frame, built from Chrome's events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from canonry.errors import FailureKind
from canonry.net.chrome.http_heads import has_proxy_token
from canonry.net.engine import ENDLESS_NAVIGATION, MAX_DOCUMENTS, MAX_REFRESH_SECONDS, PageFailure
from canonry.net.response import NO_VALIDATORS, Hop, Validators

_MAX_DIALOGS = 20

TAB_CRASHED = PageFailure(FailureKind.BROWSER, "The tab crashed")
TAB_CLOSED = PageFailure(FailureKind.BROWSER, "The tab was closed")
ENDLESS_DIALOGS = PageFailure(FailureKind.DIALOG_LOOP, "The page keeps opening dialogs")
_SAME_DOCUMENT = frozenset({"sameDocument", "historySameDocument"})  # navigations to a fragment or a pushed state


@dataclass(slots=True)
class LoadedDocument:
    """The state of one document, from Chrome's network events."""

    url: str
    status: int = 0
    content_type: str = ""
    retry_after: str = ""
    link_header: str = ""
    robots_header: str = ""
    validators: Validators = NO_VALIDATORS
    hops: list[Hop] = field(default_factory=list[Hop])
    is_from_proxy: bool = False  # an answer of this process' proxy, not of a server
    is_complete: bool = False  # all of it has arrived


@dataclass(slots=True)
class MainFrame:
    """The documents of one page load; `failure` is set when the tab can no longer be used."""

    frame_id: str
    proxy_token: str  # marks the responses that the proxy makes itself
    documents: dict[str, LoadedDocument] = field(default_factory=dict[str, LoadedDocument])  # by loader ID, in order
    committed: list[str] = field(default_factory=list[str])  # loader IDs
    requested_loader: str = ""  # of the document that was navigated to
    unreachable_url: str = ""
    is_loading: bool = False
    is_leaving: bool = False  # another document was requested or is scheduled
    dialog_count: int = 0
    failure: PageFailure | None = None

    @property
    def is_crashed(self) -> bool:
        return self.failure is TAB_CRASHED

    @property
    def loader_id(self) -> str:
        """The loader ID of the current document; empty before the first commit."""
        return self.committed[-1] if self.committed else ""

    @property
    def document(self) -> LoadedDocument:
        """The current document, or the latest requested one if nothing is known about the current one."""
        if self.loader_id in self.documents:
            return self.documents[self.loader_id]
        return next(reversed(self.documents.values()), LoadedDocument(""))

    @property
    def has_arrived(self) -> bool:
        """Whether the requested document was committed; a later one may have replaced it."""
        return self.requested_loader in self.committed

    @property
    def first_status(self) -> int:
        """The status of the document that was navigated to; 0 if it had no answer."""
        first = self.documents.get(self.requested_loader)
        return 0 if first is None else first.status

    @property
    def awaited_url(self) -> str:
        """The URL of the document that the frame is loading in place of the current one; empty if there is none."""
        latest = next(reversed(self.documents), "")
        return self.documents[latest].url if self.is_loading and latest not in {"", *self.committed} else ""

    def is_settled(self) -> bool:
        """Whether the page has arrived, has loaded and is not about to be replaced."""
        return self.has_arrived and not self.is_loading and not self.is_leaving

    def list_hops(self) -> tuple[Hop, ...]:
        """Return the HTTP redirects of all documents, in order."""
        return tuple(hop for document in self.documents.values() for hop in document.hops)

    def update(self, method: str, params: dict[str, Any]) -> bool:  # noqa: PLR0912
        """Apply an event; return False if the event does not concern the main frame."""
        match method:
            case "Network.requestWillBeSent":
                self._add_request(params)
            case "Network.responseReceived":
                self._add_response(params)
            case "Network.loadingFinished" if params["requestId"] in self.documents:
                self.documents[params["requestId"]].is_complete = True
            case "Network.loadingFailed" if self.documents and params["requestId"] == next(reversed(self.documents)):
                self.is_leaving = False  # a download, or an empty answer: the current document stays
            case "Page.frameNavigated" if params["frame"]["id"] == self.frame_id:
                self.commit(params["frame"])
            case "Page.frameStartedLoading" if params["frameId"] == self.frame_id:
                self.is_loading = True
            case "Page.frameStoppedLoading" if params["frameId"] == self.frame_id:
                self.is_loading = False
            case "Page.frameScheduledNavigation" if params["frameId"] == self.frame_id:
                self.is_leaving = self.is_leaving or params["delay"] <= MAX_REFRESH_SECONDS
            case "Page.frameClearedScheduledNavigation" if params["frameId"] == self.frame_id:
                self.is_leaving = False
            case "Page.frameStartedNavigating" if params["frameId"] == self.frame_id:
                self.is_leaving = self.is_leaving or params.get("navigationType") not in _SAME_DOCUMENT
            case "Page.javascriptDialogOpening":
                self.dialog_count += 1
                if self.dialog_count > _MAX_DIALOGS:
                    self.failure = ENDLESS_DIALOGS
            case "Inspector.targetCrashed":
                self.failure = TAB_CRASHED
            case "Inspector.detached":
                self.failure = self.failure or TAB_CLOSED
            case _:
                return False
        return True

    def commit(self, frame: dict[str, Any]) -> None:
        """Make the document of a CDP `Page.Frame` the current one."""
        self.committed.append(frame["loaderId"])
        self.unreachable_url = frame.get("unreachableUrl", "")
        self.is_loading, self.is_leaving = True, False
        if len(self.committed) > MAX_DOCUMENTS:
            self.failure = ENDLESS_NAVIGATION

    def _add_request(self, params: dict[str, Any]) -> None:
        loader_id = params["loaderId"]
        if params.get("frameId") != self.frame_id or params["requestId"] != loader_id:
            return
        document = self.documents.setdefault(loader_id, LoadedDocument(""))
        if redirect := params.get("redirectResponse"):
            document.hops.append(Hop(redirect["status"], redirect["url"], params["request"]["url"]))
        document.url = params["request"]["url"]

    def _add_response(self, params: dict[str, Any]) -> None:
        document = self.documents.get(params["requestId"])
        if document is None:
            return
        response = params["response"]
        headers = {name.lower(): value for name, value in response["headers"].items()}
        document.status = response["status"]
        document.content_type = headers.get("content-type", "").splitlines()[0] if headers.get("content-type") else ""
        document.retry_after = headers.get("retry-after", "")
        # Chrome joins the fields of one name by line breaks.
        document.link_header = ", ".join(headers.get("link", "").splitlines())
        document.robots_header = ", ".join(headers.get("x-robots-tag", "").splitlines())
        document.validators = Validators(headers.get("etag", ""), headers.get("last-modified", ""))
        document.is_from_proxy = has_proxy_token(headers, self.proxy_token)
