"""The tour: what canonry does, shown on the demo web, offline, with real requests through the real guard."""

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
_URL_COUNT = 100_000


@dataclass(frozen=True, slots=True)
class TourStep:
    """One capability: a table, its result in one line, and the command to try it."""

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    result: str
    command: str


async def run_tour() -> AsyncGenerator[TourStep]:
    """Yield the steps in order; ModuleNotFoundError if the next one needs an extra that is not installed."""
    yield _show_one_normal_form()
    yield _show_policies()
    yield _show_keys()
    yield _show_many_at_once()
    from canonry.demo.web import demo_web
    from canonry.store.database import Database

    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(stack.enter_context(demo_web()))
        database = stack.enter_context(Database("sqlite://"))
        yield await _show_canonical_feed(client)
        yield await _show_ingest(client, database)
        yield await _show_bookmarks(client, database)
        yield await _show_crawl(client, database)
        yield await _show_refusals(client)


def _show_one_normal_form() -> TourStep:
    explanations = [explain(url) for url in SPELLINGS]
    rows = [
        (url, ", ".join(step.rule for step in each.steps)) for url, each in zip(SPELLINGS, explanations, strict=True)
    ]
    [form] = {each.url for each in explanations}
    return TourStep(
        "Three URLs of one video", ("url", "rules applied"), tuple(rows), form, f"canonry explain '{SPELLINGS[0]}'"
    )


def _show_policies() -> TourStep:
    rows = tuple((policy.id, explain(MESSY, policy).url) for policy in policies())
    result = f"{len({url for _, url in rows})} different results from {len(rows)} policies: choose the one that fits"
    return TourStep(f"Policies decide what is the same: {MESSY}", ("policy", "url"), rows, result, "canonry policies")


def _show_keys() -> TourStep:
    rows = tuple((url, canonical_hash(url)[:16] + "…") for url in ARTICLES)
    result = "same article, same key" if len({key for _, key in rows}) == 1 else "different keys"
    return TourStep(
        "One key per article, without tracking parameters",
        ("url", "sha256"),
        rows,
        result,
        "canonry normalize --hash URL",
    )


def _show_many_at_once() -> TourStep:
    urls = [f"https://www.example.com/{number // 4}?utm_id={number}&b=1&a=2" for number in range(_URL_COUNT)]
    started = time.process_time()
    forms = normalize_many(urls)
    seconds = max(time.process_time() - started, 1e-6)
    rows = ((f"{_URL_COUNT:,}", f"{len(set(forms)):,}", f"{seconds * 1000:.0f} ms", CORE),)
    return TourStep(
        "Many URLs at once",
        ("URLs", "different", "CPU time", "core"),
        rows,
        f"{_URL_COUNT / seconds:,.0f} URLs per second",
        "canonry normalize < urls.txt",
    )


async def _show_canonical_feed(client: Client) -> TourStep:
    from canonry.feeds.canonicalize import canonicalize

    found = await canonicalize(FEED, fetch=client.fetch, guard=client.guard)
    rows = tuple((each.verdict, each.url, each.reason) for each in found.candidates)
    result = f"{found.url} ({found.reason}, {found.total_requests} requests)"
    return TourStep(
        f"The canonical URL of the feed at {FEED}",
        ("verdict", "url", "reason"),
        rows,
        result,
        "canonry canonicalize URL",
    )


async def _show_ingest(client: Client, database: Database) -> TourStep:
    from canonry.feeds.ingest import ingest

    feeds = ["http://blog.example.org/feed", "http://planet.example.org/feed"]
    runs = [await ingest(feeds, database, fetch=client.fetch) for _ in range(2)]
    rows = tuple((str(number), *map(str, run.counts.values())) for number, run in enumerate(runs, 1))
    result = "the post in both feeds is stored once, and the second run finds nothing new"
    return TourStep(
        "Two feeds with a common post, ingested twice", ("run", *runs[0].counts), rows, result, "canonry ingest URL…"
    )


async def _show_bookmarks(client: Client, database: Database) -> TourStep:
    from canonry.bookmarks.draft import Draft
    from canonry.bookmarks.expand import expand
    from canonry.bookmarks.save import Bookmarks

    async def enqueue(_kind: str, _key: str) -> None: ...

    keep = Bookmarks(database, partial(expand, client=client), enqueue=enqueue, expansion_wait=5)
    puts = [(url, await keep.put(0, Draft(url))) for url in SHORT_AND_LONG]
    rows = tuple((url, put.outcome, put.bookmark.url) for url, put in puts)
    result = f"{await keep.store.count()} bookmark"
    return TourStep(
        "A short link, and two spellings of its target",
        ("entered", "outcome", "saved as"),
        rows,
        result,
        "canonry serve",
    )


async def _show_crawl(client: Client, database: Database) -> TourStep:
    from canonry.crawler.crawl import crawl

    pages = crawl("http://site.example.com/", engine="http", store=database, client=client, delay=0)
    found = sorted([page async for page in pages], key=lambda page: page.url)
    rows = tuple((page.url, page.title, _count_verdicts(page.links)) for page in found)
    links = sum(len(page.links) for page in found)
    return TourStep(
        "A site, every page fetched once",
        ("page", "title", "links"),
        rows,
        f"{links} links, {len(found)} pages, each fetched once",
        "canonry crawl URL",
    )


def _count_verdicts(links: tuple[PageLink, ...]) -> str:
    counts = Counter(link.verdict for link in links)
    return ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))


async def _show_refusals(client: Client) -> TourStep:
    from canonry.net.origin import Origin

    rows = tuple([(url, await _find_refusal(client.fetch(url, origin=Origin.PERSON))) for url in HOSTILE])
    result = f"{sum(reason != 'answered' for _, reason in rows)} of {len(rows)} refused"
    return TourStep(
        "Hostile URLs: private addresses, redirects to them, loops, bombs",
        ("url", "reason"),
        rows,
        result,
        "canonry canonicalize URL",
    )


async def _find_refusal(asked: Awaitable[object]) -> str:
    try:
        await asked
    except CanonryError as error:
        return str(getattr(error, "reason", error))
    return "answered"
