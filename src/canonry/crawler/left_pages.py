"""The pages that a crawl left out by a rule: repeats under session identifiers, repeats under learned rules, traps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import BindParameter, Connection, Row, bindparam, text

from canonry.crawler.crawl_store import StoredPage
from canonry.crawler.pages import Page, mask_url
from canonry.crawler.reasons import SkipReason
from canonry.crawler.results import PageOutcome

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from canonry.store.database import Database

LEFT_REASONS = (SkipReason.TRAP, SkipReason.SESSION_ID, SkipReason.LEARNED_RULE)
_REASONS: BindParameter[Any] = bindparam("reasons", [reason.value for reason in LEFT_REASONS], expanding=True)
_SELECT_GROUPS = text(
    "SELECT left_out.skip_reason, rule.pattern, COUNT(*) AS pages, MIN(left_out.url) AS example"
    " FROM crawl_pages AS left_out"
    " JOIN crawl_rules AS rule ON rule.crawl_id = left_out.crawl_id AND rule.key = left_out.skipped_by"
    " WHERE left_out.crawl_id = :crawl_id AND left_out.state = 'skipped' AND left_out.skip_reason IN :reasons"
    " GROUP BY left_out.skip_reason, rule.pattern ORDER BY pages DESC, rule.pattern LIMIT :count"
).bindparams(_REASONS)
_SELECT_PAGES = text(
    "SELECT id, url, requested_url, final_url, depth, engine, skip_reason FROM crawl_pages"
    " WHERE crawl_id = :crawl_id AND state = 'skipped' AND skip_reason IN :reasons AND id > :after"
    " ORDER BY id LIMIT :count"
).bindparams(_REASONS)


@dataclass(frozen=True, slots=True)
class LeftGroup:
    """Pages that one rule left out: why, the pattern of their URLs, how many, and one of them.

    The pattern of a trap begins with its kind, that of session identifiers with the name of the parameter; that of a
    learned rule is its sentence.
    """

    reason: SkipReason
    pattern: str
    pages: int
    example: str


async def list_left_groups(database: Database, crawl_id: int, *, limit: int = 100) -> list[LeftGroup]:
    """Return what a crawl left out, by pattern; the largest groups first."""

    def work(connection: Connection) -> list[LeftGroup]:
        rows = connection.execute(_SELECT_GROUPS, {"crawl_id": crawl_id, "count": limit})
        return [LeftGroup(SkipReason(row.skip_reason), row.pattern, row.pages, mask_url(row.example)) for row in rows]

    return await database.read(work)


async def list_left_pages(database: Database, crawl_id: int, *, after: int = 0, limit: int = 500) -> list[StoredPage]:
    """Return pages with an id above `after` that a crawl left out, in the order in which they were found."""
    values = {"crawl_id": crawl_id, "after": after, "count": limit}
    return await database.read(
        lambda connection: [_make_page(row) for row in connection.execute(_SELECT_PAGES, values)]
    )


async def read_left_pages(database: Database, crawl_id: int) -> AsyncGenerator[Page]:
    """Yield the pages that a crawl left out, with the outcome `skipped` and the reason."""
    after = 0
    while stored := await list_left_pages(database, crawl_id, after=after):
        for each in stored:
            yield each.page
        after = stored[-1].id


def _make_page(row: Row[Any]) -> StoredPage:
    reason = SkipReason(row.skip_reason)
    page = Page(
        row.url,
        row.requested_url,
        row.final_url,
        status=0,
        title="",
        depth=row.depth,
        engine=row.engine,
        links=(),
        external=(),
        error=reason.sentence,
        outcome=PageOutcome.SKIPPED,
        skip_reason=reason,
    )
    return StoredPage(row.id, page)
