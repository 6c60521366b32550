"""Rekey: move the keys of a store from one policy to another, and back (contract N10)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from canonry.rekey.key_counts import RekeyCounts, RekeySummary

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from canonry.rekey.entry_store import RekeyStore

    OnProgress = Callable[["Progress"], object]

BATCH = 1000
_EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class Progress:
    """How many entries are through."""

    done: int
    total: int


async def plan_rekey(
    store: RekeyStore, before: str, after: str, *, examples: int = _EXAMPLES, on_progress: OnProgress = lambda _: None
) -> RekeySummary:
    """What a rekey would do; nothing is changed."""
    total = await store.begin_plan(before, after)
    with RekeyCounts(before, after) as counts:
        position = 0
        while position := await store.plan_page(counts, position, BATCH):
            on_progress(Progress(counts.entries, total))
        return counts.summary(examples=examples)


async def rekey(
    store: RekeyStore,
    before: str,
    after: str,
    *,
    now: datetime,
    batch: int = BATCH,
    examples: int = _EXAMPLES,
    on_progress: OnProgress = lambda _: None,
) -> RekeySummary:
    """Move all keys; where it was interrupted, the same call goes on. What was done, also if that was before."""
    state = await store.begin(before, after, now)
    done, is_over = state.done, state.is_over
    while not is_over:
        moved = await store.move_batch(state.id, batch, now)
        done, is_over = done + moved.moved, moved.is_last
        on_progress(Progress(done, state.total))
    with RekeyCounts(before, after) as counts:
        position = 0
        while position := await store.done_page(counts, state.id, position, BATCH):
            pass
        return counts.summary(examples=examples)


async def undo_rekey(
    store: RekeyStore,
    before: str,
    after: str,
    *,
    now: datetime,
    batch: int = BATCH,
    on_progress: OnProgress = lambda _: None,
) -> int:
    """Give all entries the keys they had, and a key under `before` to those that came since; how many entries."""
    state = await store.begin_undo(before, after)
    done, is_over = state.done, state.is_over
    while not is_over:
        moved = await store.restore_batch(state.id, batch, now)
        done, is_over = done + moved.moved, moved.is_last
        on_progress(Progress(done, state.total))
    return done
