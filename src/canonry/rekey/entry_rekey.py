"""Rekey feed entries: move the keys of a store from one policy to another, and undo that (contract N10)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from canonry.rekey.key_counts import RekeyCounts, RekeySummary

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from canonry.rekey.entry_rekey_store import EntryRekeyStore

    OnProgress = Callable[["RekeyProgress"], object]

BATCH_ENTRIES = 1000
_EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class RekeyProgress:
    """How many of all entries are moved."""

    done: int
    total: int


async def plan_rekey(
    store: EntryRekeyStore,
    before: str,
    after: str,
    *,
    examples: int = _EXAMPLES,
    on_progress: OnProgress = lambda _: None,
) -> RekeySummary:
    """Return what a rekey would change, without changing anything."""
    total = await store.begin_plan(before, after)
    with RekeyCounts(before, after) as counts:
        position = 0
        while position := await store.plan_page(counts, position, BATCH_ENTRIES):
            on_progress(RekeyProgress(counts.entries, total))
        return counts.summarize(examples=examples)


async def rekey(
    store: EntryRekeyStore,
    before: str,
    after: str,
    *,
    now: datetime,
    batch: int = BATCH_ENTRIES,
    examples: int = _EXAMPLES,
    on_progress: OnProgress = lambda _: None,
) -> RekeySummary:
    """Move all keys and return what changed; after an interruption, the same call continues the rekey."""
    state = await store.begin(before, after, now)
    done, is_over = state.done, state.is_over
    while not is_over:
        moved = await store.move_batch(state.id, batch, now)
        done, is_over = done + moved.moved, moved.is_last
        on_progress(RekeyProgress(done, state.total))
    with RekeyCounts(before, after) as counts:
        position = 0
        while position := await store.count_moved(counts, state.id, position, BATCH_ENTRIES):
            pass
        return counts.summarize(examples=examples)


async def undo_rekey(
    store: EntryRekeyStore,
    before: str,
    after: str,
    *,
    now: datetime,
    batch: int = BATCH_ENTRIES,
    on_progress: OnProgress = lambda _: None,
) -> int:
    """Restore the keys that all entries had, and rekey newer entries to `before`; return the number of entries."""
    state = await store.begin_undo(before, after)
    done, is_over = state.done, state.is_over
    while not is_over:
        moved = await store.restore_batch(state.id, batch, now)
        done, is_over = done + moved.moved, moved.is_last
        on_progress(RekeyProgress(done, state.total))
    return done
