"""Resolve names to addresses without blocking the event loop or the end of the process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import zip_longest
from threading import Thread
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from canonry.net.guard import Guard

MAX_ADDRESSES = 8  # of a name that are tried
# Returns the addresses and ports of a host and port; raises OSError if there is none.
Lookup: TypeAlias = Callable[[str, int], Awaitable["Sequence[tuple[str, int]]"]]


async def resolve_checked(host: str, port: int, *, guard: Guard, lookup: Lookup) -> Sequence[tuple[str, int]]:
    """Resolve a name once and return up to 8 of its addresses; raise UnsafeUrl if the guard refuses any of them."""
    found = await lookup(host, port)
    guard.check_addresses(host, [address for address, _ in found], port=port)
    return found if len(found) <= MAX_ADDRESSES else _choose_addresses(found)


def _choose_addresses(found: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return the first addresses of both families in turn: if one family does not work here, the other may."""
    families = [[each for each in found if (":" in each[0]) is is_ipv6] for is_ipv6 in (True, False)]
    if found and ":" not in found[0][0]:
        families.reverse()
    chosen = [each for pair in zip_longest(*families) for each in pair if each is not None]
    return chosen[:MAX_ADDRESSES]


async def resolve_name(host: str, port: int) -> list[tuple[str, int]]:
    """Resolve a name with `getaddrinfo`, which also reads the hosts file.

    `getaddrinfo` cannot be interrupted, so it runs in a daemon thread that neither the event loop nor the end of
    the process waits for.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[list[tuple[str, int]]] = loop.create_future()

    def settle(found: list[tuple[str, int]], error: OSError | UnicodeError | None) -> None:
        if result.done():
            return
        if error is None:
            result.set_result(found)
        else:
            result.set_exception(error)

    def look_up() -> None:
        found: list[tuple[str, int]] = []
        failed: OSError | UnicodeError | None = None
        try:
            infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found = list(dict.fromkeys((str(sockaddr[0]), port) for *_, sockaddr in infos))
        except (OSError, UnicodeError) as error:
            failed = error
        with suppress(RuntimeError):  # the loop is closed, so the result is not needed
            loop.call_soon_threadsafe(settle, found, failed)

    Thread(target=look_up, name=f"lookup {host}", daemon=True).start()
    return await result
