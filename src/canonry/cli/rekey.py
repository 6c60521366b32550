"""canonry rekey: move the keys of stored feed entries from one policy to another, or undo that."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self

import click

from canonry.cli import render
from canonry.cli.options import complete_policy, db_option, json_option, overrides_setting_option
from canonry.cli.policies import print_examples
from canonry.cli.stores import open_store

if TYPE_CHECKING:
    from canonry.rekey.entry_rekey import RekeyProgress
    from canonry.rekey.key_counts import RekeySummary
    from canonry.store.database import Database


@click.command()
@click.argument("before", metavar="POLICY_A", shell_complete=complete_policy)
@click.argument("after", metavar="POLICY_B", shell_complete=complete_policy)
@db_option
@overrides_setting_option
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--undo", is_flag=True, help="Restore the keys that every entry had before the rekey from A to B.")
@click.option(
    "--batch",
    metavar="N",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Entries in one transaction.",
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
    batch: int,
    workers: bool,
    as_json: bool,
) -> None:
    """Move the keys of stored entries from policy A to policy B.

    A is the policy of the store (entry@1 for a new store); both must be shipped policies. Run the same command
    again to continue an interrupted rekey. No feed is ingested until the rekey is finished or undone.

    Bookmarks are rekeyed on the statistics page of the service, or with POST /api/admin/renormalizations.

    \b
    canonry rekey entry@1 bookmark@1 --dry-run
    canonry rekey entry@1 bookmark@1
    canonry rekey entry@1 bookmark@1 --undo
    canonry rekey entry@1 bookmark@1 --workers
    """
    from canonry.store.pinned_policies import check_pinnable, load_overrides

    if dry_run + undo + workers > 1:
        raise click.UsageError("Use only one of --dry-run, --undo and --workers.")
    with open_store(database_url) as database:
        database.read_now(lambda connection: load_overrides(connection, before, after))
        before, after = check_pinnable(before), check_pinnable(after)
        if before == after:
            raise click.UsageError(f"Both policies are {before}. Name two different policies.")
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


async def _plan(database: Database, before: str, after: str) -> RekeySummary:
    from canonry.rekey.entry_rekey import plan_rekey
    from canonry.rekey.entry_rekey_store import EntryRekeyStore

    with _ProgressBar("planned") as bar:
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

    with _ProgressBar("moved") as bar:
        store, now = EntryRekeyStore(database), datetime.now(UTC)
        return await rekey(store, before, after, now=now, batch=batch, on_progress=bar.show)


async def _undo(database: Database, before: str, after: str, batch: int) -> int:
    from canonry.rekey.entry_rekey import undo_rekey
    from canonry.rekey.entry_rekey_store import EntryRekeyStore

    with _ProgressBar("moved back") as bar:
        store, now = EntryRekeyStore(database), datetime.now(UTC)
        return await undo_rekey(store, before, after, now=now, batch=batch, on_progress=bar.show)


class _ProgressBar:
    """A progress bar that appears after one second."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._start = time.monotonic() + 1
        self._bar: render.ProgressBar | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.clear()

    def show(self, progress: RekeyProgress) -> None:
        if time.monotonic() >= self._start:
            self._bar = self._bar or render.ProgressBar(progress.total)
            self._bar.show(progress.done, self._label)


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
