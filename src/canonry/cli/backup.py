"""canonry backup and restore: everything a store knows, as one file for SQLite and PostgreSQL."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from canonry.cli import render
from canonry.cli.options import db_option, json_option
from canonry.cli.stores import open_store

_file = click.argument("file", type=click.Path(dir_okay=False, path_type=Path))


@click.command()
@_file
@db_option
@json_option
def backup(file: Path, *, database_url: str, as_json: bool) -> None:
    """Write everything the store knows to a FILE.

    The file holds one moment, whatever is written meanwhile, and takes the place of an older one
    when it is complete. It fits SQLite and PostgreSQL.

    \b
    canonry backup canonry.jsonl.gz
    """
    from canonry.store import backup as store

    with open_store(database_url) as database, _Progress("backed up") as progress:
        rows = store.backup(database, file, progress.show)
    _tell(file, rows, as_json=as_json, done="backed up to")


@click.command()
@_file
@db_option
@click.option("--replace", is_flag=True, help="Put the backup in the place of what the store has.")
@json_option
def restore(file: Path, *, database_url: str, replace: bool, as_json: bool) -> None:
    """Fill the store from a FILE that `canonry backup` wrote.

    All of it or, where the file is damaged or from a newer canonry, nothing. A store that is
    not empty is left alone unless you say --replace.

    \b
    canonry restore canonry.jsonl.gz
    canonry restore canonry.jsonl.gz --db postgresql://localhost/canonry
    """
    from canonry.store import backup as store

    store.read_header(file)  # a wrong file leaves no empty store behind
    with open_store(database_url, must_exist=False) as database, _Progress("restored") as progress:
        rows = store.restore(database, file, replace=replace, progress=progress.show)
    _tell(file, rows, as_json=as_json, done="restored from")


def _tell(file: Path, rows: int, *, as_json: bool, done: str) -> None:
    if render.on_terminal(as_json=as_json):
        click.echo(f"{rows} {'row' if rows == 1 else 'rows'} {done} {file}")
    else:
        render.print_json({"file": str(file), "rows": rows})


class _Progress:
    """One line on a terminal that says how far it is, from the first second on, gone when it is over."""

    def __init__(self, done: str) -> None:
        self._done = done
        self._next = time.monotonic() + 1
        self._is_shown = False

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            click.echo("\r\033[K", nl=False, err=True)

    def show(self, done: int, of: int) -> None:
        if sys.stderr.isatty() and time.monotonic() >= self._next:
            self._is_shown = True
            self._next = time.monotonic() + 0.1
            click.echo(f"\r\033[K{100 * done // max(of, 1)} % {self._done}", nl=False, err=True)
