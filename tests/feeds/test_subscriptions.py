"""Subscriptions: each feed is followed once, whichever of its URLs is given (contract F16)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from canonry.errors import FetchFailed, InvalidUrl, NotAFeed, StoreError, UnsafeUrl
from canonry.feeds.feed_store import FeedStore
from canonry.feeds.opml import OpmlFeed
from canonry.feeds.subscriptions import AddOutcome, AddResult, add_feed, import_feeds, import_unfetched
from canonry.store.database import Database
from dict_web import DictWeb
from feed_texts import gone, moved, ok, rss
from loopback import in_a_loop

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from canonry.net.response import Response

NEW, KNOWN, TWIN, REFUSED = AddResult.NEW, AddResult.KNOWN, AddResult.TWIN, AddResult.REFUSED
NOW = datetime(2026, 1, 31, 10, tzinfo=UTC)
CLEAN = "https://example.com/feed"
MESSY = "http://www.example.com/feed/?utm_source=x"
TWINS: dict[str, dict[str, Any]] = {
    url: ok(rss())
    for url in (
        CLEAN,
        MESSY,
        "https://www.example.com/feed/",
        "https://www.example.com/feed",
        "http://example.com/feed",
    )
}


@pytest.fixture
def store() -> Iterator[FeedStore]:
    with Database("sqlite://") as database:
        yield FeedStore(database)


async def add(url: str, store: FeedStore, pages: Mapping[str, Mapping[str, Any]]) -> tuple[AddOutcome, list[str]]:
    web = DictWeb(pages)
    return await add_feed(url, store, now=NOW, fetch=web.fetch), web.asked


def rows(*urls: str) -> list[OpmlFeed]:
    return [OpmlFeed(url, f"Title {number}") for number, url in enumerate(urls)]


def summarize(outcomes: list[AddOutcome]) -> list[tuple[AddResult, str]]:
    return [(outcome.result, outcome.url) for outcome in outcomes]


@in_a_loop
async def test_a_new_feed_is_stored_under_its_canonical_url_with_its_aliases(store: FeedStore) -> None:
    added, _ = await add(MESSY, store, TWINS)
    assert (added.result, added.input_url, added.url, added.title) == (NEW, MESSY, CLEAN, "Blog")
    assert MESSY in added.aliases
    (feed,) = await store.list_all()
    assert (feed.url, feed.key_url, feed.title) == (CLEAN, CLEAN, "Blog")
    for alias in added.aliases:
        found = await store.find([alias])
        assert found is not None and found.id == feed.id


@pytest.mark.parametrize("again", [CLEAN, MESSY, "feed://example.com/feed/", "example.com/feed?utm_campaign=y#top"])
@in_a_loop
async def test_a_known_feed_is_reported_without_a_request(store: FeedStore, again: str) -> None:
    await add(MESSY, store, TWINS)
    added, asked = await add(again, store, TWINS)
    assert (added.result, added.url, added.title, asked) == (KNOWN, CLEAN, "Blog", [])
    assert len(await store.list_all()) == 1


@in_a_loop
async def test_a_redirect_to_a_known_feed_becomes_an_alias(store: FeedStore) -> None:
    pages = {**TWINS, "https://old.example.org/rss": moved(CLEAN)}
    await add(CLEAN, store, pages)
    added, asked = await add("https://old.example.org/rss", store, pages)
    assert (added.result, added.url) == (KNOWN, CLEAN)
    assert asked == ["https://old.example.org/rss"]
    assert (await add("https://old.example.org/rss", store, pages))[1] == []  # an alias now


@in_a_loop
async def test_a_self_link_to_a_known_feed_makes_a_twin_only_if_both_are_the_same(store: FeedStore) -> None:
    """Templates copy the self link of the main feed into the feeds of categories and of comments."""
    pages = {
        CLEAN: ok(rss(self_url=CLEAN)),
        "https://mirror.example.net/feed": ok(rss(self_url=CLEAN)),
        "https://example.com/comments/feed": ok(rss(7, 8, 9, self_url=CLEAN)),
    }
    await add(CLEAN, store, pages)
    added, _ = await add("https://mirror.example.net/feed", store, pages)
    assert (added.result, added.url) == (KNOWN, CLEAN)
    assert (await add("https://mirror.example.net/feed", store, pages))[1] == []  # an alias now
    for result in (NEW, KNOWN):
        added, _ = await add("https://example.com/comments/feed", store, pages)
        assert (added.result, added.url) == (result, "https://example.com/comments/feed")
    # The self link may be an alias of the known feed, too.
    pages["https://example.com/tag/feed"] = ok(rss(4, 5, self_url="https://mirror.example.net/feed"))
    assert (await add("https://example.com/tag/feed", store, pages))[0].result is NEW
    assert len(await store.list_all()) == 3


@in_a_loop
async def test_a_feed_added_without_a_request_is_recognized(store: FeedStore) -> None:
    await import_unfetched(rows("http://www.example.com/feed/?utm_source=x"), store, now=NOW)
    added, _ = await add(CLEAN, store, TWINS)
    assert (added.result, added.url) == (KNOWN, MESSY)
    assert len(await store.list_all()) == 1


@in_a_loop
async def test_similar_urls_of_different_feeds_stay_two_feeds(store: FeedStore) -> None:
    pages = {"https://www.example.com/feed": ok(rss(7, 8, 9, title="Other")), CLEAN: ok(rss())}
    await import_unfetched(rows("https://www.example.com/feed"), store, now=NOW)
    added, _ = await add(CLEAN, store, pages)
    assert (added.result, added.url) == (NEW, CLEAN)


@in_a_loop
async def test_a_page_becomes_an_alias_of_its_feed(store: FeedStore) -> None:
    page = ok('<html><link rel="alternate" type="application/rss+xml" href="/feed">')
    pages = {**TWINS, "https://example.com/": page}
    assert (await add("example.com", store, pages))[0].url == CLEAN
    again, asked = await add("https://example.com/", store, pages)
    assert (again.result, asked) == (KNOWN, [])


@in_a_loop
async def test_adding_a_stopped_feed_makes_it_active(store: FeedStore) -> None:
    await add(CLEAN, store, TWINS)
    (feed,) = await store.list_all()
    await store.fail(feed.id, "answered 410", NOW, is_gone=True)
    added, _ = await add(CLEAN, store, TWINS)
    assert (added.result, added.reason) == (KNOWN, "it was stopped and is polled again")
    assert [each.id for each in await store.list_due(NOW)] == [feed.id]


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("nope", InvalidUrl),
        ("https://example.com/none", FetchFailed),
        ("https://example.com/page", NotAFeed),
        ("https://example.com/inside", UnsafeUrl),
    ],
)
@in_a_loop
async def test_a_url_without_a_feed_is_not_stored(store: FeedStore, url: str, error: type[Exception]) -> None:
    pages = {
        "https://example.com/none": gone(),
        "http://example.com/none": gone(),
        "https://example.com/page": ok("<html>"),
        "https://example.com/inside": moved("http://10.0.0.1/feed"),
        "http://10.0.0.1/feed": ok(rss()),
    }
    with pytest.raises(error):
        await add(url, store, pages)
    assert await store.list_all() == []


@in_a_loop
async def test_import_reports_every_row_and_fetches_no_twin_again(store: FeedStore) -> None:
    known = "https://known.example.com/rss"
    pages = {**TWINS, known: ok(rss(5, title="Known")), "https://gone.example.com/": gone(410)}
    await add(known, store, pages)
    listed = rows(MESSY, "nope", known, CLEAN, "https://gone.example.com/", f"{known}?utm_source=x", "")
    heard: list[AddOutcome] = []
    web = DictWeb(pages)
    added = await import_feeds(listed, store, now=NOW, fetch=web.fetch, on_added=heard.append)
    assert summarize(added) == [
        (NEW, CLEAN),
        (REFUSED, ""),
        (KNOWN, known),
        (TWIN, CLEAN),
        (REFUSED, ""),
        (TWIN, known),
        (REFUSED, ""),
    ]
    assert added[1].reason == "no scheme and no host name"
    assert added[3].reason == f"the same feed as {MESSY}"
    assert added[4].reason == "answered 410"
    assert added[6].reason == "empty"
    assert len(heard) == 7
    assert len(web.asked) == len(set(web.asked))


@in_a_loop
async def test_two_urls_that_redirect_to_one_feed_are_twins(store: FeedStore) -> None:
    """Both are fetched at once; the one that finishes second finds the first in the store."""
    one, two = "https://feeds.example.net/a", "https://blog.example.org/b"
    pages = {one: moved("https://example.com/feed"), two: moved("https://example.com/feed"), CLEAN: ok(rss())}
    added = await import_feeds(rows(one, two), store, now=NOW, fetch=DictWeb(pages).fetch)
    assert summarize(added) == [(NEW, CLEAN), (TWIN, CLEAN)]
    assert len(await store.list_all()) == 1


@in_a_loop
async def test_import_respects_both_limits_on_concurrency(store: FeedStore) -> None:
    urls = [f"https://{host}.example.com/{number}" for host in "abc" for number in range(4)]
    web = DictWeb({url: {**ok(rss(url)), "delay_ms": 10} for url in urls})
    open_now: list[str] = []
    most_open = 0

    async def fetch(url: str, **options: object) -> Any:
        nonlocal most_open
        host = url.split("/")[2]
        open_now.append(host)
        most_open = max(most_open, len(open_now))
        assert len(open_now) <= 3
        assert open_now.count(host) <= 2
        try:
            return await web.fetch(url, **options)
        finally:
            open_now.remove(host)

    added = await import_feeds(rows(*urls), store, now=NOW, fetch=fetch, concurrency=3, per_host=2)
    assert {each.result for each in added} == {NEW}
    assert most_open == 3


@in_a_loop
async def test_a_refused_row_names_the_setting_that_would_allow_it(store: FeedStore) -> None:
    advice = "To allow it, set CANONRY_ALLOW_NETWORKS=10.0.0.0/8."

    async def refuse(url: str, **_: object) -> Response:
        raise UnsafeUrl(url, "10.0.0.1 is a private address", advice=advice)

    [refused] = await import_feeds(rows("http://10.0.0.1/feed"), store, now=NOW, fetch=refuse)
    assert refused.result is REFUSED and refused.reason.endswith(advice)


@in_a_loop
async def test_import_without_requests_merges_cosmetic_variants(store: FeedStore) -> None:
    added = await import_unfetched(
        rows(CLEAN, MESSY, "nope", "https://other.example.com/a/", "http://other.example.com/a", "feed:b.com"),
        store,
        now=NOW,
    )
    assert summarize(added) == [
        (NEW, CLEAN),
        (TWIN, CLEAN),
        (REFUSED, ""),
        (NEW, "https://other.example.com/a/"),
        (TWIN, "https://other.example.com/a/"),
        (NEW, "https://b.com/"),
    ]
    assert added[1].reason == f"the same feed as {CLEAN}"
    assert {feed.shown_title for feed in await store.list_all()} == {"Title 0", "Title 3", "Title 5"}
    again = await import_unfetched(rows(MESSY, CLEAN), store, now=NOW)
    assert summarize(again) == [(KNOWN, CLEAN), (TWIN, CLEAN)]


@in_a_loop
async def test_credentials_are_masked_in_reasons(store: FeedStore) -> None:
    url = "https://me:secret@example.com/feed"
    added = await import_unfetched(rows(url, url), store, now=NOW)
    assert added[1].reason == "the same feed as https://***@example.com/feed"
    assert [feed.url for feed in await store.list_all()] == [url]


@in_a_loop
async def test_an_error_of_the_store_is_raised_as_it_is() -> None:
    with Database("sqlite://") as database:
        store = FeedStore(database)
        await database.write(lambda connection: connection.exec_driver_sql("DROP TABLE feed_aliases"))
        with pytest.raises(StoreError):
            await import_feeds(rows(CLEAN, "https://a.com/"), store, now=NOW, fetch=DictWeb(TWINS).fetch)
