"""The way out for a browser: a forward proxy on loopback that connects only where the guard lets it (contract G1, C7).

Each tab has a door of its own, a port with a password. A name is resolved once, all its addresses are
checked, and the connection goes to one of them. Nothing is followed or cached here: each connection
carries one tunnel or one request, and a redirect comes back as the browser's next request.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass
from hmac import compare_digest
from http import HTTPStatus
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from canonry.core.url import SCHEME_PORTS
from canonry.errors import FetchFailed, UnsafeUrl, mask_credentials
from canonry.net.chrome.relay import Answered, Limits, Passage, Request, TooLong, read_request
from canonry.net.dns import Lookup, resolve_checked, resolve_name

if TYPE_CHECKING:
    from canonry.core.url import Parts
    from canonry.net.guard import Guard
    from canonry.settings import Settings

USER = "canonry"
ADDRESS = "127.0.0.1"
# A page the proxy answers itself: a browser that opens it has learned the password.
HELLO = "http://canonry.invalid/"
_KEPT = 1000  # refusals that are remembered
_LOG = logging.getLogger("canonry.proxy")


@dataclass(frozen=True, slots=True)
class Refusal:
    """What was not reached, and why."""

    target: str
    reason: str


class Proxy:
    """Doors for a browser's tabs; use it as an async context manager."""

    def __init__(
        self, settings: Settings, guard: Guard, *, lookup: Lookup = resolve_name, limits: Limits | None = None
    ) -> None:
        self.settings = settings
        self.guard = guard
        self.lookup = lookup
        self.limits = limits or Limits()
        self.password = secrets.token_urlsafe(24)
        self.mark = secrets.token_hex(16)  # on answers of our own
        self.doors: set[Door] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for door in tuple(self.doors):
            await door.close()

    async def open_door(self) -> Door:
        """A new port that leads out."""
        door = Door(self)
        await door.listen()
        return door

    def knows(self, authorization: str) -> bool:
        wanted = b64encode(f"{USER}:{self.password}".encode()).decode()
        kind, _, given = authorization.partition(" ")
        return kind.lower() == "basic" and compare_digest(given.strip().encode(), wanted.encode())


class Door:
    """A port of the proxy, with what the pages behind it may reach now."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[None], Passage] = {}
        self.guard = proxy.guard
        self.refused: list[Refusal] = []
        self.challenges = 0  # requests without the password
        self._addresses: dict[tuple[str, int], str] = {}  # that were reached for a host and port
        self.port = 0

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, ADDRESS, 0, limit=self._proxy.limits.header_bytes)
        self.port = self._server.sockets[0].getsockname()[1]
        self._proxy.doors.add(self)

    async def close(self) -> None:
        """Nobody gets through any more."""
        self._proxy.doors.discard(self)
        if self._server is not None:
            await shut(self._server)
        tasks = tuple(self._open)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()

    def begin(self, came_from: str | None) -> bool:
        """A new page is opened; False where it would widen what the last one could reach.

        What the last page left running would be let through, too: such a page needs a door of its own.
        """
        wanted = self._proxy.guard.for_links_from(came_from)
        if wanted is self._proxy.guard and self.guard is not wanted:
            return False
        self._narrow(wanted)
        self.refused.clear()
        for passage in self._open.values():
            passage.received = 0
        return True

    def why(self, url: str) -> str:
        """Why the latest request for a URL, or for anything of its origin, got no further; empty where it did."""
        origin = _origin(url)
        return next((each.reason for each in reversed(self.refused) if _origin(each.target) == origin), "")

    def address_of(self, url: str) -> str:
        """The address that was last reached for the origin of a URL; empty where none was."""
        return self._addresses.get(_origin(url), "")

    def _narrow(self, guard: Guard) -> None:
        """From now on less may be reached; what is open already and would be refused is closed."""
        if guard is self.guard:
            return
        self.guard = guard
        for task, passage in self._open.items():
            with suppress(UnsafeUrl):
                if passage.address:
                    guard.check_address(passage.address)
                continue
            task.cancel()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        passage = Passage(reader, writer, self._proxy.limits)
        if self not in self._proxy.doors:
            passage.abort()  # it came while the door was closed
            return
        task = asyncio.create_task(self._serve(passage))
        self._open[task] = passage
        task.add_done_callback(self._end)  # which comes for one, too, that is cancelled before it has begun

    def _end(self, task: asyncio.Task[None]) -> None:
        self._open.pop(task).abort()

    async def _serve(self, passage: Passage) -> None:
        """One connection from its first byte to its last."""
        with suppress(OSError, EOFError, TimeoutError):  # one side left, or nothing was said for too long
            await self._pass(passage)

    async def _pass(self, passage: Passage) -> None:
        request: Request | None = None
        try:
            async with asyncio.timeout(self._proxy.limits.idle_seconds):
                request = await read_request(passage.reader)
            if request is None:
                return
            self._admit(request)
            await self._connect(request, passage)
            await (passage.tunnel() if request.is_tunnel else passage.relay(request))
        except UnsafeUrl as error:
            await self._answer(request, passage, Answered(HTTPStatus.FORBIDDEN, f"refused: {error.reason}"))
        except FetchFailed as error:
            await self._answer(request, passage, Answered(HTTPStatus.BAD_GATEWAY, error.reason))
        except Answered as answer:
            await self._answer(request, passage, answer)
        except TooLong as error:
            self._note(request, str(error))

    def _admit(self, request: Request) -> None:
        if not self._proxy.knows(request.header("proxy-authorization")):
            self.challenges += 1
            ask = 'Proxy-Authenticate: Basic realm="canonry"'
            raise Answered(HTTPStatus.PROXY_AUTHENTICATION_REQUIRED, header=ask)
        if request.url.startswith(HELLO):
            raise Answered(HTTPStatus.OK, header="Content-Type: text/html")
        if len(self._open) > self._proxy.limits.connections:
            raise Answered(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections")

    async def _connect(self, request: Request, passage: Passage) -> None:
        """Open the other side; what the page may reach shrinks where that is public."""
        if not request.is_tunnel and not request.target.lower().startswith("http://"):
            raise Answered(HTTPStatus.BAD_REQUEST, "not a request for a proxy")
        parts = self.guard.check_url(request.url)
        port = parts.get_port()
        try:
            async with asyncio.timeout(self._proxy.limits.connect_seconds):
                if self._proxy.settings.proxy:
                    self._narrow_after("")
                    await passage.connect_to_proxy(self._proxy.settings, parts.host, port, tunnels=request.is_tunnel)
                else:
                    await self._connect_directly(passage, parts, port)
        except TimeoutError:
            reason = f"no connection within {self._proxy.limits.connect_seconds:g} s"
            raise FetchFailed(mask_credentials(request.url), reason) from None
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or str(error) or "it was closed"
            raise FetchFailed(mask_credentials(request.url), f"no connection ({reason})") from None

    async def _connect_directly(self, passage: Passage, parts: Parts, port: int) -> None:
        guard = self.guard
        found = await resolve_checked(parts.host.strip("[]"), port, guard=guard, lookup=self._literal_or_lookup)
        failed: OSError | None = None
        for address, to_port in found:
            guard.check_address(address, port=to_port)
            if any(to_port == door.port for door in self._proxy.doors) and address == ADDRESS:
                raise UnsafeUrl(address, "this service itself")
            passage.address = address
            self._narrow_after(address)
            try:
                await passage.connect(address, to_port)
            except OSError as error:
                failed = error
            else:
                if len(self._addresses) < _KEPT:
                    self._addresses[parts.host.strip("[]"), port] = address
                return
        assert failed is not None  # a name without an address is refused
        raise failed

    async def _literal_or_lookup(self, host: str, port: int) -> list[tuple[str, int]]:
        """An address that is spelled out needs no resolver."""
        if re.fullmatch(r"[\d.]+|[\da-f:.]*:[\da-f:.]*", host):
            return [(host, port)]
        return list(await self._proxy.lookup(host, port))

    def _narrow_after(self, address: str) -> None:
        # What the page got from a public address may lead nowhere private, whoever asked for it.
        wider = self._proxy.guard
        narrower = wider.for_links_from(address)
        if narrower is not wider:
            self._narrow(narrower)

    async def _answer(self, request: Request | None, passage: Passage, answer: Answered) -> None:
        if answer.reason:
            self._note(request, answer.reason)
        head = f"HTTP/1.1 {answer.status} {answer.status.phrase}\r\nContent-Length: 0\r\nConnection: close\r\n"
        mark = f"Canonry-Proxy: {self._proxy.mark}\r\n" if answer.reason else ""
        header = f"{answer.header}\r\n" if answer.header else ""
        await passage.say(f"{head}{mark}{header}\r\n".encode())

    def _note(self, request: Request | None, reason: str) -> None:
        target = mask_credentials(request.url) if request else ""
        _LOG.info("%s: %s", reason, target[:200])
        if len(self.refused) < _KEPT:
            self.refused.append(Refusal(target, reason))


async def shut(server: asyncio.Server) -> None:
    """Close a server; asyncio would forget connections that it has accepted and not handed over."""
    for listening in server.sockets:
        server.get_loop().remove_reader(listening)  # no more of them
    await asyncio.sleep(0)  # those there are get their transports
    server.close()


def _origin(url: str) -> tuple[str, int]:
    """Host and port: a tunnel is asked for without a scheme."""
    with suppress(ValueError):
        parts = urlsplit(url)
        if parts.hostname:
            return parts.hostname, parts.port or SCHEME_PORTS["https" if parts.scheme in {"https", "wss"} else "http"]
    return url, 0
