"""A visitor whose browser runs no JavaScript: cookies, links, forms."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

from selectolax.lexbor import LexborHTMLParser

from canonry.accounts import UserStore
from loopback import LoopbackWeb

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator, Mapping, Sequence

    from service import Answer, Running

T = TypeVar("T")
FEED = """<?xml version="1.0"?><rss version="2.0"><channel><title>{title}</title><link>https://feed.test/</link>
<item><guid>1</guid><title>One</title><link>https://feed.test/1</link></item></channel></rss>"""


@dataclass(frozen=True, slots=True)
class Page:
    """A page, parsed as a browser parses it."""

    answer: Answer

    @property
    def status(self) -> int:
        return self.answer.status

    @property
    def text(self) -> str:
        return self.answer.text

    @property
    def tree(self) -> LexborHTMLParser:
        return LexborHTMLParser(self.answer.text)

    @property
    def words(self) -> str:
        """The visible text, with single spaces."""
        body = self.tree.body
        return " ".join(body.text(separator=" ").split()) if body else ""

    @property
    def links(self) -> list[str]:
        """Every URL that a click or the page itself could request."""
        names = ("href", "src", "action", "formaction", "hx-get", "hx-post", "sse-connect")
        found = (node.attributes.get(name) for node in self.tree.css("*") for name in names)
        return [each for each in found if each is not None]

    @property
    def notice(self) -> str:
        """The name of the message after a write; empty if there is none."""
        node = self.tree.css_first("[data-notice]")
        return "" if node is None else node.attributes["data-notice"] or ""

    def value(self, name: str) -> str:
        """Return the value of a field."""
        node = self.tree.css_first(f"[name={name}]")
        assert node is not None, name
        if node.tag == "textarea":
            return node.text().removeprefix("\n")
        return node.attributes.get("value") or ""

    def is_ticked(self, name: str) -> bool:
        node = self.tree.css_first(f"[name={name}]")
        assert node is not None, name
        return "checked" in node.attributes


@dataclass(slots=True)
class Visitor:
    """Sends requests as a browser does, with cookies."""

    running: Running
    cookies: dict[str, str] = field(default_factory=dict[str, str])

    def get(self, path: str, **headers: str) -> Page:
        return self._ask("GET", path, None, headers)

    def post(
        self,
        path: str,
        fields: Mapping[str, str | Sequence[int]] | None = None,
        *,
        csrf: str | None = None,
        **headers: str,
    ) -> Page:
        """Send a form, by default with the CSRF token of our cookie; several numbers are the ticked boxes of a list."""
        sent = {"csrf": self.csrf if csrf is None else csrf, **(fields or {})}
        headers = {"Content-Type": "application/x-www-form-urlencoded", **headers}
        return self._ask("POST", path, urlencode(sent, doseq=True).encode(), headers)

    def upload(self, path: str, name: str, content: bytes, *, csrf: str | None = None, **fields: str) -> Page:
        """Send a form with a file."""
        sent = {"csrf": self.csrf if csrf is None else csrf, **fields}
        parts = [
            f'--xx\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n' for key, value in sent.items()
        ]
        head = f'--xx\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
        body = "".join(parts).encode() + head.encode() + content + b"\r\n--xx--\r\n"
        return self._ask("POST", path, body, {"Content-Type": "multipart/form-data; boundary=xx"})

    def follow(self, page: Page) -> Page:
        """Follow the redirect after a form."""
        assert page.status == 303, (page.status, page.words)
        return self.get(page.answer.headers["location"])

    @property
    def csrf(self) -> str:
        if "canonry_csrf" not in self.cookies:
            self.get("/signin")
        if "canonry_csrf" not in self.cookies:
            self.get("/about")
        return self.cookies["canonry_csrf"]

    def _ask(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Page:
        sent = dict(headers)
        if self.cookies:
            sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        answer = self.running.ask(method, path, body, headers=sent)
        if given := answer.headers.get("set-cookie"):
            name, _, rest = given.partition("=")
            self.cookies[name] = rest.partition(";")[0].strip('"')
            if not self.cookies[name]:
                del self.cookies[name]
        return Page(answer)


def add_user(running: Running, name: str, *, is_admin: bool = False) -> str:
    """Add a user and return a token."""
    _, token = run_elsewhere(UserStore(running.service.database).add(name, datetime.now(UTC), is_admin=is_admin))
    return token


def create_owner_token(running: Running) -> str:
    """Return a token of the owner of personal mode."""
    return run_elsewhere(UserStore(running.service.database).create_token("", datetime.now(UTC)))


def run_elsewhere(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on another thread: Playwright may have an event loop on this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


@contextmanager
def serve_web(pages: Mapping[str, Mapping[str, Any]]) -> Generator[LoopbackWeb]:
    """Serve pages on loopback from another thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    web = LoopbackWeb(pages)
    try:
        asyncio.run_coroutine_threadsafe(web.__aenter__(), loop).result(10)
        try:
            yield web
        finally:
            asyncio.run_coroutine_threadsafe(web.__aexit__(None, None, None), loop).result(10)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
