"""One HTTP client for each event loop, for calls that are given no client."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakValueDictionary

from canonry.net.fetch import MAX_CONNECTIONS, MAX_CONNECTIONS_PER_HOST, Client

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


class _Shared:
    """A client, the number of its users, and the semaphores that limit them in all and for each site."""

    def __init__(self) -> None:
        self.client = Client()
        self.users = 0
        self.slots = asyncio.Semaphore(MAX_CONNECTIONS)
        self.sites: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()


_SHARED: WeakKeyDictionary[asyncio.AbstractEventLoop, _Shared] = WeakKeyDictionary()


@asynccontextmanager
async def use_shared_client(site: str) -> AsyncGenerator[Client]:
    """Yield the client of this event loop, which is opened for its first user and closed after its last.

    At most 100 users have it at the same time, and 8 for one site: waiting for a connection inside a request would
    use up the timeout of the request.
    """
    loop = asyncio.get_running_loop()
    shared = _SHARED.get(loop)
    if shared is None:
        shared = _SHARED[loop] = _Shared()
    shared.users += 1
    try:
        async with shared.sites.setdefault(site, asyncio.Semaphore(MAX_CONNECTIONS_PER_HOST)), shared.slots:
            yield shared.client
    finally:
        shared.users -= 1
        if not shared.users:
            del _SHARED[loop]
            await shared.client.close()
