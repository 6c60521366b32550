"""The lease on reading the sitemaps of a crawl: one process reads them, and another one does if it dies meanwhile.

`sitemaps_until` is null if there is nothing to read, otherwise the time at which the lease of `sitemaps_lease` ends.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import select, text, update

from canonry.crawler.results import PageState, PageUrl
from canonry.errors import FailureKind
from canonry.net.origin import Origin
from canonry.store.schema import crawl_pages, crawls

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sqlalchemy import Connection

    from canonry.errors import FetchFailed

NOT_LEASED = ""  # as `sitemaps_until`: before any time
_RENEW = text(
    "UPDATE crawls SET sitemaps_until = :until"
    " WHERE id = :crawl_id AND sitemaps_lease = :owner AND sitemaps_until IS NOT NULL"
)


@dataclass(frozen=True, slots=True)
class SitemapFailure:
    """A sitemap that could not be read, and why."""

    url: str
    reason: str


def read_failures(stored: str) -> list[SitemapFailure]:
    """Return the failures that the database has as JSON."""
    return [SitemapFailure(url, reason) for url, reason, *_ in json.loads(stored)]


def may_read_again(stored: str) -> bool:
    """Return whether another attempt may read one of the sitemaps whose failures the database has as JSON."""
    return any(is_transient for _, _, *values in json.loads(stored) for is_transient in values)


def find_start_page(connection: Connection, crawl_id: int) -> PageUrl | None:
    """Return the start page with the origin of the URLs on it; None if it was not read yet.

    If the crawl followed its redirect to another host, this is the page there.
    """
    query = (
        select(crawl_pages.c.url, crawl_pages.c.final_url, crawl_pages.c.link_origin)
        .where(crawl_pages.c.crawl_id == crawl_id, crawl_pages.c.state == PageState.DONE, crawl_pages.c.depth == 0)
        .order_by(crawl_pages.c.id)
        .limit(1)
    )
    row = connection.execute(query).first()
    return None if row is None else PageUrl(row.url, row.final_url or row.url, Origin.parse(row.link_origin))


def lease_sitemaps(connection: Connection, crawl_id: int, owner: str, *, until: str) -> None:
    """Let this owner read the sitemaps until this time."""
    values = {"sitemaps_lease": owner, "sitemaps_until": until}
    connection.execute(update(crawls).where(crawls.c.id == crawl_id).values(values))


def renew_sitemap_lease(connection: Connection, crawl_id: int, owner: str, *, until: str) -> None:
    """Extend the lease if this owner has it."""
    connection.execute(_RENEW, {"crawl_id": crawl_id, "owner": owner, "until": until})


def release_sitemaps(connection: Connection, crawl_id: int, owners: Collection[str]) -> None:
    """Let another process read the sitemaps that one of these owners did not read to the end."""
    change = (
        update(crawls)
        .where(crawls.c.id == crawl_id, crawls.c.sitemaps_lease.in_(owners), crawls.c.sitemaps_until.is_not(None))
        .values(sitemaps_lease="", sitemaps_until=NOT_LEASED)
    )
    connection.execute(change)


def finish_sitemaps(connection: Connection, crawl_id: int, owner: str, failures: Sequence[FetchFailed]) -> None:
    """Store that this owner has read the sitemaps to the end, except these."""
    # A refused URL has the kind OTHER, which counts as transient: another attempt does not help there.
    rows = [(each.target, each.reason, each.is_transient and each.kind is not FailureKind.OTHER) for each in failures]
    change = update(crawls).where(crawls.c.id == crawl_id, crawls.c.sitemaps_lease == owner)
    connection.execute(change.values(sitemaps_lease="", sitemaps_until=None, sitemap_failures=json.dumps(rows)))
