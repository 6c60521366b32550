"""The plugin for reader: twin subscriptions are merged; reader itself fetches all feeds from a local server."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest
from reader import Reader, make_reader

import feed_server
from canonry.integrations.reader import MergedSubscription, merge_twins

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

# The feedparser inside reader imports sgmllib3k; the current feedparser depends on a fork of it.
sys.modules.setdefault("sgmllib", import_module("feedparser_sgmllib"))
CLEAN_URL = "https://feed.example/index.xml"
NINE_URLS = [
    "http://feed.example/index.xml",
    "http://www.feed.example/index.xml",
    "https://www.feed.example/index.xml",
    CLEAN_URL,
    "http://feed.example/index.xml/",
    "http://feed.example/index.xml?utm_source=mail&utm_medium=rss",
    "HTTP://FEED.example/index.xml",
    "http://feed.example:80//index.xml",
    "https://feed.example:443/index.xml?fbclid=1#top",
]
MONDAY = datetime(2026, 1, 5, tzinfo=UTC)


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[feed_server.FeedServer]:
    with feed_server.run_feed_server() as served:
        served.serve_all_hosts(monkeypatch, tmp_path)
        served.get_feed = lambda _url: feed_server.rss()
        yield served


@pytest.fixture
def reader(tmp_path: Path) -> Generator[Reader]:
    with make_reader(str(tmp_path / "reader.sqlite"), plugins=["canonry.integrations.reader"]) as made:
        yield made


def subscribe(reader: Reader, *urls: str, without_merging: bool = False) -> None:
    """Add the feeds, and let reader fetch them."""
    for url in urls:
        reader.add_feed(url)
    if without_merging:
        for url in urls:
            reader.update_feed(url)  # this does not run the plugin
    else:
        reader.update_feeds()


def get_urls(reader: Reader) -> list[str]:
    return [feed.url for feed in reader.get_feeds()]


def test_nine_urls_of_one_feed_become_one_subscription(web: feed_server.FeedServer, reader: Reader) -> None:
    subscribe(reader, *NINE_URLS)
    assert len(web.requested_urls) == len(NINE_URLS)  # reader fetched each URL, the plugin none
    (feed,) = reader.get_feeds()
    assert feed.url == CLEAN_URL
    assert feed.title == "Twins"
    assert sorted(entry.id for entry in reader.get_entries()) == [f"id-{n}" for n in range(5)]
    merged: Any = reader.get_tag(feed, ".plugin.canonry.merged")
    assert sorted(merged) == sorted(set(NINE_URLS) - {CLEAN_URL})
    reader.add_feed(NINE_URLS[1])
    reader.update_feeds()
    assert get_urls(reader) == [CLEAN_URL]


def test_read_marks_titles_and_tags_are_kept(web: feed_server.FeedServer, reader: Reader) -> None:
    www, plain = NINE_URLS[1], NINE_URLS[0]
    subscribe(reader, www, plain, CLEAN_URL, without_merging=True)
    reader.set_entry_read((www, "id-1"), True, MONDAY)
    reader.set_entry_important((www, "id-2"), True, MONDAY)
    reader.set_entry_important((plain, "id-3"), False, MONDAY)
    reader.set_entry_read((CLEAN_URL, "id-4"), True, MONDAY)
    reader.set_tag((www, "id-1"), "later", {"when": 1})
    reader.set_tag((CLEAN_URL, "id-1"), "later", {"when": 2})
    reader.set_tag((plain, "id-1"), "later", {"when": 3})
    reader.set_tag(www, "news")
    reader.set_tag(plain, "folder", ["a"])
    reader.set_tag(CLEAN_URL, "folder", ["b"])
    reader.set_feed_user_title(plain, "Mine")
    reader.disable_feed_updates(CLEAN_URL)
    reader.add_entry({"feed_url": www, "id": "own", "title": "Own", "link": "http://feed.example/own"})

    assert merge_twins(reader) == [
        MergedSubscription(www, plain),
        MergedSubscription(CLEAN_URL, plain),
    ]  # updates are disabled for the cleanest URL
    (feed,) = reader.get_feeds()
    assert (feed.url, feed.user_title, feed.updates_enabled) == (plain, "Mine", True)
    tags: dict[str, Any] = dict(reader.get_tags(feed))
    assert {name: tags[name] for name in ("news", "folder", ".reader.duplicate.1.of.folder")} == {
        "news": None,
        "folder": ["a"],
        ".reader.duplicate.1.of.folder": ["b"],
    }
    entries = {entry.id: entry for entry in reader.get_entries()}
    assert sorted(entries) == ["id-0", "id-1", "id-2", "id-3", "id-4", "own"]
    assert {name for name, entry in entries.items() if entry.read} == {"id-1", "id-4"}
    assert entries["id-1"].read_modified == MONDAY
    assert (entries["id-2"].important, entries["id-3"].important, entries["id-0"].important) == (True, False, None)
    assert dict(reader.get_tags(entries["id-1"])) == {
        "later": {"when": 3},
        ".reader.duplicate.1.of.later": {"when": 1},
        ".reader.duplicate.2.of.later": {"when": 2},
    }
    assert merge_twins(reader) == []


def test_entries_that_only_the_twin_has_are_kept(web: feed_server.FeedServer, reader: Reader) -> None:
    plain = NINE_URLS[0]
    subscribe(reader, plain)
    reader.mark_entry_as_read((plain, "id-0"))
    web.get_feed = lambda _url: feed_server.rss(items=range(3, 9))  # later the oldest entries are no longer in the feed
    reader.update_feeds(scheduled=False)
    assert len(list(reader.get_entries())) == 9
    subscribe(reader, CLEAN_URL)
    assert get_urls(reader) == [CLEAN_URL]
    entries = {entry.id: entry for entry in reader.get_entries()}
    assert sorted(entries) == [f"id-{n}" for n in range(9)]
    assert entries["id-0"].read
    reader.update_feeds(scheduled=False)
    assert len(list(reader.get_entries())) == 9


def test_entries_with_another_id_are_matched_by_link_and_title(web: feed_server.FeedServer, reader: Reader) -> None:
    def get_feed(url: str) -> str:
        scheme, _, host = url.split("/")[:3]
        text = feed_server.rss(host=host).replace("<guid isPermaLink='false'>id-", f"<guid>{scheme}//{host}/")
        return text.replace("http://", f"{scheme}//")

    web.get_feed = get_feed
    subscribe(reader, NINE_URLS[1], without_merging=True)
    reader.mark_entry_as_read((NINE_URLS[1], "http://www.feed.example/2"))
    subscribe(reader, CLEAN_URL)
    assert get_urls(reader) == [CLEAN_URL]
    assert {entry.id: entry.read for entry in reader.get_entries()} == {
        f"https://feed.example/{n}": n == 2 for n in range(5)
    }


DIFFERENT_FEEDS: dict[str, tuple[str, str, Callable[[str], str | None]]] = {
    "another feed under www": (
        "http://a.example/feed",
        "http://www.a.example/feed",
        lambda url: feed_server.rss(items=range(50, 55)) if "www" in url else feed_server.rss(),
    ),
    "another title": (
        "http://a.example/feed",
        "http://a.example/feed/",
        lambda url: feed_server.rss("Comments") if url.endswith("/") else feed_server.rss(),
    ),
    "a part of it": (
        "http://a.example/feed",
        "https://a.example/feed",
        lambda url: feed_server.rss(items=range(0, 20, 4)) if "https" in url else feed_server.rss(items=range(20)),
    ),
    "the newest of it alone": (
        "http://a.example/feed",
        "https://a.example/feed",
        lambda url: feed_server.rss(items=range(19, 20)) if "https" in url else feed_server.rss(items=range(20)),
    ),
    "another parameter": ("http://a.example/feed?tag=x", "http://a.example/feed?tag=y", lambda _: feed_server.rss()),
    "another path": ("http://a.example/feed", "http://a.example/Feed", lambda _: feed_server.rss()),
    "both empty": (
        "http://a.example/feed",
        "http://www.a.example/feed",
        lambda _: feed_server.rss(items=range(0)),
    ),
    "one is not there": (
        "http://a.example/feed",
        "https://a.example/feed",
        lambda url: None if "https" in url else feed_server.rss(),
    ),
    "neither is there": ("http://a.example/feed", "http://a.example:80/feed", lambda _: None),
    "tracking that selects": (
        "http://a.example/feed?utm_source=x",
        "http://a.example/feed",
        lambda url: feed_server.rss(items=range(50, 55)) if "utm" in url else feed_server.rss(),
    ),
}


@pytest.mark.parametrize("why", DIFFERENT_FEEDS)
def test_different_feeds_stay_apart(web: feed_server.FeedServer, reader: Reader, why: str) -> None:
    one, other, web.get_feed = DIFFERENT_FEEDS[why]
    subscribe(reader, one, other)
    assert sorted(get_urls(reader)) == sorted([one, other])


@pytest.mark.parametrize("items", [range(0), range(1), range(2)])
def test_small_equal_feeds_are_merged(web: feed_server.FeedServer, reader: Reader, items: range) -> None:
    web.get_feed = lambda _url: feed_server.rss(items=items)
    subscribe(reader, NINE_URLS[0], NINE_URLS[5])
    assert get_urls(reader) == [NINE_URLS[0]]


def test_a_failing_url_that_equals_a_working_one_is_merged(web: feed_server.FeedServer, reader: Reader) -> None:
    web.get_feed = lambda url: None if "utm" in url else feed_server.rss()
    subscribe(reader, NINE_URLS[5], NINE_URLS[0])
    assert get_urls(reader) == [NINE_URLS[0]]


def test_a_clean_url_that_fails_is_not_kept(web: feed_server.FeedServer, reader: Reader) -> None:
    web.get_feed = lambda url: feed_server.rss() if "utm" in url else None
    subscribe(reader, NINE_URLS[5], NINE_URLS[0])
    assert get_urls(reader) == [NINE_URLS[5]]


def test_a_new_entry_between_two_fetches_does_not_prevent_the_merge(
    web: feed_server.FeedServer, reader: Reader
) -> None:
    web.get_feed = lambda url: feed_server.rss(items=range(1, 11) if "www" in url else range(10))
    subscribe(reader, NINE_URLS[0], NINE_URLS[1])
    assert get_urls(reader) == [NINE_URLS[0]]
    assert len(list(reader.get_entries())) == 11


def test_two_pairs_of_twins_with_similar_urls(web: feed_server.FeedServer, reader: Reader) -> None:
    web.get_feed = lambda url: feed_server.rss(items=range(50, 55)) if "www" in url else feed_server.rss()
    subscribe(reader, *NINE_URLS[:4])
    assert sorted(get_urls(reader)) == [CLEAN_URL, NINE_URLS[2]]


def test_subscriptions_that_are_not_http_urls_are_left_alone(web: feed_server.FeedServer, tmp_path: Path) -> None:
    (tmp_path / "feed.xml").write_text(feed_server.rss())
    plugins = ["canonry.integrations.reader"]
    with make_reader(":memory:", feed_root=str(tmp_path), plugins=plugins) as reader:
        subscribe(reader, "feed.xml", "file:feed.xml")
        assert len(get_urls(reader)) == 2
