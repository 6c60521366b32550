"""Run a command that a signal stops between two transactions."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


def run_until_stopped(
    work: Coroutine[Any, Any, int],
    on_stop: Callable[[], None],
    *,
    run_loop: Callable[[Coroutine[Any, Any, int]], int] = asyncio.run,
) -> int:
    """Return the exit code of the work, or of the signal that stopped it; a second signal ends it at once."""
    stops: list[tuple[int, float]] = []

    async def run() -> int:
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)

        def stop(number: int, _: object) -> None:
            if not stops:
                stops.append((number, time.monotonic()))
                loop.call_soon_threadsafe(task.cancel)
            elif time.monotonic() > stops[0][1] + 1:  # `timeout` and some shells send the first one twice
                raise KeyboardInterrupt

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)
        return await task

    try:
        return run_loop(run())
    except asyncio.CancelledError:
        on_stop()
        return 128 + stops[0][0]
