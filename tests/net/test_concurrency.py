"""Coroutines that run at the same time end together: none is left running when one fails."""

from __future__ import annotations

import asyncio

import pytest

from canonry.net.concurrency import run_together
from loopback import in_a_loop


@in_a_loop
async def test_results_are_in_order() -> None:
    async def wait(turns: int) -> int:
        for _ in range(turns):
            await asyncio.sleep(0)
        return turns

    assert await run_together(map(wait, (3, 1, 2))) == [3, 1, 2]
    assert await run_together([]) == []


@in_a_loop
async def test_the_first_error_is_raised_after_the_others_have_ended() -> None:
    ended: list[str] = []

    async def fail() -> None:
        await asyncio.sleep(0)
        raise LookupError("first") from KeyError("cause")

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("work")

    with pytest.raises(LookupError, match="first") as raised:
        await run_together([work(), fail(), work()])
    assert ended == ["work", "work"]
    assert isinstance(raised.value.__cause__, KeyError)


@in_a_loop
async def test_cancelling_the_caller_cancels_all() -> None:
    begun, ended = asyncio.Event(), list[str]()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("work")

    caller = asyncio.create_task(run_together([work(), work()]))
    await begun.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert ended == ["work", "work"]
