"""The part of `canonry rekey` that moves bookmarks."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from canonry.cli import render
from canonry.cli.policies import print_examples
from canonry.cli.rekey_bar import RekeyBar

if TYPE_CHECKING:
    from canonry.rekey.bookmark_rekey_store import BookmarkRekey
    from canonry.rekey.key_counts import RekeySummary
    from canonry.store.database import Database


def run(
    database: Database,
    before: str,
    after: str,
    *,
    dry_run: bool,
    undo: bool,
    workers: bool,
    batch: int,
    as_json: bool,
) -> None:
    """Plan, move, queue or undo a rekey of the bookmarks, and print what was done."""
    if dry_run:
        _print_plan(asyncio.run(_plan(database, after)), as_json=as_json)
    elif workers:
        asyncio.run(_enqueue(database, after))
        if render.is_for_terminal(as_json=as_json):
            click.echo("Queued. `canonry worker` or `canonry serve` rekeys the bookmarks.")
        else:
            render.print_json({"rows": "bookmarks", "before": before, "after": after, "result": "queued"})
    else:
        moved = asyncio.run(_move(database, before, after, undo=undo, batch=batch))
        _print_moved(moved, undo=undo, as_json=as_json)


async def _plan(database: Database, after: str) -> RekeySummary:
    from canonry.rekey.bookmark_rekey import plan_bookmark_rekey
    from canonry.rekey.bookmark_rekey_store import BookmarkRekeyStore

    return await plan_bookmark_rekey(BookmarkRekeyStore(database), after)


async def _enqueue(database: Database, after: str) -> None:
    from canonry.jobs.queues import Jobs
    from canonry.rekey.bookmark_rekey import BOOKMARK_REKEY_JOB
    from canonry.rekey.bookmark_rekey_store import BookmarkRekeyStore

    started = await BookmarkRekeyStore(database).start(after, datetime.now(UTC))
    with Jobs(database) as jobs:
        await jobs.enqueue(BOOKMARK_REKEY_JOB, str(started.id))


async def _move(database: Database, before: str, after: str, *, undo: bool, batch: int) -> BookmarkRekey:
    from canonry.rekey.bookmark_rekey import finish_rekey
    from canonry.rekey.bookmark_rekey_store import BookmarkRekeyStore
    from canonry.rekey.entry_rekey import RekeyProgress

    def clock() -> datetime:
        return datetime.now(UTC)

    store = BookmarkRekeyStore(database)
    if undo:
        started = await store.start_undo((await store.find_last(before, after)).id, clock())
    else:
        started = await store.start(after, clock())
    with RekeyBar("moved back" if undo else "moved") as bar:
        return await finish_rekey(
            store,
            started.id,
            clock=clock,
            size=batch,
            on_progress=lambda state: bar.show(RekeyProgress(state.done, state.total)),
        )


def _print_plan(summary: RekeySummary, *, as_json: bool) -> None:
    if not render.is_for_terminal(as_json=as_json):
        render.print_json({"rows": "bookmarks", **dataclasses.asdict(summary)})
        return
    click.echo(f"{summary.before} → {summary.after}, would be rekeyed")
    names = {"entries": "bookmarks", "changed": "changed", "merged": "URLs of several bookmarks", "split": "split"}
    render.print_table(("what", "count"), [(title, str(getattr(summary, name))) for name, title in names.items()])
    print_examples(summary)


def _print_moved(moved: BookmarkRekey, *, undo: bool, as_json: bool) -> None:
    if not render.is_for_terminal(as_json=as_json):
        render.print_json({"rows": "bookmarks", **dataclasses.asdict(moved)})
    elif undo:
        click.echo(f"Undone: the bookmarks are under {moved.from_policy} again.")
    else:
        click.echo(f"{moved.from_policy} → {moved.to_policy}, rekeyed")
        names = ("done", "changed", "merged", "refused")
        render.print_table(("bookmarks", "count"), [(name, str(getattr(moved, name))) for name in names])
