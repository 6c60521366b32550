"""canonry rekey: move stored feed entries or bookmarks from one policy to another, or undo that."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import click

from canonry.cli import bookmark_rekey, render
from canonry.cli.options import complete_policy, db_option, json_option, overrides_setting_option
from canonry.cli.policies import print_examples
from canonry.cli.rekey_bar import RekeyBar
from canonry.cli.stores import open_store
from canonry.errors import StoreError

if TYPE_CHECKING:
    from canonry.rekey.key_counts import RekeySummary
    from canonry.store.database import Database


@click.command()
@click.argument("before", metavar="POLICY_A", shell_complete=complete_policy)
@click.argument("after", metavar="POLICY_B", shell_complete=complete_policy)
@db_option
@overrides_setting_option
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--undo", is_flag=True, help="Restore every entry and bookmark as it was before the rekey from A to B.")
@click.option(
    "--forget", is_flag=True, help="Delete what --undo needs, for entries, and give the space back to the disk."
)
@click.option(
    "--batch",
    metavar="N",
    type=click.IntRange(1, 1_000_000),
    default=1000,
    show_default=True,
    help="Entries or bookmarks in one transaction.",
)
@click.option("--workers", is_flag=True, help="Queue the rekey for `canonry worker` or `canonry serve`, and return.")
@json_option
def rekey(
    before: str,
    after: str,
    *,
    database_url: str,
    dry_run: bool,
    undo: bool,
    forget: bool,
    batch: int,
    workers: bool,
    as_json: bool,
) -> None:
    """Move stored feed entries and bookmarks from policy A to policy B.

    A is a policy that the store is pinned to: its entries, its bookmarks or both move. Both must be shipped policies.
    Run the same command again to continue an interrupted rekey. No feed is ingested until the rekey of entries is
    finished or undone. Bookmarks that become equal are merged. The file of a SQLite store is compacted at the end.

    \b
    canonry rekey entry@1 entry@2 --dry-run
    canonry rekey entry@1 entry@2
    canonry rekey bookmark@1 bookmark@2
    canonry rekey bookmark@1 bookmark@2 --undo
    canonry rekey entry@1 entry@2 --forget
    """
    from canonry.store.pinned_policies import check_pinnable, remember_stored_overrides

    if dry_run + undo + forget + workers > 1:
        raise click.UsageError("Use only one of --dry-run, --undo, --forget and --workers.")
    with open_store(database_url) as database:
        database.read_now(lambda connection: remember_stored_overrides(connection, before, after))
        before, after = check_pinnable(before), check_pinnable(after)
        if before == after:
            raise click.UsageError(f"Both policies are {before}. Name two different policies.")
        if forget:
            rows = asyncio.run(_forget(database, before, after, batch))
            _print_forgotten(before, after, rows, as_json=as_json)
            _compact(database)
            return
        has_entries, has_bookmarks = asyncio.run(_find_moved(database, before, after, undo=undo))
        if has_bookmarks:
            bookmark_rekey.run(
                database, before, after, dry_run=dry_run, undo=undo, workers=workers, batch=batch, as_json=as_json
            )
        if has_entries:
            _move_entries(
                database, before, after, dry_run=dry_run, undo=undo, workers=workers, batch=batch, as_json=as_json
            )
        if not dry_run and not workers:
            _compact(database)


def _move_entries(
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
    """Plan, move, queue or undo a rekey of the entries, and print what was done."""
    if undo:
        entries = asyncio.run(_undo(database, before, after, batch))
        _print_undone(before, after, entries, as_json=as_json)
    elif workers:
        asyncio.run(_enqueue(database, before, after))
        _print_queued(before, after, as_json=as_json)
    elif dry_run:
        _print(asyncio.run(_plan(database, before, after)), title="would be rekeyed", as_json=as_json)
    else:
        _print(asyncio.run(_rekey(database, before, after, batch)), title="rekeyed", as_json=as_json)


async def _find_moved(database: Database, before: str, after: str, *, undo: bool) -> tuple[bool, bool]:
    """Return whether the command is about entries and whether it is about bookmarks; entries if it is about neither."""
    from canonry.rekey.bookmark_rekey_store import BookmarkRekeyStore
    from canonry.store.pinned_policies import BOOKMARK, ENTRY, find_pinned, find_unfinished_rekey

    pins = {purpose: await database.read(partial(find_pinned, purpose=purpose)) for purpose in (ENTRY, BOOKMARK)}
    latest = await BookmarkRekeyStore(database).list_latest()
    same = [each for each in latest if (each.from_policy, each.to_policy) == (before, after)]
    if undo:
        has_bookmarks = any(each.undone_at is None for each in same)
        return pins[ENTRY] == after or not has_bookmarks, has_bookmarks
    has_bookmarks = pins[BOOKMARK] == before or any(not each.is_over for each in same)
    is_unfinished = await database.read(find_unfinished_rekey) is not None
    return pins[ENTRY] == before or is_unfinished or not has_bookmarks, has_bookmarks


async def _plan(database: Database, before: str, after: str) -> RekeySummary:
    from canonry.rekey.entry_rekey import plan_rekey
    from canonry.rekey.entry_rekey_store import EntryRekeyStore

    with RekeyBar("planned") as bar:
        return await plan_rekey(EntryRekeyStore(database), before, after, on_progress=bar.show)


async def _enqueue(database: Database, before: str, after: str) -> None:
    from canonry.jobs.queues import Jobs
    from canonry.rekey.entry_rekey_store import EntryRekeyStore

    store = EntryRekeyStore(database)
    await store.begin_plan(before, after)  # refuse here, not in the log of a worker
    await store.store_overrides(before, after)
    with Jobs(database) as jobs:
        await jobs.enqueue_rekey(before, after)


async def _rekey(database: Database, before: str, after: str, batch: int) -> RekeySummary:
    from canonry.rekey.entry_rekey import rekey
    from canonry.rekey.entry_rekey_store import EntryRekeyStore

    with RekeyBar("moved") as bar:
        store, now = EntryRekeyStore(database), datetime.now(UTC)
        return await rekey(store, before, after, now=now, batch=batch, on_progress=bar.show)


async def _undo(database: Database, before: str, after: str, batch: int) -> int:
    from canonry.rekey.entry_rekey import undo_rekey
    from canonry.rekey.entry_rekey_store import EntryRekeyStore

    with RekeyBar("moved back") as bar:
        store, now = EntryRekeyStore(database), datetime.now(UTC)
        return await undo_rekey(store, before, after, now=now, batch=batch, on_progress=bar.show)


async def _forget(database: Database, before: str, after: str, batch: int) -> int:
    from canonry.rekey.entry_rekey_store import EntryRekeyStore

    return await EntryRekeyStore(database).forget(before, after, batch)


def _compact(database: Database) -> None:
    """Compact the file of the store and say so; if that fails, the rekey is done nevertheless."""
    from canonry.store.compaction import compact

    try:
        compacted = compact(database)
    except StoreError as error:
        click.echo(f"canonry: {error}. The rekey is done. Run the command again to compact the file.", err=True)
        return
    if compacted is not None:
        before, after = (size / 1000**2 for size in (compacted.before, compacted.after))
        click.echo(f"canonry: compacted the file of the store from {before:,.1f} to {after:,.1f} MB", err=True)


def _print_forgotten(before: str, after: str, rows: int, *, as_json: bool) -> None:
    if render.is_for_terminal(as_json=as_json):
        click.echo(f"Forgotten: the rekey from {before} to {after} can no longer be undone.")
    else:
        render.print_json({"before": before, "after": after, "result": "forgotten", "rows": rows})


def _print_queued(before: str, after: str, *, as_json: bool) -> None:
    if render.is_for_terminal(as_json=as_json):
        click.echo("Queued. `canonry worker` or `canonry serve` rekeys the entries, and logs when it is done.")
    else:
        render.print_json({"before": before, "after": after, "result": "queued"})


def _print_undone(before: str, after: str, entries: int, *, as_json: bool) -> None:
    if render.is_for_terminal(as_json=as_json):
        click.echo(f"Undone: {entries} {'entry is' if entries == 1 else 'entries are'} under {before} again.")
    else:
        render.print_json({"before": before, "after": after, "result": "undone", "entries": entries})


def _print(summary: RekeySummary, *, title: str, as_json: bool) -> None:
    if not render.is_for_terminal(as_json=as_json):
        render.print_json(summary)
        return
    click.echo(f"{summary.before} → {summary.after}, {title}")
    names = ("entries", "changed", "merged", "split")
    render.print_table(("what", "count"), [(name, str(getattr(summary, name))) for name in names])
    print_examples(summary)
