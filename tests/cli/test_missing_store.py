"""A command that only reads or changes what is stored refuses a mistyped --db instead of creating a store there."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from canonry import ingest
from canonry.cli.group import canonry, run
from canonry.errors import CanonryError, InvalidStoreUrl, StoreError
from canonry.store.backup import backup
from canonry.store.database import Database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

URL = "https://example.com/"
# Every command with --db: its arguments if it needs a store, None if it may create one.
COMMANDS = {
    "backup": ("x.gz",),
    "bookmarks add": None,
    "bookmarks export": (),
    "bookmarks import": None,
    "bookmarks list": (),
    "bookmarks search": ("word",),
    "crawl": None,
    "crawls export": ("1", "x.csv"),
    "crawls list": (),
    "crawls remove": ("1",),
    "crawls show": ("1",),
    "crawls stop": ("1",),
    "feeds add": None,
    "feeds changes": (),
    "feeds export": (),
    "feeds import": None,
    "feeds items": (),
    "feeds list": (),
    "feeds pause": (URL,),
    "feeds remove": (URL,),
    "feeds resume": (URL,),
    "feeds set": (URL, "--title", "x"),
    "feeds webhook add": None,
    "feeds webhook list": (),
    "feeds webhook remove": ("1",),
    "feeds webhook resume": ("1",),
    "feeds webhook test": ("1",),
    "feeds websub": (),
    "ingest": (),  # without URLs; those that are given may be stored in a new store
    "learn": ("facts",),  # with --propose, a new store may get the rules
    "policy diff": ("bookmark", "crawl", "--store"),
    "rekey": ("entry@1", "entry@2"),
    "restore": None,
    "serve": None,
    "user add": None,
    "user list": (),
    "user remove": ("ada", "--yes"),
    "user token": None,
    "worker": None,
}


def list_commands_with_db(command: click.Command, name: str = "") -> Iterator[str]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for each in command.list_commands(context):
            below = command.get_command(context, each)
            assert below is not None
            yield from list_commands_with_db(below, f"{name} {each}".strip())
    elif any(parameter.name == "database_url" for parameter in command.params):
        yield name


def test_every_command_with_a_store_is_listed() -> None:
    assert set(list_commands_with_db(canonry)) == set(COMMANDS)


@pytest.mark.parametrize("name", [name for name, arguments in COMMANDS.items() if arguments is not None])
def test_no_store_is_created_at_a_mistyped_url(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(canonry, [*name.split(), *(COMMANDS[name] or ()), "--db", "sqlite:///mistyped.db"])
    assert isinstance(done.exception, StoreError)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["feeds import", "restore"])
def test_a_damaged_file_creates_no_store(command: str, tmp_path: Path) -> None:
    (tmp_path / "damaged").write_text("damaged")
    arguments = [*command.split(), str(tmp_path / "damaged"), "--db", f"sqlite:///{tmp_path}/new.db"]
    assert isinstance(CliRunner().invoke(canonry, arguments).exception, CanonryError)
    assert [each.name for each in tmp_path.iterdir()] == ["damaged"]


def test_a_database_of_another_program_gets_no_tables(tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    with sqlite3.connect(file) as other:
        other.execute("CREATE TABLE notes (text)")
    other.close()
    done = CliRunner().invoke(canonry, ["feeds", "list", "--db", f"sqlite:///{file}"])
    assert isinstance(done.exception, StoreError)
    with sqlite3.connect(file) as other:
        assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("notes",)]
    other.close()


# Every command that may create a store, with arguments that get it to open one.
CREATING = {
    "bookmarks add": (URL,),
    "bookmarks import": ("made.html",),
    "crawl": (URL,),
    "feeds add": (URL,),
    "feeds import": ("made.opml",),
    "feeds webhook add": (URL,),
    "restore": ("made.gz",),
    "serve": (),
    "user add": ("ada",),
    "user token": ("ada",),
    "worker": (),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_text_that_is_no_store_url_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CANONRY_DATABASE_URL", "/data/x.db")  # serve sets it for its processes
    (tmp_path / "made.html").write_text(f'<a href="{URL}">x</a>')
    (tmp_path / "made.opml").write_text(f'<opml><body><outline xmlUrl="{URL}"/></body></opml>')
    with Database("sqlite://") as database:
        backup(database, tmp_path / "made.gz")
    given = COMMANDS[name]
    done = CliRunner().invoke(canonry, [*name.split(), *(CREATING[name] if given is None else given)])
    assert isinstance(done.exception, InvalidStoreUrl)


@pytest.mark.parametrize("url", ["/data/x.db", "x.db", "", "sqlite://x.db", "mysql://localhost/x", "sqlite+no:///x.db"])
@pytest.mark.parametrize("command", [("ingest", URL), ("ingest", URL, "--watch"), ("feeds", "list")])
def test_a_mistaken_store_url_is_wrong_usage(
    command: tuple[str, ...], url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["canonry", *command, "--db", url])
    with pytest.raises(SystemExit) as exit_:
        run()
    assert exit_.value.code == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("url", ["/data/x.db", "sqlite://x.db", "postgresql://localhost:0/x"])
def test_a_run_of_python_refuses_what_is_no_store_url(url: str) -> None:
    with pytest.raises(InvalidStoreUrl):
        asyncio.run(ingest([URL], url, fetch=lambda *_, **__: pytest.fail("nothing is asked")))
