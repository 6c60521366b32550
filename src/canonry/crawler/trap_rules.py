"""Rules about traps, in the database: patterns of URLs that lead to nothing new are not followed further."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Connection, bindparam, text

from canonry.crawler.crawl_rules import CrawlRuleKind, StoredRule, load_rules, make_rule_key, save_rules
from canonry.crawler.session_ids import find_session_id
from canonry.crawler.traps import PatternState, count_page, leads_on
from canonry.crawler.url_patterns import UrlPattern, find_pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

    from canonry.crawler.results import PageResult, PageUrl

_SELECT_TEXTS = text("SELECT digest FROM crawl_texts WHERE crawl_id = :crawl_id AND digest IN :digests").bindparams(
    bindparam("digests", expanding=True)
)
_INSERT_TEXT = text("INSERT INTO crawl_texts (crawl_id, digest) VALUES (:crawl_id, :digest) ON CONFLICT DO NOTHING")


def find_page_pattern(url: str) -> UrlPattern | None:
    """Return the pattern of a page; a session identifier does not belong to it."""
    session = find_session_id(url)
    return find_pattern(url if session is None else session.stripped_url)


def find_trap_key(url: str) -> str | None:
    """Return the key of the rule that skips a page if its pattern is a trap; None for a page without a pattern."""
    pattern = find_page_pattern(url)
    return None if pattern is None else make_rule_key(CrawlRuleKind.TRAP, _name_pattern(pattern))


def learn_traps(
    connection: Connection,
    crawl_id: int,
    results: Sequence[PageResult],
    *,
    new_pages: dict[int, list[PageUrl]],
    depths: dict[int, int],
    trap_pages: int,
) -> None:
    """Count pages that were read for their patterns; `new_pages` are those that each of them led to."""
    found = [(each, each.digest, find_page_pattern(each.url)) for each in results]
    counted = [(each, shown, pattern) for each, shown, pattern in found if shown is not None and pattern is not None]
    if not counted:
        return
    digests = [shown.value for _, shown, _ in counted]
    known = set(connection.execute(_SELECT_TEXTS, {"crawl_id": crawl_id, "digests": digests}).scalars())
    if new := set(digests) - known:
        connection.execute(_INSERT_TEXT, [{"crawl_id": crawl_id, "digest": digest} for digest in new])
    names = {_name_pattern(pattern) for _, _, pattern in counted}
    states = load_rules(connection, crawl_id, CrawlRuleKind.TRAP, names)
    for each, shown, pattern in counted:
        name = _name_pattern(pattern)
        leads = any(leads_on(pattern, find_page_pattern(page.url)) for page in new_pages.get(each.page.id, ()))
        states[name] = count_page(
            states.get(name, PatternState()),
            is_fresh=leads or not (shown.is_known or shown.value in known),
            is_short=shown.is_short,
            depth=depths[each.page.id],
            trap_pages=trap_pages,
        )
        known.add(shown.value)
    stored = [
        StoredRule(make_rule_key(CrawlRuleKind.TRAP, name), CrawlRuleKind.TRAP, name, state.is_stopped, state)
        for name, state in states.items()
    ]
    save_rules(connection, crawl_id, stored)


def _name_pattern(pattern: UrlPattern) -> str:
    return f"{pattern.kind} {pattern.text}"
