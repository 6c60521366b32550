"""Per-host limits on requests that run at the same time."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


class HostSlots:
    """Limits how many requests run at once for one host, with a pause between their starts."""

    def __init__(self, per_host: int, delay: float = 0.0) -> None:
        """`delay` is the pause in seconds between the starts of two requests to one host."""
        self._per_host = per_host
        self._delay = delay
        self._slots: dict[str, asyncio.Semaphore] = {}
        self._users: Counter[str] = Counter()
        self._next_start: dict[str, float] = {}

    @asynccontextmanager
    async def acquire(self, host: str) -> AsyncGenerator[None]:
        """Hold a slot of the host; waits until one is free and the pause is over."""
        slots = self._slots.setdefault(host, asyncio.Semaphore(self._per_host))
        self._users[host] += 1
        try:
            async with slots:
                if self._delay:
                    now = time.monotonic()
                    start = max(now, self._next_start.get(host, 0.0))
                    self._next_start[host] = start + self._delay
                    await asyncio.sleep(start - now)
                yield
        finally:
            self._users[host] -= 1
            if not self._users[host]:  # a run may have many thousands of hosts
                del self._users[host], self._slots[host]
