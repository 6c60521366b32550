"""Exports of other services: every row becomes a bookmark or is refused with a reason (contract B8)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from canonry.bookmarks.exchange import read_bookmarks
from canonry.bookmarks.import_problems import BadBookmarkFile, FileProblem

URL = "https://example.com/a"
JUNK: tuple[Any, ...] = (
    None,
    1,
    [],
    {},
    "x",
    [[]],
    {"url": []},
    {"url": URL, "tags": {"a": 1}},
    {"href": "javascript:1"},
)

LINKDING = {
    "id": 1, "url": URL, "title": "", "description": "", "notes": "my note", "website_title": "Site title",
    "web_archive_snapshot_url": "https://web.archive.org/web/2020/https://example.com/a", "favicon_url": "", "is_archived": False,
    "unread": True, "shared": False, "tag_names": ["a", "b c"], "date_added": "2020-09-26T09:46:23.006313Z", "date_modified": "2020-09-26T16:01:14Z",
}  # fmt: skip
MINIFLUX = {
    "id": 888, "user_id": 123, "feed_id": 42, "title": "Entry", "url": URL, "comments_url": "", "author": "Foobar", "content": "<p>HTML",
    "hash": "29f9", "published_at": "2016-12-12T16:15:19Z", "created_at": "2016-12-27T16:15:19Z", "status": "unread", "starred": True,
    "feed": {"id": 42, "title": "New", "category": {"id": 8, "title": "Tech"}},
}  # fmt: skip
READER_ITEM = {
    "id": "user/-/state/com.google/reading-list", "crawlTimeMsec": "1525170496007", "timestampUsec": "1525170496007000", "published": 1525139580,
    "title": "Entry", "canonical": [{"href": URL}], "alternate": [{"href": "https://other.example/"}],
    "categories": ["user/-/state/com.google/reading-list", "user/-/label/Tech", "user/-/state/com.google/starred"],
    "origin": {"streamId": "feed/31", "htmlUrl": "https://example.com/", "title": "Feed"}, "summary": {"content": "<p>HTML"},
}  # fmt: skip
KARAKEEP = {
    "createdAt": 1600000000, "title": "Mine", "tags": ["a"], "note": "n", "archived": False,
    "content": {"type": "link", "url": URL},
}  # fmt: skip

SERVICES = [
    ("linkding", {"count": 1, "next": None, "previous": None, "results": [LINKDING]},
     {"title": "Site title", "description": "my note", "tags": ("a", "b c"), "to_read": True, "private": True,
      "created_at": "2020-09-26T09:46:23.006313Z", "archive_urls": (LINKDING["web_archive_snapshot_url"],)}),
    ("miniflux", {"total": 1, "entries": [MINIFLUX]},
     {"title": "Entry", "folder": "Tech", "to_read": True, "created_at": "2016-12-12T16:15:19.000000Z"}),
    ("freshrss", {"id": "user/-/state/com.google/starred", "items": [READER_ITEM]},
     {"title": "Entry", "tags": ("Tech",), "created_at": "2018-05-01T10:28:16.007000Z"}),
    ("karakeep", {"bookmarks": [KARAKEEP]},
     {"title": "Mine", "tags": ("a",), "description": "n", "created_at": "2020-09-13T12:26:40.000000Z"}),
]  # fmt: skip
CSV_FILES = [
    ("pocket", f"title,url,time_added,tags,status\nT,{URL},1600000000,a|b c,unread\n", {"tags": ("a", "b c"), "to_read": True}),
    ("raindrop", f'id,title,note,excerpt,url,folder,tags,created,cover,highlights,favorite\n1,T,n,e,{URL},F / G,"a, b c",2020-09-13T12:26:40.000Z,,,false\n',
     {"tags": ("a", "b c"), "folder": "F/G", "description": "n\n\ne"}),
]  # fmt: skip


@pytest.mark.parametrize(("document", "expected"), [row[1:] for row in SERVICES], ids=[row[0] for row in SERVICES])
def test_a_json_export_of_a_service_is_read(document: dict[str, Any], expected: dict[str, Any]) -> None:
    parsed = read_bookmarks(json.dumps(document).encode())
    assert (parsed.refused, parsed.numbers) == ([], [1])
    [draft] = parsed.drafts
    assert draft.url == URL
    assert {name: getattr(draft, name) for name in expected} == expected


@pytest.mark.parametrize(("text", "expected"), [row[1:] for row in CSV_FILES], ids=[row[0] for row in CSV_FILES])
def test_a_csv_export_of_a_service_is_read(text: str, expected: dict[str, Any]) -> None:
    parsed = read_bookmarks(text.encode())
    [draft] = parsed.drafts
    assert (draft.url, draft.title, draft.created_at) == (URL, "T", "2020-09-13T12:26:40.000000Z")
    assert {name: getattr(draft, name) for name in expected} == expected


@pytest.mark.parametrize("document", [row[1] for row in SERVICES], ids=[row[0] for row in SERVICES])
def test_every_row_between_hostile_rows_is_read_or_refused(document: dict[str, Any]) -> None:
    """Each row has a number and is counted once; a field of a wrong type never hides the rows after it."""
    name, [good] = next((name, rows) for name, rows in document.items() if isinstance(rows, list))
    bent = [{**good, field: junk} for field in good for junk in JUNK]
    rows = [each for junk in (*JUNK, *bent) for each in (junk, good)]
    parsed = read_bookmarks(json.dumps({**document, name: rows}).encode())
    numbers = sorted([*parsed.numbers, *(row.row for row in parsed.refused)])
    assert numbers == list(range(1, len(rows) + 1))
    assert set(range(2, len(rows) + 1, 2)) <= set(parsed.numbers), "every good row"
    assert all(row.reason and row.kind for row in parsed.refused)


def test_a_list_of_feeds_is_no_file_of_bookmarks() -> None:
    text = '<?xml version="1.0"?><opml version="2.0"><body><outline xmlUrl="https://example.com/feed"/></body></opml>'
    with pytest.raises(BadBookmarkFile) as found:
        read_bookmarks(text.encode(), file_name="feeds.opml")
    assert found.value.kind is FileProblem.OPML
