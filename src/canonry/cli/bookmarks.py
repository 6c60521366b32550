"""`canonry bookmarks`: save, list, search, import and export bookmarks."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from canonry.cli import render
from canonry.cli.feed_items import format_minute
from canonry.cli.options import db_option, json_option, require_folder
from canonry.cli.stores import open_store
from canonry.errors import CanonryError, InvalidUrl, mask_credentials

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator

    from canonry.bookmarks.bookmark import Bookmark, BookmarkSearch
    from canonry.bookmarks.import_store import BookmarkImport, ImportedRow
    from canonry.bookmarks.save import Bookmarks
    from canonry.net.fetch import Client

LINKDING_TOKEN_VARIABLE = "CANONRY_LINKDING_TOKEN"  # noqa: S105
_EXPANSION_SECONDS = 5.0  # a person at a terminal waits longer for a short link than a request may
_ROWS_PER_READ = 500
_FORMATS = ("netscape", "json", "csv")
user_option = click.option(
    "--user", "user_name", metavar="NAME", default="", help="Whose bookmarks; needed if the store has several users."
)


@click.group()
def bookmarks() -> None:
    """Save, list, search, import and export bookmarks. Each page is saved once."""


@bookmarks.command()
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@click.option("--title", default="", help="Title of the bookmark.")
@click.option("--description", default="", help="A note about the bookmark.")
@click.option("--tag", "-t", "tags", metavar="TAG", multiple=True, help="A tag; can be repeated.")
@click.option("--folder", metavar="FOLDER", default="", help="Folder, for example recipes/bread.")
@click.option("--to-read", is_flag=True, help="Mark the bookmark as to read.")
@click.option("--private", is_flag=True, help="Mark the bookmark as private.")
@click.option("--exact-url", is_flag=True, help="Save exactly this URL: do not clean it, do not follow a short link.")
@user_option
@db_option
@json_option
def add(
    urls: tuple[str, ...], *, exact_url: bool, user_name: str, database_url: str, as_json: bool, **given: Any
) -> None:
    """Save the page at each URL.

    If the page is saved already, under any spelling of its URL, its bookmark is printed, and new tags are
    added to it; title, description and folder are set where the bookmark has none. Exits with 1 if a URL is
    invalid.

    \b
    canonry bookmarks add https://example.com/article?utm_source=mail --tag reading
    """
    has_failed = False

    async def run(saved: Bookmarks, owner: int, _: Client) -> None:
        nonlocal has_failed
        for url in urls:
            try:
                await _add_url(saved, owner, url, given, exact_url=exact_url, as_json=as_json)
            except InvalidUrl as error:
                has_failed = True
                click.echo(f"canonry: not saved: {mask_credentials(url)!r}: {error.reason}", err=True)

    _run(database_url, user_name, run, must_exist=False)
    sys.exit(1 if has_failed else 0)


@bookmarks.command("list")
@click.option("--tag", metavar="TAG", default="", help="Only bookmarks with this tag.")
@click.option("--folder", metavar="FOLDER", default="", help="Only bookmarks in this folder.")
@click.option("--to-read", is_flag=True, help="Only bookmarks to read.")
@click.option("--trash", is_flag=True, help="List the bookmarks in the trash.")
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="At most N bookmarks.")
@user_option
@db_option
@json_option
def list_bookmarks(
    *,
    tag: str,
    folder: str,
    to_read: bool,
    trash: bool,
    limit: int | None,
    user_name: str,
    database_url: str,
    as_json: bool,
) -> None:
    """List bookmarks, the newest first.

    \b
    canonry bookmarks list --tag reading
    canonry bookmarks list --json > bookmarks.jsonl
    """
    from canonry.bookmarks.bookmark import BookmarkSearch

    wanted = BookmarkSearch(tag=tag, folder=folder, to_read=True if to_read else None, in_trash=trash)
    _search(database_url, user_name, wanted, limit, as_json=as_json)


@bookmarks.command()
@click.argument("words", nargs=-1, required=True, metavar="WORD...")
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="At most N bookmarks.")
@user_option
@db_option
@json_option
def search(words: tuple[str, ...], *, limit: int | None, user_name: str, database_url: str, as_json: bool) -> None:
    """Find the bookmarks that have all the words, or the one of a page, by any spelling of its URL.

    \b
    canonry bookmarks search sourdough bread
    canonry bookmarks search 'https://youtu.be/dQw4w9WgXcQ?si=abc'
    """
    from canonry.bookmarks.bookmark import BookmarkSearch

    _search(database_url, user_name, BookmarkSearch(words=" ".join(words)), limit, as_json=as_json)


@bookmarks.command("import")
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option(
    "--linkding",
    "linkding_address",
    metavar="ADDRESS",
    help=f"Read all bookmarks of a linkding service instead; its API token is in {LINKDING_TOKEN_VARIABLE}.",
)
@click.option("--format", "format_name", type=click.Choice(_FORMATS), help="By default the content decides.")
@click.option("--exact-url", is_flag=True, help="Save exactly these URLs, without cleaning them.")
@click.option("--all", "shows_all", is_flag=True, help="List every row on a terminal, not only the refused ones.")
@user_option
@db_option
@json_option
def import_bookmarks(
    file: str | None,
    *,
    linkding_address: str | None,
    format_name: str | None,
    exact_url: bool,
    shows_all: bool,
    user_name: str,
    database_url: str,
    as_json: bool,
) -> None:
    """Import a FILE of bookmarks, or all bookmarks of a linkding service.

    Reads HTML as browsers, linkding, Pocket and Pinboard export it; CSV of Pocket, Raindrop and Instapaper;
    JSON of Pinboard, linkding, Karakeep, and the starred items of Miniflux and FreshRSS. For every row it says
    whether its page was added, merged into a saved bookmark, known, or refused and why. Exits with 1 if a
    row was refused.

    \b
    canonry bookmarks import bookmarks.html
    canonry bookmarks import --linkding https://links.example.org
    """
    from canonry.bookmarks.exchange import MAX_BYTES, FileFormat
    from canonry.bookmarks.linkding import download_linkding

    if (file is None) == (linkding_address is None):
        raise click.UsageError("Give a FILE or --linkding ADDRESS.")
    token = os.environ.get(LINKDING_TOKEN_VARIABLE, "")
    if linkding_address is not None and not token:
        raise click.UsageError(f"Set {LINKDING_TOKEN_VARIABLE} to the token from linkding: Settings, Integrations.")
    refused = 0

    async def run(saved: Bookmarks, owner: int, client: Client) -> None:
        nonlocal refused
        if linkding_address is not None:
            data = await download_linkding(linkding_address, token, client.fetch)
        else:
            assert file is not None
            with click.open_file(file, "rb") as source:
                data = source.read(MAX_BYTES + 1)
        started = await saved.imports.start(
            owner,
            data,
            file_format=FileFormat(format_name) if format_name else None,
            file_name=file or "",
            exact_url=exact_url,
        )
        bar = render.ProgressBar(started.total)
        try:
            await saved.imports.finish(started.id, on_progress=lambda done: bar.show(done, "bookmarks"))
        finally:
            bar.clear()
        done = await saved.imports.store.get(owner, started.id)
        refused = len(done.refused)
        await _print_import(saved, owner, done, shows_all=shows_all, as_json=as_json)

    _run(database_url, user_name, run, must_exist=False)
    sys.exit(1 if refused else 0)


@bookmarks.command()
@click.argument("file", default="-", type=click.Path(dir_okay=False, allow_dash=True), callback=require_folder)
@click.option(
    "--format", "format_name", type=click.Choice(_FORMATS), help="By default JSON for .json, CSV for .csv, else HTML."
)
@user_option
@db_option
def export(file: str, *, format_name: str | None, user_name: str, database_url: str) -> None:
    """Write all bookmarks to a FILE: HTML for browsers (netscape), JSON or CSV.

    \b
    canonry bookmarks export bookmarks.html
    canonry bookmarks export --format json > bookmarks.json
    """
    from canonry.atomic_files import replace_file
    from canonry.bookmarks.exchange import FileFormat, write_bookmarks

    by_suffix = {".json": FileFormat.JSON, ".csv": FileFormat.CSV}
    chosen = FileFormat(format_name) if format_name else by_suffix.get(Path(file).suffix.lower(), FileFormat.NETSCAPE)

    async def run(saved: Bookmarks, owner: int, _: Client) -> None:
        found = await _load_all(saved, owner, by_folder=chosen is FileFormat.NETSCAPE)
        pieces = write_bookmarks(chosen, found)
        if file == "-":
            _echo_pieces(pieces)
            return
        with replace_file(Path(file), is_private=True) as part, part.open("w", encoding="utf-8") as target:
            target.writelines(pieces)
        click.echo(f"canonry: wrote {render.count(len(found), 'bookmark')} to {file}", err=True)

    _run(database_url, user_name, run)


def _run(
    database_url: str,
    user_name: str,
    work: Callable[[Bookmarks, int, Client], Coroutine[Any, Any, None]],
    *,
    must_exist: bool = True,
) -> None:
    async def run() -> None:
        async with _open_bookmarks(database_url, must_exist=must_exist) as (saved, client):
            await work(saved, await _find_owner(saved, user_name), client)

    asyncio.run(run())


@asynccontextmanager
async def _open_bookmarks(database_url: str, *, must_exist: bool) -> AsyncGenerator[tuple[Bookmarks, Client]]:
    """Open the bookmarks of a store. The service or a worker finishes what takes longer: pages and short links."""
    from functools import partial

    from canonry.bookmarks.expand import expand
    from canonry.bookmarks.save import Bookmarks
    from canonry.settings import load_settings
    from canonry.store.cache import open_cache
    from canonry.wiring import make_client

    async def leave_to_schedule(_kind: str, _key: str) -> None:
        """A schedule of the service queues unfinished work within a minute."""

    settings = load_settings()
    with open_store(database_url, must_exist=must_exist) as database:
        async with make_client(settings) as client:
            cache = open_cache(settings, database)
            saved = Bookmarks(
                database,
                partial(expand, client=client, cache=cache),
                enqueue=leave_to_schedule,
                expansion_wait=_EXPANSION_SECONDS,
            )
            try:
                yield saved, client
            finally:
                await saved.statistics.flush()
                await cache.close()


async def _find_owner(saved: Bookmarks, user_name: str) -> int:
    """Return the id of the user: the one with this name, the only one, or the owner of a store without users."""
    from canonry.accounts import PERSONAL_OWNER_ID, UserStore

    users = await UserStore(saved.store.database).list_users()
    if user_name:
        for user in users:
            if user.name == user_name:
                return user.id
        raise CanonryError(f"there is no user {user_name!r}. `canonry user list` shows all users.")
    if len(users) > 1:
        names = ", ".join(user.name for user in users[:5])
        raise CanonryError(f"the store has several users. Say whose bookmarks you mean with --user NAME: {names}.")
    return users[0].id if users else PERSONAL_OWNER_ID


async def _add_url(
    saved: Bookmarks, owner: int, url: str, given: dict[str, Any], *, exact_url: bool, as_json: bool
) -> None:
    from canonry.bookmarks.bookmark import OnDuplicate, PutOutcome
    from canonry.bookmarks.draft import Draft, clean_tags
    from canonry.bookmarks.import_store import find_missing_fields

    fields: dict[str, Any] = {**given, "tags": clean_tags(given["tags"])}
    draft = Draft(url, **fields)
    put = await saved.put(owner, draft, exact_url=exact_url, on_duplicate=OnDuplicate.RETURN)
    bookmark, outcome = put.bookmark, put.outcome
    if outcome is PutOutcome.NO_CHANGE and (missing := find_missing_fields(bookmark, draft.get_fields())):
        bookmark, outcome = await saved.edit(owner, bookmark.id, missing), PutOutcome.UPDATED
    if not render.is_for_terminal(as_json=as_json):
        render.print_json({"outcome": outcome, **_make_record(bookmark)})
        return
    heading = {
        PutOutcome.CREATED: "Saved",
        PutOutcome.UPDATED: f"Already saved on {bookmark.created_at[:10]}, now updated",
        PutOutcome.NO_CHANGE: f"Already saved on {bookmark.created_at[:10]}",
    }[outcome]
    click.echo(f"{render.make_bold(heading)}: {render.escape_control(bookmark.url)}")


def _search(database_url: str, user_name: str, wanted: BookmarkSearch, limit: int | None, *, as_json: bool) -> None:
    async def run(saved: Bookmarks, owner: int, _: Client) -> None:
        is_table = render.is_for_terminal(as_json=as_json)
        table: list[tuple[str, ...]] = []
        cursor, left = None, limit
        while left is None or left > 0:
            size = _ROWS_PER_READ if left is None else min(left, _ROWS_PER_READ)
            page = await saved.search(owner, wanted, cursor=cursor, limit=size)
            for bookmark in page.bookmarks:
                if is_table:
                    table.append(_make_row(bookmark))
                else:
                    render.print_json(_make_record(bookmark))
            cursor = page.next_cursor
            left = None if left is None else left - len(page.bookmarks)
            if cursor is None:
                break
        if table:
            render.print_table(("saved", "title", "tags", "url"), table)
        elif is_table:
            is_all = not (wanted.words or wanted.tag or wanted.folder or wanted.to_read or wanted.in_trash)
            hint = "no bookmarks yet. Save one with `canonry bookmarks add URL`." if is_all else "no matches."
            click.echo(f"canonry: {hint}", err=True)

    _run(database_url, user_name, run)


def _make_row(bookmark: Bookmark) -> tuple[str, ...]:
    return format_minute(bookmark.created_at), bookmark.title[:60], ", ".join(bookmark.tags)[:40], bookmark.url


def _make_record(bookmark: Bookmark) -> dict[str, object]:
    from dataclasses import fields

    return {field.name: getattr(bookmark, field.name) for field in fields(bookmark)}


async def _print_import(saved: Bookmarks, owner: int, done: BookmarkImport, *, shows_all: bool, as_json: bool) -> None:
    from canonry.bookmarks.import_store import RowOutcome

    if done.failure:
        raise CanonryError(done.failure)
    is_table = render.is_for_terminal(as_json=as_json)
    table: list[tuple[str, ...]] = []
    counts = dict.fromkeys(RowOutcome, 0)
    after = 0
    while rows := await saved.imports.store.list_rows(owner, done.id, after=after, limit=_ROWS_PER_READ):
        after = rows[-1].row
        for row in rows:
            counts[row.outcome] += 1
            if not is_table:
                render.print_json(row)
            elif shows_all or row.outcome is RowOutcome.REFUSED:
                table.append(_make_import_row(row))
    if table:
        render.print_table(("row", "outcome", "url", "bookmark or reason"), table)
    summary = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    click.echo(f"canonry: {render.count(sum(counts.values()), 'row')}: {summary}", err=True)


def _make_import_row(row: ImportedRow) -> tuple[str, ...]:
    return str(row.row), row.outcome, row.url, row.reason or f"{row.bookmark_id}: {row.bookmark_url or 'deleted'}"


async def _load_all(saved: Bookmarks, owner: int, *, by_folder: bool) -> list[Bookmark]:
    from canonry.bookmarks.exchange_rows import split_folder

    rows = await saved.store.list_ids(owner)
    if by_folder:
        rows.sort(key=lambda row: split_folder(row.folder))
    found: list[Bookmark] = []
    for start in range(0, len(rows), _ROWS_PER_READ):
        found += await saved.store.get_many(owner, [row.id for row in rows[start : start + _ROWS_PER_READ]])
    return found


def _echo_pieces(pieces: Iterator[str]) -> None:
    for piece in pieces:
        click.echo(piece.encode(), nl=False)
