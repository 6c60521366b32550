"""The Google Reader API with libgreader, a client library of Google Reader that knows nothing of canonry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from canonry.server.service import ServiceOptions
from server.api.test_google_reader import add_items
from server.pages.visitor import create_owner_token
from service import Running, serving

if TYPE_CHECKING:
    from collections.abc import Generator

libgreader: Any = pytest.importorskip("libgreader", reason="pip install libgreader")


@pytest.fixture
def running(sqlite_url: str) -> Generator[Running]:
    with serving(sqlite_url, ServiceOptions(runs_jobs=False)) as found:
        add_items(found)
        yield found


@pytest.fixture
def reader(running: Running, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The library, signed in, with its list of feeds. It has the addresses of Google as constants."""
    constants, base = libgreader.url.ReaderUrl, libgreader.url.ReaderUrl.READER_BASE_URL
    for name, url in list(vars(constants).items()):
        if isinstance(url, str) and url.startswith(base):
            monkeypatch.setattr(constants, name, url.replace(base, f"{running.url}/api/greader/reader/api"))
    sign_in = f"{running.url}/api/greader/accounts/ClientLogin"
    monkeypatch.setattr(libgreader.ClientAuthMethod, "CLIENT_URL", sign_in)
    made = libgreader.GoogleReader(libgreader.ClientAuthMethod("anyone", create_owner_token(running)))
    made.makeSpecialFeeds()
    assert made.buildSubscriptionList()
    return made


def load(stream: Any, **options: Any) -> list[Any]:
    """Return all items of a stream, page by page."""
    stream.loadItems(**options)
    while stream.continuation:
        stream.loadMoreItems(**options)
    return list(stream.getItems())


def test_a_library_reads_feeds_folders_and_items(reader: Any) -> None:
    assert [(feed.title, feed.unread) for feed in reader.getSubscriptionList()] == [("a", 2), ("b", 2)]
    [folder] = reader.getCategories()
    assert (folder.label, [feed.title for feed in folder.getFeeds()]) == ("news", ["a"])
    every = load(reader.getSpecialFeed("reading-list"), loadLimit=1)
    assert [item.title for item in every] == ["Post two", "Post one", "Post shared"], "three pages of one item"
    assert {item.title for item in load(folder)} == {"Post one", "Post shared"}
    assert all(item.url and item.isUnread() and item.feed for item in every)


def test_a_library_marks_and_stars_items(reader: Any, running: Running) -> None:
    everything = reader.getSpecialFeed("reading-list")
    two, one, shared = load(everything)
    assert one.markRead() and shared.star()
    reader.beginAddItemTagTransaction()  # sends several items at once
    for item in (one, two):
        reader.addItemTag(item, libgreader.url.ReaderUrl.TAG_STARRED)
    assert reader.commitAddItemTagTransaction()
    assert {item.title for item in load(reader.getSpecialFeed("starred"))} == {"Post one", "Post shared", "Post two"}
    assert len(running.get("/api/bookmarks").json()) == 3
    assert {item.title for item in load(everything, excludeRead=True)} == {"Post shared", "Post two"}
    assert [item.title for item in load(reader.getSpecialFeed("read"))] == ["Post one"]
    first, _ = reader.getSubscriptionList()
    assert first.markAllRead()
    assert [item.title for item in load(everything, excludeRead=True)] == ["Post two"]


def test_a_library_asks_for_items_of_a_time(reader: Any) -> None:
    everything = reader.getSpecialFeed("reading-list")
    seen = [item.time for item in load(everything)]
    assert len(load(everything, since=min(seen))) == len(load(everything, until=max(seen))) == 3
    assert load(everything, since=max(seen) + 1) == load(everything, until=min(seen) - 1) == []
