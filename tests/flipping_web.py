"""A public web and an intranet on loopback, with names that change their address between two lookups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from canonry.net.guard import Guard
from loopback import ADDRESS, EVERY_PORT, Listener, make_client, make_http_response, read_request

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

    from canonry.net.fetch import Client

INTRANET = "127.0.0.3"  # allowed by the operator; 127.0.0.2 is public (see `make_public`)


class FlippingWeb:
    """Serves `pages` (URL without scheme → answer) at both addresses, and records who was asked for what.

    Names in `inside` resolve to the intranet, all others to the public server. A test changes `inside` to move a name.
    """

    def __init__(self, pages: Mapping[str, Mapping[str, Any]], inside: tuple[str, ...] = ()) -> None:
        self.pages = dict(pages)
        self.inside = set(inside)
        self.flips_after: dict[str, str] = {}  # a public request for the first moves the name to the intranet
        self.public_requests: list[str] = []
        self.inside_requests: list[str] = []
        self._public = Listener(self._answer_public)
        self._inside = Listener(self._answer_inside, address=INTRANET)

    async def __aenter__(self) -> Self:
        await self._public.__aenter__()
        await self._inside.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._inside.__aexit__()
        await self._public.__aexit__()

    @property
    def intranet(self) -> str:
        """The authority of the intranet server."""
        return f"{INTRANET}:{self._inside.port}"

    def client(self) -> Client:
        """Return a client that may reach the intranet because the operator allows it."""
        return make_client(guard=Guard([f"{INTRANET}/32"], EVERY_PORT), lookup=self.lookup)

    async def lookup(self, host: str, _port: int) -> list[tuple[str, int]]:
        """Resolve a name to the server that it belongs to now."""
        return [(INTRANET, self._inside.port)] if host in self.inside else [(ADDRESS, self._public.port)]

    async def _answer_public(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._answer(reader, writer, self.public_requests)

    async def _answer_inside(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._answer(reader, writer, self.inside_requests)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, requests: list[str]) -> None:
        request = await read_request(reader)
        if request is None:
            return
        name = f"{request.headers.get('host', '')}{request.target}"
        requests.append(name)
        if requests is self.public_requests and name in self.flips_after:
            self.inside.add(self.flips_after[name])
        page = self.pages.get(name, {"status": 404})
        headers = {**page.get("headers", {}), "Connection": "close"}
        writer.write(
            make_http_response(page.get("status", 200), headers, request.method, page.get("body", "").encode())
        )
