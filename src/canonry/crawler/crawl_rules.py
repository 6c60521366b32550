"""What a crawl has learned about the URLs of its site, in the database (contract C8, L7).

Rules are about session identifiers, traps, and what the learner found.

Pages are judged when they are leased: a page that a rule covers is skipped, with the rule. Results of pages that were
read change the rules. A rule that is withdrawn returns the pages that it skipped to the queue.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection, bindparam, text

from canonry.core.scope import Verdict
from canonry.crawler.known_pages import make_group_key, make_page_key
from canonry.crawler.learned_rules import (
    LearnedFolds,
    LearnedForms,
    LearnedState,
    LearningProgress,
    find_failed_rules,
    read_learned_state,
    save_learned_keys,
)
from canonry.crawler.reasons import SkipReason
from canonry.crawler.results import PageResult, PageState, PageUrl
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
from canonry.crawler.traps import PatternState, count_page, leads_on
from canonry.crawler.url_patterns import UrlPattern, find_pattern

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from canonry.core.policy import Policy
    from canonry.crawler.results import LeasedPage

_MAX_COMPARED = 5  # pages of a group that a new one is compared with


class CrawlRuleKind(StrEnum):
    """The subject of a rule."""

    SESSION = "session"
    TRAP = "trap"
    LEARNED = "learned"
    LEARNING = "learning"  # no rule: the progress of learning


class StoredRule(NamedTuple):
    """A rule of a crawl: the pattern of URLs that it covers, and whether it skips pages."""

    key: str
    kind: CrawlRuleKind
    pattern: str
    is_active: bool
    state: SessionRule | PatternState | LearnedState | LearningProgress


@dataclass(frozen=True, slots=True)
class Skip:
    """A page that is not read, the rule that says so, and the page read in its place, if there is one."""

    page_id: int
    reason: SkipReason
    rule_key: str
    target_url: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which of the next pages are leased and which are skipped.

    `seen` has the pages that were judged and stay queued: leased ones, and those that wait for another spelling.
    """

    leased: tuple[LeasedPage, ...]
    skipped: tuple[Skip, ...]
    seen: tuple[int, ...]


_SELECT_ACTIVE = text(
    "SELECT key, kind, pattern, is_active, state FROM crawl_rules WHERE crawl_id = :crawl_id AND is_active = 1"
)
_SELECT_ALL = text("SELECT key, kind, pattern, is_active, state FROM crawl_rules WHERE crawl_id = :crawl_id")
_SELECT_KIND = text(
    "SELECT key, kind, pattern, is_active, state FROM crawl_rules WHERE crawl_id = :crawl_id AND kind = :kind"
)
_SELECT_BY_KEYS = text(
    "SELECT key, kind, pattern, is_active, state FROM crawl_rules WHERE crawl_id = :crawl_id AND key IN :keys"
).bindparams(bindparam("keys", expanding=True))
_SAVE = text(
    "INSERT INTO crawl_rules (crawl_id, key, kind, pattern, is_active, state)"
    " VALUES (:crawl_id, :key, :kind, :pattern, :is_active, :state)"
    " ON CONFLICT (crawl_id, key) DO UPDATE SET is_active = excluded.is_active, state = excluded.state"
)
_DELETE_KIND = text("DELETE FROM crawl_rules WHERE crawl_id = :crawl_id AND kind = :kind")
_SELECT_GROUP = text(
    "SELECT id, key, url, group_key, state, status, title, text_hash, simhash, words, links FROM crawl_pages"
    " WHERE crawl_id = :crawl_id AND state IN ('done', 'fetching') AND status < 400"
    " AND (key IN :groups OR group_key IN :groups) ORDER BY id"
).bindparams(bindparam("groups", expanding=True))
_SKIP_PAGE = text(
    "UPDATE crawl_pages SET state = 'skipped', skip_reason = :reason, skipped_by = :rule_key, final_url = :target_url"
    " WHERE id = :page_id"
)
_QUEUE_SKIPPED = text(
    "UPDATE crawl_pages SET state = 'queued', skip_reason = '', skipped_by = '', final_url = '', begun_at = NULL,"
    " attempts = 0, retry_at = NULL, is_last_retry = 0"
    " WHERE crawl_id = :crawl_id AND state = 'skipped' AND skipped_by IN :keys"
).bindparams(bindparam("keys", expanding=True))
_QUEUE_SKIPPED_FOR = text(
    "UPDATE crawl_pages SET state = 'queued', skip_reason = '', skipped_by = '', final_url = '', begun_at = NULL,"
    " attempts = 0, retry_at = NULL, is_last_retry = 0"
    " WHERE crawl_id = :crawl_id AND state = 'skipped' AND skip_reason = :reason"
)
_SELECT_TEXTS = text("SELECT digest FROM crawl_texts WHERE crawl_id = :crawl_id AND digest IN :digests").bindparams(
    bindparam("digests", expanding=True)
)
_INSERT_TEXT = text("INSERT INTO crawl_texts (crawl_id, digest) VALUES (:crawl_id, :digest) ON CONFLICT DO NOTHING")


def make_rule_key(kind: CrawlRuleKind, pattern: str) -> str:
    """Return the key of a rule: a digest, because patterns are as long as URLs."""
    return blake2b(f"{kind} {pattern}".encode(errors="replace"), digest_size=12).hexdigest()


def find_page_pattern(url: str) -> UrlPattern | None:
    """Return the pattern of a page; a session identifier does not belong to it."""
    session = find_session_id(url)
    return find_pattern(url if session is None else session.stripped_url)


def load_active_rules(connection: Connection, crawl_id: int) -> dict[str, StoredRule]:
    """Return the rules that skip pages, by key."""
    rows = connection.execute(_SELECT_ACTIVE, {"crawl_id": crawl_id})
    return {row.key: _read_rule(*row) for row in rows}


def choose_pages(
    connection: Connection,
    crawl_id: int,
    pages: Sequence[LeasedPage],
    rules: dict[str, StoredRule],
    *,
    count: int,
    learn_policy: Policy | None = None,
) -> Choice:
    """Decide which of these pages are read, at most `count`, and mark those as skipped that a rule covers.

    Learned rules are used with `learn_policy`, the policy of the crawl.
    """
    folds = _Folds(connection, crawl_id, pages, rules)
    forms = _make_forms(rules, learn_policy)
    learned_folds = None if forms is None else LearnedFolds(connection, crawl_id, pages, forms)
    leased: list[LeasedPage] = []
    skipped: list[Skip] = []
    seen: list[int] = []
    for page in pages:
        if len(leased) >= count:
            break
        pattern = find_page_pattern(page.url)
        trap = None if pattern is None else make_rule_key(CrawlRuleKind.TRAP, _name_pattern(pattern))
        if page.depth and trap is not None and trap in rules:
            skipped.append(Skip(page.id, SkipReason.TRAP, trap))
            continue
        fold = folds.find(page)
        if isinstance(fold, Skip):
            skipped.append(fold)
            continue
        learned_fold = None if fold is not None or learned_folds is None else learned_folds.find(page)
        if learned_fold is not None and not learned_fold.is_waiting:
            reason = SkipReason.LEARNED_RULE
            skipped.append(Skip(page.id, reason, learned_fold.rule_key, learned_fold.target_url))
            continue
        seen.append(page.id)
        if fold is None and learned_fold is None:
            leased.append(page)
    if skipped:
        connection.execute(_SKIP_PAGE, [asdict(skip) for skip in skipped])
    folds.save()
    rules |= folds.rules
    if learned_folds is not None:
        learned_folds.save_keys(connection, leased)
    return Choice(tuple(leased), tuple(skipped), tuple(seen))


class _Wait(NamedTuple):
    """A page has to wait, because another spelling of it is open."""


class _Folds:
    """Finds pages that were read under another session identifier."""

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

    def find(self, page: LeasedPage) -> Skip | _Wait | None:
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
            return _Wait() if is_open else None
        rule = self.rules[key]
        assert isinstance(rule.state, SessionRule)
        state = replace(rule.state, folds=rule.state.folds + 1)
        self.rules[key] = rule._replace(state=state)
        self._changed.add(key)
        return None if is_control(state.folds) else Skip(page.id, SkipReason.SESSION_ID, key, read[0].url)

    def save(self) -> None:
        """Store how many pages each rule covered."""
        _save_rules(self._connection, self._crawl_id, [self.rules[key] for key in self._changed])


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
    rules = _load_rules(connection, crawl_id, CrawlRuleKind.SESSION, scopes | selectors)
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
    _save_rules(connection, crawl_id, stored)
    withdrawn = [
        rule.key
        for rule, scope in zip(stored, changed, strict=True)
        if scope in before and before[scope].is_active and not rule.is_active
    ]
    if withdrawn:
        connection.execute(_QUEUE_SKIPPED, {"crawl_id": crawl_id, "keys": withdrawn})


class _Member(NamedTuple):
    """A page that was read, and its session identifier."""

    id: int
    url: str
    session: SessionId | None
    text: TextOfPage


def _make_member(row: Any) -> _Member:
    links: list[list[str]] = json.loads(row.links)
    targets = _strip_targets(url for _, url, _, verdict, *_ in links if verdict == Verdict.CRAWL)
    simhash = int(row.simhash or "0", 16)
    found = TextOfPage(row.text_hash, simhash, row.words, row.title, targets)
    return _Member(row.id, row.url, find_session_id(row.url), found)


def _make_member_of(result: PageResult) -> _Member:
    targets = _strip_targets(link.url or "" for link in result.links if link.verdict is Verdict.CRAWL)
    print_ = result.fingerprint
    found = TextOfPage(print_.text_hash, print_.simhash, print_.words, result.title, targets)
    return _Member(result.page.id, result.url, find_session_id(result.url), found)


def _strip_targets(urls: Iterable[str]) -> frozenset[str]:
    sessions = [(url, find_session_id(url)) for url in urls]
    return frozenset(url if session is None else session.stripped_url for url, session in sessions)


def _make_forms(rules: Mapping[str, StoredRule], policy: Policy | None) -> LearnedForms | None:
    states = {key: rule.state for key, rule in rules.items() if isinstance(rule.state, LearnedState)}
    return LearnedForms(policy, states) if states and policy is not None else None


def check_learned_rules(connection: Connection, crawl_id: int, results: Sequence[PageResult], policy: Policy) -> None:
    """Withdraw the learned rules under which a page that was read is the same as one with another text."""
    forms = _make_forms(load_active_rules(connection, crawl_id), policy)
    if forms is None:
        return
    failed = find_failed_rules(connection, crawl_id, results, forms)
    _withdraw(connection, crawl_id, failed)


def make_learned_key(name: str) -> str:
    """Return the key of a learned rule."""
    return make_rule_key(CrawlRuleKind.LEARNED, name)


def load_learned_rules(connection: Connection, crawl_id: int) -> dict[str, LearnedState]:
    """Return the learned rules of a crawl by key, those that failed as well."""
    rows = connection.execute(_SELECT_KIND, {"crawl_id": crawl_id, "kind": CrawlRuleKind.LEARNED})
    rules = [_read_rule(*row) for row in rows]
    return {rule.key: rule.state for rule in rules if isinstance(rule.state, LearnedState)}


def load_learning_progress(connection: Connection, crawl_id: int) -> LearningProgress:
    """Return when the rules of a crawl were learned last."""
    rows = connection.execute(_SELECT_KIND, {"crawl_id": crawl_id, "kind": CrawlRuleKind.LEARNING})
    states = [_read_rule(*row).state for row in rows]
    return next((state for state in states if isinstance(state, LearningProgress)), LearningProgress())


def save_learning(
    connection: Connection,
    crawl_id: int,
    states: Mapping[str, LearnedState],
    texts: Mapping[str, str],
    *,
    keys: Mapping[int, str],
    taken: int,
) -> None:
    """Store the rules to use, and withdraw those that are used and no longer found.

    `keys` are the keys of the forms of pages that were read, `taken` is when the rules were learned.
    """
    before = load_learned_rules(connection, crawl_id)
    progress = StoredRule(
        make_rule_key(CrawlRuleKind.LEARNING, ""),
        CrawlRuleKind.LEARNING,
        "",
        is_active=False,
        state=LearningProgress(taken),
    )
    usable = {key: state for key, state in states.items() if key not in before or not before[key].is_withdrawn}
    stored = [
        StoredRule(key, CrawlRuleKind.LEARNED, texts[key], is_active=True, state=state) for key, state in usable.items()
    ]
    _save_rules(connection, crawl_id, [progress, *stored])
    save_learned_keys(connection, keys)
    _withdraw(connection, crawl_id, set(before) - set(states))


def _withdraw(connection: Connection, crawl_id: int, keys: Collection[str]) -> None:
    """Stop using learned rules for good; pages that any learned rule left out are judged again."""
    active = load_active_rules(connection, crawl_id)
    failed = [
        rule._replace(is_active=False, state=replace(rule.state, is_withdrawn=True))
        for rule in active.values()
        if rule.key in keys and isinstance(rule.state, LearnedState)
    ]
    if failed:
        _save_rules(connection, crawl_id, failed)
        connection.execute(_QUEUE_SKIPPED_FOR, {"crawl_id": crawl_id, "reason": SkipReason.LEARNED_RULE})


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
    signed = [(each, each.sign, find_page_pattern(each.url)) for each in results]
    counted = [(each, sign, pattern) for each, sign, pattern in signed if sign is not None and pattern is not None]
    if not counted:
        return
    digests = [sign.digest for _, sign, _ in counted]
    known = set(connection.execute(_SELECT_TEXTS, {"crawl_id": crawl_id, "digests": digests}).scalars())
    if new := set(digests) - known:
        connection.execute(_INSERT_TEXT, [{"crawl_id": crawl_id, "digest": digest} for digest in new])
    names = {_name_pattern(pattern) for _, _, pattern in counted}
    states = _load_rules(connection, crawl_id, CrawlRuleKind.TRAP, names)
    for each, sign, pattern in counted:
        name = _name_pattern(pattern)
        leads = any(leads_on(pattern, find_page_pattern(page.url)) for page in new_pages.get(each.page.id, ()))
        states[name] = count_page(
            states.get(name, PatternState()),
            is_fresh=leads or not (sign.is_known or sign.digest in known),
            is_short=sign.is_short,
            depth=depths[each.page.id],
            trap_pages=trap_pages,
        )
        known.add(sign.digest)
    stored = [
        StoredRule(make_rule_key(CrawlRuleKind.TRAP, name), CrawlRuleKind.TRAP, name, state.is_stopped, state)
        for name, state in states.items()
    ]
    _save_rules(connection, crawl_id, stored)


def change_rules(
    connection: Connection,
    crawl_id: int,
    *,
    trap_pages: int | None,
    sessions: bool,
    learn: bool,
    is_trap_change: bool,
) -> None:
    """Apply the options of a crawl that is resumed: pages that a rule skipped are queued if it no longer holds."""
    if not sessions:
        connection.execute(_QUEUE_SKIPPED_FOR, {"crawl_id": crawl_id, "reason": SkipReason.SESSION_ID})
        connection.execute(_DELETE_KIND, {"crawl_id": crawl_id, "kind": CrawlRuleKind.SESSION})
    if not learn:
        connection.execute(_QUEUE_SKIPPED_FOR, {"crawl_id": crawl_id, "reason": SkipReason.LEARNED_RULE})
        connection.execute(_DELETE_KIND, {"crawl_id": crawl_id, "kind": CrawlRuleKind.LEARNED})
        connection.execute(_DELETE_KIND, {"crawl_id": crawl_id, "kind": CrawlRuleKind.LEARNING})
    if not is_trap_change:
        return
    rules = [_read_rule(*row) for row in connection.execute(_SELECT_ALL, {"crawl_id": crawl_id})]
    for rule in rules:
        if isinstance(rule.state, PatternState):
            limit = None if trap_pages is None else max(trap_pages, rule.state.fresh)
            state = replace(rule.state, is_stopped=limit is not None and rule.state.stale >= limit)
            _save_rules(connection, crawl_id, [rule._replace(state=state, is_active=state.is_stopped)])
    connection.execute(_QUEUE_SKIPPED_FOR, {"crawl_id": crawl_id, "reason": SkipReason.TRAP})


def _name_pattern(pattern: UrlPattern) -> str:
    return f"{pattern.kind} {pattern.text}"


def _load_rules(
    connection: Connection, crawl_id: int, kind: CrawlRuleKind, patterns: Collection[str]
) -> dict[str, Any]:
    """Return the states of rules by pattern, as far as they are known."""
    if not patterns:
        return {}
    keys = [make_rule_key(kind, pattern) for pattern in patterns]
    rows = connection.execute(_SELECT_BY_KEYS, {"crawl_id": crawl_id, "keys": keys})
    return {row.pattern: _read_rule(*row).state for row in rows}


def _save_rules(connection: Connection, crawl_id: int, rules: Sequence[StoredRule]) -> None:
    if rules:
        rows = [
            {
                "crawl_id": crawl_id,
                "key": rule.key,
                "kind": rule.kind,
                "pattern": rule.pattern,
                "is_active": int(rule.is_active),
                "state": json.dumps(asdict(rule.state), separators=(",", ":")),
            }
            for rule in rules
        ]
        connection.execute(_SAVE, rows)


def _read_rule(key: str, kind: str, pattern: str, is_active: int, state: str) -> StoredRule:
    values: dict[str, Any] = json.loads(state)
    return StoredRule(key, CrawlRuleKind(kind), pattern, bool(is_active), _read_state(CrawlRuleKind(kind), values))


def _read_state(
    kind: CrawlRuleKind, values: dict[str, Any]
) -> SessionRule | PatternState | LearnedState | LearningProgress:
    match kind:
        case CrawlRuleKind.SESSION:
            values["groups"] = tuple(values["groups"])
            return SessionRule(**values)
        case CrawlRuleKind.TRAP:
            return PatternState(**values)
        case CrawlRuleKind.LEARNED:
            return read_learned_state(values)
        case CrawlRuleKind.LEARNING:
            return LearningProgress(**values)
