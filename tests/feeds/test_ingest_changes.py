"""Runs of ingest and the change feed: what callbacks get, what is stored, and what stays after an error (contract I10)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text

from canonry.feeds.changes import CHANGES_RETENTION, ChangeFeed
from canonry.feeds.item_matching import ItemOutcome
from canonry.store.schema import metadata
from feed_texts import ok, rss
from ingest_runs import URL, all_met, counts, feed_of, running, turns
from loopback import in_a_loop

if TYPE_CHECKING:
    from pathlib import Path

    from canonry.feeds.ingest_report import FeedOutcome, IngestedItem

NEW, UPDATED = ItemOutcome.NEW, ItemOutcome.UPDATED
LONG_TEXT = "The whole text of the post, which must not be stored anywhere in the database."
OTHER = "https://other.example/feed"


@in_a_loop
async def test_on_item_gets_the_item_with_its_text_and_its_outcome(tmp_path: Path) -> None:
    first, second = rss(1, 2, text=LONG_TEXT), rss(1, 2, 3, text=LONG_TEXT).replace("Post 2", "Edited")
    found: list[IngestedItem] = []
    async with running({URL: turns(ok(first), ok(second))}, tmp_path) as runs_:
        await runs_.run(on_item=found.append)
        assert [(each.outcome, each.number, each.item.guid) for each in found] == [(NEW, 1, "id-1"), (NEW, 2, "id-2")]
        assert [each.item.text for each in found] == [f"{LONG_TEXT} 1", f"{LONG_TEXT} 2"]
        report = await runs_.later(on_item=found.append)
        assert [(each.outcome, each.number, each.title) for each in found[2:]] == [
            (UPDATED, 3, "Edited"),
            (NEW, 4, "Post 3"),
        ]
        assert all_met(report)
        for table in metadata.sorted_tables:
            assert LONG_TEXT[:40] not in str(await runs_.rows(table))


@in_a_loop
async def test_an_exception_of_on_item_loses_nothing(tmp_path: Path) -> None:
    """What was stored is in the change feed, and the next run goes on."""

    def refuse(found: IngestedItem) -> None:
        if found.number == 2:
            raise KeyError("not today")

    async with running({URL: ok(rss()), OTHER: ok(rss(7, 8))}, tmp_path) as runs_:
        with pytest.raises(KeyError, match="not today"):
            await runs_.run(URL, OTHER, on_item=refuse, concurrency=1)
        changes = ChangeFeed(runs_.store.database)
        stored = [change.guid for change in (await changes.read(0)).changes]
        assert stored == ["id-1", "id-2", "id-3"]
        assert counts(await runs_.later(URL, OTHER)) == (2, 0, 3)
        assert [change.guid for change in (await changes.read(3)).changes] == ["id-7", "id-8"]


@in_a_loop
async def test_an_item_that_is_in_memory_only_has_no_number(tmp_path: Path) -> None:
    """A number would name another change of the database."""
    found: list[IngestedItem] = []
    async with running({URL: ok(rss()), OTHER: ok(rss(7, 8))}, tmp_path) as runs_:

        def drop(_: FeedOutcome) -> None:
            runs_.store.database.write_now(
                lambda connection: connection.execute(text("DROP TABLE IF EXISTS sightings"))
            )

        await runs_.run(URL, OTHER, on_feed=drop, on_item=found.append, concurrency=1)
    assert [each.number for each in found] == [1, 2, 3, None, None]


@in_a_loop
async def test_records_of_the_report_have_no_text(tmp_path: Path) -> None:
    async with running({URL: ok(rss(1, text=LONG_TEXT))}, tmp_path) as runs_:
        report = await runs_.run()
    assert LONG_TEXT not in repr(report.items)


@in_a_loop
async def test_a_run_deletes_changes_that_are_too_old(tmp_path: Path) -> None:
    """So that a store stays bounded also where no worker runs."""
    async with running({URL: turns(ok(rss(1)), ok(rss(1, 2)))}, tmp_path) as runs_:
        await runs_.run()
        await runs_.later(hours=(CHANGES_RETENTION + timedelta(days=1)) / timedelta(hours=1))
        assert [change.guid for change in (await ChangeFeed(runs_.store.database).read()).changes] == ["id-2"]


@in_a_loop
async def test_all_metadata_comes_from_the_document_to_the_change(tmp_path: Path) -> None:
    document = feed_of(
        "<item><guid>1</guid><title>One</title><author>Ann</author><category>a</category><category>b</category>"
        '<pubDate>Sat, 31 Jan 26 12:00 +0200</pubDate><enclosure url="https://a.com/1" type="a/b" length="5"/></item>'
    )
    async with running({URL: ok(document)}, tmp_path) as runs_:
        report = await runs_.run()
        [change] = (await ChangeFeed(runs_.store.database).read(0)).changes
    assert report.items == [change]
    assert (change.author, change.categories, change.published_at) == ("Ann", ("a", "b"), "2026-01-31T10:00:00.000000Z")
    assert [(each.url, each.type, each.length) for each in change.enclosures] == [("https://a.com/1", "a/b", 5)]
