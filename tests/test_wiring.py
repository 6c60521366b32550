"""All parts of a process are made in one place: one database, one client, all kinds of jobs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from canonry.bookmarks.draft import Draft
from canonry.errors import RefusalKind, StoreError, UnsafeUrl
from canonry.settings import Settings
from canonry.wiring import make_client, make_worker, open_components, open_database

if TYPE_CHECKING:
    from collections.abc import Mapping

    from canonry.jobs.worker import Worker


def ignore(_warning: str) -> None: ...


def test_a_store_that_must_exist_is_not_created(empty_url: str) -> None:
    for _ in range(2):  # the first one created nothing
        with pytest.raises(StoreError):
            open_database(empty_url, warn=ignore, must_exist=True)
    open_database(empty_url, warn=ignore).close()
    open_database(empty_url, warn=ignore, must_exist=True).close()


def test_the_client_refuses_the_address_of_its_own_service() -> None:
    settings = Settings(allow_networks=("127.0.0.0/8",), allow_ports=(8000, 8001))
    client = make_client(settings, {("127.0.0.1", 8000)})
    client.guard.check_url("http://127.0.0.1:8001/")
    with pytest.raises(UnsafeUrl) as refused:
        client.guard.check_url("http://127.0.0.1:8000/")
    assert refused.value.kind is RefusalKind.OWN_SERVICE


def test_parts_share_one_store_and_write_their_statistics_on_exit(sqlite_url: str) -> None:
    settings = Settings(database_url=sqlite_url)

    async def save_and_reopen() -> Mapping[str, int]:
        async with open_components(settings, warn=ignore) as components:
            await components.bookmarks.put(0, Draft("https://example.com/?utm_source=x"))
            assert await components.bookmarks.store.count() == 1
        async with open_components(settings, warn=ignore) as components:
            return await components.bookmarks.statistics.get_totals()

    assert asyncio.run(save_and_reopen())["put:created"] == 1


def test_a_worker_runs_the_jobs_of_all_features(sqlite_url: str) -> None:
    async def make() -> Worker:
        async with open_components(Settings(database_url=sqlite_url), warn=ignore) as components:
            return make_worker(components, due_interval=3600.0)

    worker = asyncio.run(make())
    names = {kind.name for kind in worker._kinds}
    assert {"poll", "expand", "import", "crawl"} <= names
    assert {schedule.kind for schedule in worker._schedules} <= names
