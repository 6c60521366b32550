"""Crawls as jobs: several workers open the pages of one site, each a page at a time (SPEC S2).

A site is one host, so a crawl has as many lanes as pages may be open there at once. A job opens pages in its lane for
a while and then queues the lane's next turn, until the frontier is empty. Which pages it opened is in the frontier:
a job that is run again after a crash goes on with those that are left.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from canonry.jobs.queues import Kind
from canonry.store.crawls import CrawlStore
from canonry.work.crawl import crawl_on

if TYPE_CHECKING:
    from canonry.jobs.queues import Jobs
    from canonry.store.crawls import Crawl

CRAWL = "crawl"
_SECONDS = 20.0  # of a turn


async def enqueue_crawl(jobs: Jobs, crawl: Crawl) -> None:
    """Have the pages of a crawl opened by workers."""
    lanes = min(crawl.options["per_host"], crawl.options["concurrency"])
    begin = int(datetime.now(UTC).timestamp() * 1000)  # a crawl that is resumed has new turns
    for lane in range(lanes):
        await _enqueue(jobs, crawl.id, crawl.host, lane, begin)


def crawl_kind(jobs: Jobs, *, seconds: float = _SECONDS) -> Kind:
    """A turn of one lane; the key has crawl, host, lane and the number of the turn."""

    async def run(key: str) -> None:
        crawl_id, host, lane, number = json.loads(key)
        crawls = CrawlStore(jobs.database)
        lanes = (await crawls.get(crawl_id)).options["per_host"]
        is_over = await crawl_on(crawls, crawl_id, lanes=lanes, seconds=seconds, clock=lambda: datetime.now(UTC))
        if not is_over:
            await _enqueue(jobs, crawl_id, host, lane, number + 1)

    return Kind(CRAWL, run, is_per_host=True)


async def _enqueue(jobs: Jobs, crawl_id: int, host: str, lane: int, number: int) -> None:
    key = json.dumps([crawl_id, host, lane, number])
    # The same turn is queued once, also by a job that runs again.
    await jobs.enqueue(CRAWL, key, host=f"{host} {lane}", job_id=f"{CRAWL}-{crawl_id}-{lane}-{number}")
