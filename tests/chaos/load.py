"""Clients that put bookmarks until they are acknowledged, several spellings of the same URL at once."""

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
from chaos.audit import Promise
from chaos.web import DECOY, SHORTENERS, short_target

if TYPE_CHECKING:
    from collections.abc import Callable

    from chaos.web import Web

ACKNOWLEDGED = {200, 201}
_PATIENCE = 45.0  # seconds for one answer: longer than the service tries, or an old change could come after a new one
_PAUSE = 0.02
_SHORTS = 400  # short links there are
_OWN = 10  # bookmarks of each client whose text it changes


class Load:
    """All clients, and what they were told."""

    def __init__(self, port: int, web: Web, *, seed: int, clients: int = 4) -> None:
        self.promises: list[Promise] = []
        self.requests: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()  # answers that nothing explains
        self.latencies: list[float] = []
        self.waits: list[float] = []  # until acknowledged, all tries together
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
        """Begin nothing new; what was begun has so many seconds to be acknowledged."""
        self._deadline = time.monotonic() + seconds
        self._stop.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(seconds + _PATIENCE + 5)

    def try_once(self, method: str, path: str) -> tuple[int, Any]:
        """One request that is not counted; 0 where nobody answers."""
        try:
            return _asked(self._port, method, path, None)
        except (OSError, http.client.HTTPException, ValueError):
            return 0, None

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Ask until there is an answer that means something; 0 where time is over."""
        began = time.monotonic()
        while True:
            self.requests[method] += 1
            asked = time.monotonic()
            try:
                status, answer = _asked(self._port, method, path, body)
            except (OSError, http.client.HTTPException, ValueError) as error:
                status, answer = 0, None
                self.errors[type(error).__name__] += 1
            now = time.monotonic()
            if status in ACKNOWLEDGED:
                self.latencies.append(now - asked)
                self.waits.append(now - began)
                self.acknowledged_at.append(now)
                return status, answer
            if status:
                self.errors[str(status)] += 1
                if status not in {429, 503}:
                    told = answer.get("detail", "") if isinstance(answer, dict) else ""
                    self.refusals[f"{method} {path.partition('?')[0]}: {status} {told}"[:200]] += 1
                if 400 <= status < 500 and status != 429:
                    return status, answer
            if now > self._deadline:
                self.given_up += 1
                return 0, None
            time.sleep(0.1)

    def put(self, given: str, *, wanted: str = "", query: str = "", **fields: Any) -> None:
        """Keep a bookmark, and remember what was promised."""
        status, answer = self.ask("PUT", f"/api/bookmarks{query}", {"url": given, **fields})
        if status in ACKNOWLEDGED:
            own = canonry.normalize(given)
            text = int(fields.get("description") or 0)
            kept = answer["id"], answer["url"], answer["original_url"]
            self.promises.append(Promise(given, wanted or own, own, status, *kept, text))

    def _run(self, number: int, chance: random.Random) -> None:
        step = 0
        while not self._stop.is_set():
            step += 1
            does = chance.choices(_DEEDS, _WEIGHTS)[0]
            does(self, number, step, chance)
            time.sleep(chance.uniform(0, 2 * _PAUSE))

    def _put_spelling(self, _: int, step: int, chance: random.Random) -> None:
        self.put(_spelling(f"{self._web.blog}/page/{step}", step, chance), title="A title")

    def _put_untitled(self, number: int, step: int, chance: random.Random) -> None:
        """Its title is looked up."""
        self.put(_spelling(f"{self._web.blog}/page/untitled-{number}", step // 10, chance))

    def _put_short(self, _: int, __: int, chance: random.Random) -> None:
        if not self._web.has_names:
            return
        number = chance.randrange(_SHORTS)
        wanted = canonry.normalize(f"{self._web.blog}{short_target(number)}")
        kind = chance.choice("sssh")
        self.put(f"http://{chance.choice(SHORTENERS)}/{kind}{number}", wanted=wanted, title="Short")

    def _put_trap(self, number: int, step: int, chance: random.Random) -> None:
        """Kept it is, but nobody may look what is there."""
        traps = self._web.content.traps
        urls = traps.spellings(f"/bookmark/{number}/{step // 20}")
        if self._web.has_names:
            urls += [
                f"http://{SHORTENERS[0]}/p{number}",
                f"http://{SHORTENERS[0]}/d{number}",
                f"http://{DECOY}/{number}",
            ]
        self.put(chance.choice(urls))

    def _change_text(self, number: int, step: int, chance: random.Random) -> None:
        url = f"{self._web.blog}/page/own/{number}/{chance.randrange(_OWN)}"
        self.put(url, query="?update=true", title="Own", description=str(step))

    def _find(self, _: int, __: int, chance: random.Random) -> None:
        """What was acknowledged is found, at any time."""
        if not self.promises:
            return
        promise = chance.choice(self.promises)
        if promise.wanted != promise.own or promise.url != promise.own:
            return  # a short link moves
        status, answer = self.ask("GET", f"/api/bookmarks?url={quote(promise.given, safe='')}")
        if status == 200 and [each["id"] for each in answer] != [promise.id]:
            self.refusals["GET /api/bookmarks: 200 without what was acknowledged"] += 1


_DEEDS: list[Callable[[Load, int, int, random.Random], None]] = [
    Load._put_spelling,
    Load._put_untitled,
    Load._put_short,
    Load._put_trap,
    Load._change_text,
    Load._find,
]
_WEIGHTS = [55, 5, 10, 5, 10, 15]


def _spelling(page: str, number: int, chance: random.Random) -> str:
    """One of the ways to write a URL with two parameters."""
    query = chance.choice([f"a={number}&b=2", f"b=2&a={number}"])
    noise = chance.choice(["", "&utm_source=x", "&fbclid=1", "&utm_campaign=y&gclid=2"])
    scheme = chance.choice(["http:", "HTTP:", " http:"])
    return page.replace("http:", scheme, 1) + f"?{query}{noise}"


def _asked(port: int, method: str, path: str, body: Any) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE)
    try:
        sent = None if body is None else json.dumps(body)
        connection.request(method, path, sent, {"Content-Type": "application/json"} if sent else {})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"null")
    finally:
        connection.close()
