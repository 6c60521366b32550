"""Rules about session identifiers, in the database: pages that were read under another identifier are skipped."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection, bindparam, text

from canonry.core.scope import Verdict
from canonry.crawler.crawl_rules import (
    CrawlRuleKind,
    StoredRule,
    load_rules,
    make_rule_key,
    queue_pages_skipped_by,
    save_rules,
)
from canonry.crawler.known_pages import make_group_key, make_page_key
from canonry.crawler.reasons import SkipReason
from canonry.crawler.results import PageResult, PageState, Skip, Wait, read_fingerprint
from canonry.crawler.session_ids import (
    SessionId,
    SessionRule,
    TextOfPage,
    compare_pair,
    find_selectors,
    find_session_id,
    is_control,
    is_repeat,
    learn_from_pair,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from canonry.crawler.results import LeasedPage

_MAX_COMPARED = 5  # pages of a group that a new one is compared with
# The first pages of each group and state: a group has thousands of pages where no rule holds.
_SELECT_GROUP = text(
    "SELECT id, key, url, group_key, state, status, title, text_hash, simhash, words, links FROM crawl_pages"
    " WHERE id IN (SELECT id FROM ("
    "SELECT id, ROW_NUMBER() OVER"
    " (PARTITION BY CASE group_key WHEN '' THEN key ELSE group_key END, state ORDER BY id) AS place"
    " FROM crawl_pages WHERE crawl_id = :crawl_id AND state IN ('done', 'fetching') AND status < 400"
    " AND (key IN :groups OR group_key IN :groups)) AS members WHERE place <= :count) ORDER BY id"
).bindparams(bindparam("groups", expanding=True), bindparam("count", _MAX_COMPARED + 1))


class SessionSkips:
    """Decides which pages are skipped, because they were read under another session identifier."""

    def __init__(
        self, connection: Connection, crawl_id: int, pages: Sequence[LeasedPage], rules: dict[str, StoredRule]
    ) -> None:
        self._connection = connection
        self._crawl_id = crawl_id
        self.rules = {key: rule for key, rule in rules.items() if rule.kind is CrawlRuleKind.SESSION}
        self._changed: set[str] = set()
        self._members: dict[str, list[Any]] = {}
        self._opened: set[str] = set()  # groups of which a page is leased now
        if self.rules and pages:
            groups = [make_group_key(page.url) or make_page_key(page.url) for page in pages]
            for row in connection.execute(_SELECT_GROUP, {"crawl_id": crawl_id, "groups": groups}):
                self._members.setdefault(row.group_key or row.key, []).append(row)
                if row.group_key:
                    self._members.setdefault(row.key, [])

    def decide(self, page: LeasedPage) -> Skip | Wait | None:
        """Return by which rule a page is skipped, or that it waits; None if it is to be read."""
        if not self.rules or not page.depth:
            return None
        session = find_session_id(page.url)
        group = make_page_key(page.url if session is None else session.stripped_url)
        members = [row for row in self._members.get(group, []) if row.id != page.id]
        sessions = [session] if session is not None else [find_session_id(row.url) for row in members if row.group_key]
        keys = [make_rule_key(CrawlRuleKind.SESSION, each.scope) for each in sessions if each is not None]
        key = next((key for key in keys if key in self.rules), None)
        if key is None:
            return None
        read = [row for row in members if row.state == PageState.DONE]
        if not read:
            is_open = bool(members) or group in self._opened
            self._opened.add(group)
            return Wait() if is_open else None
        rule = self.rules[key]
        assert isinstance(rule.state, SessionRule)
        state = replace(rule.state, folds=rule.state.folds + 1)
        self.rules[key] = rule._replace(state=state)
        self._changed.add(key)
        return None if is_control(state.folds) else Skip(page.id, SkipReason.SESSION_ID, key, read[0].url)

    def save(self) -> None:
        """Store how many pages each rule covered."""
        save_rules(self._connection, self._crawl_id, [self.rules[key] for key in self._changed])


def learn_sessions(connection: Connection, crawl_id: int, results: Sequence[PageResult]) -> dict[int, Skip]:
    """Compare pages that were read with other spellings of theirs; return those that repeat a page, by id."""
    groups = {each.page.id: make_group_key(each.url) or make_page_key(each.url) for each in results}
    if not groups:
        return {}
    members: dict[str, list[_Member]] = {}
    for row in connection.execute(_SELECT_GROUP, {"crawl_id": crawl_id, "groups": list(groups.values())}):
        if row.state == PageState.DONE:
            members.setdefault(row.group_key or row.key, []).append(_make_member(row))
    for each in results:  # of the same transaction
        members.setdefault(groups[each.page.id], [])
    sessions = {each.page.id: find_session_id(each.url) for each in results}
    scopes = {session.scope for session in sessions.values() if session is not None}
    scopes |= {member.session.scope for some in members.values() for member in some if member.session is not None}
    selectors: set[str] = set()
    for each in results:
        selectors |= find_selectors([link.url for link in each.links if link.url and link.verdict is Verdict.CRAWL])
    rules = load_rules(connection, crawl_id, CrawlRuleKind.SESSION, scopes | selectors)
    before = dict(rules)
    for scope in selectors:
        rules[scope] = replace(rules.get(scope, SessionRule()), is_withdrawn=True)
    repeats: dict[int, tuple[str, str]] = {}
    for each in results:
        own, others = _make_member_of(each), members[groups[each.page.id]]
        for other in others[:_MAX_COMPARED]:
            session = own.session or other.session
            if session is None or other.id == own.id:
                continue
            rule = rules.get(session.scope) or SessionRule(is_named=session.is_named)
            verdict = compare_pair(own.text, other.text)
            rules[session.scope] = rule = learn_from_pair(rule, verdict, groups[each.page.id])
            if each.page.depth and is_repeat(rule, verdict, groups[each.page.id]):
                repeats.setdefault(each.page.id, (session.scope, other.url))
        if each.page.id not in repeats:
            others.append(own)
    _store_session_rules(connection, crawl_id, before, rules)
    return {
        page_id: Skip(page_id, SkipReason.SESSION_ID, make_rule_key(CrawlRuleKind.SESSION, scope), url)
        for page_id, (scope, url) in repeats.items()
        if rules[scope].is_active
    }


def _store_session_rules(
    connection: Connection, crawl_id: int, before: dict[str, SessionRule], rules: dict[str, SessionRule]
) -> None:
    """Save rules that changed; return to the queue what a rule skipped that is withdrawn now."""
    changed = [scope for scope, rule in rules.items() if before.get(scope) != rule]
    stored = [
        StoredRule(
            make_rule_key(CrawlRuleKind.SESSION, scope),
            CrawlRuleKind.SESSION,
            scope,
            rules[scope].is_active,
            rules[scope],
        )
        for scope in changed
    ]
    save_rules(connection, crawl_id, stored)
    withdrawn = [
        rule.key
        for rule, scope in zip(stored, changed, strict=True)
        if scope in before and before[scope].is_active and not rule.is_active
    ]
    queue_pages_skipped_by(connection, crawl_id, withdrawn)


class _Member(NamedTuple):
    """A page that was read, and its session identifier."""

    id: int
    url: str
    session: SessionId | None
    text: TextOfPage


def _make_member(row: Any) -> _Member:
    links: list[list[str]] = json.loads(row.links)
    targets = _strip_targets(url for _, url, _, verdict, *_ in links if verdict == Verdict.CRAWL)
    found = TextOfPage(read_fingerprint(row.text_hash, row.simhash, row.words), row.title, targets)
    return _Member(row.id, row.url, find_session_id(row.url), found)


def _make_member_of(result: PageResult) -> _Member:
    targets = _strip_targets(link.url or "" for link in result.links if link.verdict is Verdict.CRAWL)
    found = TextOfPage(result.fingerprint, result.title, targets)
    return _Member(result.page.id, result.url, find_session_id(result.url), found)


def _strip_targets(urls: Iterable[str]) -> frozenset[str]:
    sessions = [(url, find_session_id(url)) for url in urls]
    return frozenset(url if session is None else session.stripped_url for url, session in sessions)
