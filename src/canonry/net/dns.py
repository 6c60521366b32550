"""Names to addresses: the system's resolver, without holding up the loop or the end of the process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from canonry.net.guard import Guard

# The addresses and ports a host and port stand for; OSError where it has none.
Lookup: TypeAlias = Callable[[str, int], Awaitable["Sequence[tuple[str, int]]"]]


async def resolve_checked(host: str, port: int, *, guard: Guard, lookup: Lookup) -> Sequence[tuple[str, int]]:
    """The addresses of a name, asked for once, after the guard has seen all of them."""
    found = await lookup(host, port)
    guard.check_addresses(host, [address for address, _ in found], port=port)
    return found


async def resolve_name(host: str, port: int) -> list[tuple[str, int]]:
    """What `getaddrinfo` knows, the hosts file included.

    It cannot be interrupted, so it runs in a thread that nobody has to wait for.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[tuple[str, int]]] = loop.create_future()

    def settle(found: list[tuple[str, int]], error: OSError | UnicodeError | None) -> None:
        if answer.done():
            return
        if error is None:
            answer.set_result(found)
        else:
            answer.set_exception(error)

    def ask() -> None:
        found: list[tuple[str, int]] = []
        failed: OSError | UnicodeError | None = None
        try:
            infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found = list(dict.fromkeys((str(sockaddr[0]), port) for *_, sockaddr in infos))
        except (OSError, UnicodeError) as error:
            failed = error
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, found, failed)

    Thread(target=ask, name=f"lookup {host}", daemon=True).start()
    return await answer
