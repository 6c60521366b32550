"""The tour: every capability on the demo's web, offline, with real requests through the real guard."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from canonry.core.explain import explain
from canonry.core.native import CORE, canonical_hash, normalize_many
from canonry.core.presets import policies
from canonry.errors import CanonryError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable

    from canonry.crawler.pages import PageLink
    from canonry.net.fetch import Client
    from canonry.store.database import Database

SPELLINGS = (
    "HTTPS://M.YouTube.com:443/shorts/dQw4w9WgXcQ?si=xyz&utm_medium=social",
    "https://youtu.be/dQw4w9WgXcQ?utm_source=mail",
    "https://www.youtube.com/embed/dQw4w9WgXcQ",
)
MESSY = "HTTP://WWW.Example.com:80//blog/./feed/?utm_source=mail&b=2&a=1#latest"
ARTICLES = ("https://news.example.com/story?utm_source=rss", "https://news.example.com/story?fbclid=x#comments")
FEED = "http://old.blog.example.org/rss.xml"
SHORT_AND_LONG = ("http://bit.ly/small", "http://blog.example.org/2?utm_source=mail", "http://Blog.Example.org:80/2")
HOSTILE = (
    "http://intern.example.net/admin",
    "http://evil.example.com/metadata",
    "http://evil.example.com/port",
    "http://evil.example.com/loop",
    "http://evil.example.com/bomb",
)
_MANY = 100_000


@dataclass(frozen=True, slots=True)
class Stop:
    """One thing that was shown: a table, what it comes to, and the command that does it for you."""

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    result: str
    command: str


async def tour() -> AsyncGenerator[Stop]:
    """The stops in their order; ModuleNotFoundError where the next one needs an extra that is not installed."""
    yield _one_form()
    yield _policies()
    yield _keys()
    yield _many()
    from canonry.demo.web import demo_web
    from canonry.store.database import Database

    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(stack.enter_context(demo_web()))
        database = stack.enter_context(Database("sqlite://"))
        yield await _canonicalized(client)
        yield await _ingested(client, database)
        yield await _bookmarked(client, database)
        yield await _crawled(client, database)
        yield await _refused(client)


def _one_form() -> Stop:
    told = [explain(url) for url in SPELLINGS]
    rows = [(url, ", ".join(step.rule for step in each.steps)) for url, each in zip(SPELLINGS, told, strict=True)]
    [form] = {each.url for each in told}
    return Stop(
        "Three URLs of one video", ("url", "rules that fired"), tuple(rows), form, f"canonry explain '{SPELLINGS[0]}'"
    )


def _policies() -> Stop:
    rows = tuple((policy.id, explain(MESSY, policy).url) for policy in policies())
    result = (
        f"{len({url for _, url in rows})} answers for {len(rows)} policies: what counts as the same is yours to choose"
    )
    return Stop(f"What counts as the same? {MESSY}", ("policy", "url"), rows, result, "canonry policies")


def _keys() -> Stop:
    rows = tuple((url, canonical_hash(url)[:16] + "…") for url in ARTICLES)
    result = "one article, one key" if len({key for _, key in rows}) == 1 else "two keys"
    return Stop(
        "A key for a pipeline, whatever the tracking", ("url", "sha256"), rows, result, "canonry normalize --hash URL"
    )


def _many() -> Stop:
    urls = [f"https://www.example.com/{number // 4}?utm_id={number}&b=1&a=2" for number in range(_MANY)]
    started = time.process_time()
    forms = normalize_many(urls)
    seconds = max(time.process_time() - started, 1e-6)
    rows = ((f"{_MANY:,}", f"{len(set(forms)):,}", f"{seconds * 1000:.0f} ms", CORE),)
    return Stop(
        "Many at once",
        ("given", "different", "CPU", "core"),
        rows,
        f"{_MANY / seconds:,.0f} URLs a second",
        "canonry normalize < urls.txt",
    )


async def _canonicalized(client: Client) -> Stop:
    from canonry.feeds.canonicalize import canonicalize

    found = await canonicalize(FEED, fetch=client.fetch, guard=client.guard)
    rows = tuple((each.verdict, each.url, each.reason) for each in found.candidates)
    result = f"{found.url} ({found.reason}, {found.total_requests} requests)"
    return Stop(
        f"Which URL stands for the feed at {FEED}?",
        ("verdict", "url", "reason"),
        rows,
        result,
        "canonry canonicalize URL",
    )


async def _ingested(client: Client, database: Database) -> Stop:
    from canonry.feeds.ingest import ingest

    feeds = ["http://blog.example.org/feed", "http://planet.example.org/feed"]
    runs = [await ingest(feeds, database, fetch=client.fetch) for _ in range(2)]
    rows = tuple((str(number), *map(str, run.counts.values())) for number, run in enumerate(runs, 1))
    result = "the post that both feeds link to is kept once, and the second run finds nothing new"
    return Stop(
        "Two feeds that share a post, ingested twice", ("run", *runs[0].counts), rows, result, "canonry ingest URL…"
    )


async def _bookmarked(client: Client, database: Database) -> Stop:
    from canonry.bookmarks.draft import Draft
    from canonry.bookmarks.expand import expand
    from canonry.bookmarks.save import Bookmarks

    async def enqueue(_kind: str, _key: str) -> None: ...

    keep = Bookmarks(database, partial(expand, client=client), enqueue=enqueue, expansion_wait=5)
    puts = [(url, await keep.put(0, Draft(url))) for url in SHORT_AND_LONG]
    rows = tuple((url, put.outcome, put.bookmark.url) for url, put in puts)
    result = f"{await keep.store.count()} bookmark"
    return Stop(
        "A short link, and two spellings of where it leads", ("given", "outcome", "kept"), rows, result, "canonry serve"
    )


async def _crawled(client: Client, database: Database) -> Stop:
    from canonry.crawler.crawl import crawl

    pages = crawl("http://site.example.com/", engine="http", store=database, client=client, delay=0)
    found = sorted([page async for page in pages], key=lambda page: page.url)
    rows = tuple((page.url, page.title, _verdicts(page.links)) for page in found)
    links = sum(len(page.links) for page in found)
    return Stop(
        "A site, each page once",
        ("page", "title", "its links"),
        rows,
        f"{links} links, {len(found)} pages, each asked for once",
        "canonry crawl URL",
    )


def _verdicts(links: tuple[PageLink, ...]) -> str:
    counts = Counter(link.verdict for link in links)
    return ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))


async def _refused(client: Client) -> Stop:
    rows = tuple([(url, await _reason(client.fetch(url))) for url in HOSTILE])
    result = f"{sum(reason != 'answered' for _, reason in rows)} of {len(rows)} refused"
    return Stop(
        "Hostile corners: private addresses, redirects to them, loops, bombs",
        ("url", "why not"),
        rows,
        result,
        "canonry canonicalize URL",
    )


async def _reason(asked: Awaitable[object]) -> str:
    try:
        await asked
    except CanonryError as error:
        return str(getattr(error, "reason", error))
    return "answered"
