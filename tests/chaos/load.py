"""Clients that save bookmarks at the same time, several spellings of the same URLs, and retry until acknowledged."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import canonry
from chaos.audit import Acknowledgement
from chaos.web import DECOY, SHORTENERS, make_short_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from chaos.web import Web

SUCCESS = {200, 201}
_BUSY = {429, 503}
# Longer than the service works on a request; otherwise an old change could be stored after a newer one.
_RESPONSE_SECONDS = 45.0
_RETRY_SECONDS = 0.1
_MEAN_PAUSE_SECONDS = 0.02  # between two requests of a client
_SHORT_LINKS = 400
_CHANGED_BOOKMARKS = 10  # bookmarks of each client whose description it changes


class Load:
    """All clients, and what they measured; times are in seconds."""

    def __init__(self, port: int, web: Web, *, seed: int, clients: int = 4) -> None:
        self.acknowledgements: list[Acknowledgement] = []
        self.requests: Counter[str] = Counter()  # by method
        self.errors: Counter[str] = Counter()  # by status, or by exception
        self.unexpected: Counter[str] = Counter()  # responses that a failing part does not explain
        self.latencies: list[float] = []  # of successful requests
        self.waits: list[float] = []  # from the first try to success
        self.acknowledged_at: list[float] = []
        self.given_up = 0
        self._port = port
        self._web = web
        self._stop = threading.Event()
        self._deadline = float("inf")
        self._threads = [
            threading.Thread(target=self._run, args=(number, random.Random(f"{seed}-{number}")), daemon=True)
            for number in range(clients)
        ]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.finish(0)

    def finish(self, seconds: float) -> None:
        """Stop the clients; the requests that are under way are retried for so many seconds."""
        self._deadline = time.monotonic() + seconds
        self._stop.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(seconds + _RESPONSE_SECONDS + 5)

    def is_ready(self) -> bool:
        """Return whether the service reports that it is ready; this request is not counted."""
        try:
            return _send(self._port, "GET", "/readyz", None)[0] == 200
        except (OSError, http.client.HTTPException, ValueError):
            return False

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Send a request until it succeeds or is refused; return the status, 0 when the time is over, and the JSON."""
        began = time.monotonic()
        while True:
            self.requests[method] += 1
            sent_at = time.monotonic()
            try:
                status, answer = _send(self._port, method, path, body)
            except (OSError, http.client.HTTPException, ValueError) as error:
                status, answer = 0, None
                self.errors[type(error).__name__] += 1
            now = time.monotonic()
            if status in SUCCESS:
                self.latencies.append(now - sent_at)
                self.waits.append(now - began)
                self.acknowledged_at.append(now)
                return status, answer
            if status:
                self.errors[str(status)] += 1
                if status not in _BUSY:
                    detail = answer.get("detail", "") if isinstance(answer, dict) else ""
                    self.unexpected[f"{method} {path.partition('?')[0]}: {status} {detail}"[:200]] += 1
                if 400 <= status < 500 and status != 429:
                    return status, answer
            if now > self._deadline:
                self.given_up += 1
                return 0, None
            time.sleep(_RETRY_SECONDS)

    def save(self, url: str, *, title: str = "", target_url: str = "", revision: int = 0, update: bool = False) -> None:
        """Save a bookmark and record its acknowledgement; `update` changes the bookmark if it is already saved."""
        fields = {"title": title, "description": str(revision) if revision else ""}
        body = {"url": url, **{name: text for name, text in fields.items() if text}}
        status, answer = self.request("PUT", "/api/bookmarks?update=true" if update else "/api/bookmarks", body)
        if status in SUCCESS:
            normal_url = canonry.normalize(url)
            self.acknowledgements.append(
                Acknowledgement(
                    url,
                    target_url or normal_url,
                    normal_url,
                    status,
                    answer["id"],
                    answer["url"],
                    answer["original_url"],
                    revision,
                )
            )

    def _run(self, number: int, chance: random.Random) -> None:
        step = 0
        while not self._stop.is_set():
            step += 1
            action = chance.choices(_ACTIONS, _WEIGHTS)[0]
            action(self, number, step, chance)
            time.sleep(chance.uniform(0, 2 * _MEAN_PAUSE_SECONDS))

    def _save_spelling(self, _: int, step: int, chance: random.Random) -> None:
        self.save(_make_spelling(f"{self._web.blog}/page/{step}", step, chance), title="A title")

    def _save_untitled(self, number: int, step: int, chance: random.Random) -> None:
        """Save a bookmark without a title, so that the service fetches it."""
        self.save(_make_spelling(f"{self._web.blog}/page/untitled-{number}", step // 10, chance))

    def _save_short_link(self, _: int, __: int, chance: random.Random) -> None:
        if not self._web.has_shorteners:
            return
        number = chance.randrange(_SHORT_LINKS)
        target_url = canonry.normalize(f"{self._web.blog}{make_short_path(number)}")
        kind = chance.choice("sssh")
        self.save(f"http://{chance.choice(SHORTENERS)}/{kind}{number}", target_url=target_url, title="Short")

    def _save_trap(self, number: int, step: int, chance: random.Random) -> None:
        """Save a URL of the traps: the bookmark is accepted, but the service must not fetch it."""
        traps = self._web.content.traps
        urls = traps.make_spellings(f"/bookmark/{number}/{step // 20}")
        if self._web.has_shorteners:
            urls += [
                f"http://{SHORTENERS[0]}/p{number}",
                f"http://{SHORTENERS[0]}/d{number}",
                f"http://{DECOY}/{number}",
            ]
        self.save(chance.choice(urls))

    def _change_description(self, number: int, step: int, chance: random.Random) -> None:
        url = f"{self._web.blog}/page/own/{number}/{chance.randrange(_CHANGED_BOOKMARKS)}"
        self.save(url, title="Own", revision=step, update=True)

    def _find(self, _: int, __: int, chance: random.Random) -> None:
        """Look up an acknowledged bookmark by its URL, which must find it at any time."""
        if not self.acknowledgements:
            return
        saved = chance.choice(self.acknowledgements)
        if saved.target_url != saved.normal_url or saved.url != saved.normal_url:
            return  # the URL of a short link changes when it is expanded
        status, answer = self.request("GET", f"/api/bookmarks?url={quote(saved.sent_url, safe='')}")
        if status == 200 and [each["id"] for each in answer] != [saved.id]:
            self.unexpected["GET /api/bookmarks: 200 without the acknowledged bookmark"] += 1


# What a client does: the arguments are the client's number, the number of the step, and the source of randomness.
_ACTIONS: list[Callable[[Load, int, int, random.Random], None]] = [
    Load._save_spelling,
    Load._save_untitled,
    Load._save_short_link,
    Load._save_trap,
    Load._change_description,
    Load._find,
]
_WEIGHTS = [55, 5, 10, 5, 10, 15]


def _make_spelling(page: str, number: int, chance: random.Random) -> str:
    """Return one of the ways to write a URL with two parameters."""
    query = chance.choice([f"a={number}&b=2", f"b=2&a={number}"])
    noise = chance.choice(["", "&utm_source=x", "&fbclid=1", "&utm_campaign=y&gclid=2"])
    scheme = chance.choice(["http:", "HTTP:", " http:"])
    return page.replace("http:", scheme, 1) + f"?{query}{noise}"


def _send(port: int, method: str, path: str, body: Any) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_RESPONSE_SECONDS)
    try:
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text, {"Content-Type": "application/json"} if text else {})
        response = connection.getresponse()
        return response.status, json.loads(response.read() or b"null")
    finally:
        connection.close()
