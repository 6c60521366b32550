"""`canonry backup` and `canonry restore`: the whole store as one file, for SQLite and PostgreSQL."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from canonry.cli import render
from canonry.cli.options import db_option, json_option, require_folder
from canonry.cli.stores import open_store


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), callback=require_folder)
@db_option
@json_option
def backup(file: Path, *, database_url: str, as_json: bool) -> None:
    """Write the whole store to a FILE.

    The file is a consistent snapshot, also while others write. It replaces an older file when it is
    complete, and can be restored to SQLite and PostgreSQL.

    \b
    canonry backup canonry.jsonl.gz
    """
    from canonry.store import backup as store

    with open_store(database_url) as database, _Progress("backed up") as progress:
        rows = store.backup(database, file, progress.show)
    _print_result(file, rows, as_json=as_json, action="backed up to")


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@db_option
@click.option("--replace", is_flag=True, help="Replace the content of the store.")
@json_option
def restore(file: Path, *, database_url: str, replace: bool, as_json: bool) -> None:
    """Fill the store from a FILE that `canonry backup` wrote.

    A file that is damaged or from a newer canonry changes nothing. A store that is not empty is
    only replaced with --replace.

    \b
    canonry restore canonry.jsonl.gz
    canonry restore canonry.jsonl.gz --db postgresql://localhost/canonry
    """
    from canonry.store import backup as store

    store.verify_backup(file)  # a damaged file creates no store
    with open_store(database_url, must_exist=False) as database, _Progress("restored") as progress:
        rows = store.restore(database, file, replace=replace, progress=progress.show)
    _print_result(file, rows, as_json=as_json, action="restored from")


def _print_result(file: Path, rows: int, *, as_json: bool, action: str) -> None:
    from canonry.atomic_files import is_stream

    if render.is_for_terminal(as_json=as_json):
        click.echo(f"{render.count(rows, 'row')} {action} {file}")
    elif is_stream(file):  # perhaps the standard output, which has the backup
        click.echo(f"canonry: {render.count(rows, 'row')} {action} {file}", err=True)
    else:
        render.print_json({"file": str(file), "rows": rows})


class _Progress:
    """A progress line on a terminal, shown after a second and removed at the end."""

    def __init__(self, action: str) -> None:
        self._action = action
        self._next = time.monotonic() + 1
        self._is_shown = False

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            click.echo("\r\033[K", nl=False, err=True)

    def show(self, done: int, total: int) -> None:
        if sys.stderr.isatty() and time.monotonic() >= self._next:
            self._is_shown = True
            self._next = time.monotonic() + 0.1
            click.echo(f"\r\033[K{100 * done // max(total, 1)} % {self._action}", nl=False, err=True)
