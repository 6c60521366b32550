"""Rules that the learner found during a crawl, in the database: which pages they leave out, and when they fail (L7).

Under the rules every URL has a form. A page is left out if another page of its form was read, and if that page leads to
at least as much: a rule is partial if its pages lack links of the others (`/print`). A rule that holds for one kind of
page may fail for another, so it leaves out pages of a kind (`name_page_kind`) only after three of them were read
nevertheless and showed the same text. From then on a second page is read for one form in eight. A rule that fails
returns all pages that were left out to the queue.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection, bindparam, text

from canonry.core.native import normalize
from canonry.crawler.known_pages import make_page_key
from canonry.crawler.reasons import SkipReason
from canonry.crawler.results import PageState, Skip, Wait, read_fingerprint
from canonry.crawler.session_ids import PairVerdict, TextOfPage, compare_pair
from canonry.crawler.url_patterns import name_page_kind
from canonry.learner.export_rules import Entry, make_overrides

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from canonry.core.policy import Policy
    from canonry.crawler.results import LeasedPage, PageResult

MIN_CONFIDENCE = 0.95
_FIRST_PAGES = 100  # after so many pages the rules are learned for the first time
_GROWTH = 1.5  # and again whenever there are this many times more
_MAX_COMPARED = 5
_ENOUGH_CONFIRMATIONS = 3  # of one kind of page
# Not a share of the pages: a page that is read may have new session identifiers in all its links, without end.
_FORMS_PER_CONTROL = 8

_SELECT_MEMBERS = text(
    "SELECT id, url, state, status, title, text_hash, simhash, words, learned_key FROM crawl_pages"
    " WHERE crawl_id = :crawl_id AND learned_key IN :keys AND state IN ('done', 'fetching') AND status < 400"
    " ORDER BY id"
).bindparams(bindparam("keys", expanding=True))
_SELECT_QUEUED = text(
    "SELECT id, key, depth FROM crawl_pages"
    " WHERE crawl_id = :crawl_id AND key IN :keys AND state = 'queued' AND begun_at IS NULL"
).bindparams(bindparam("keys", expanding=True))
_SET_LEARNED_KEY = text("UPDATE crawl_pages SET learned_key = :learned_key WHERE id = :id")


@dataclass(frozen=True, slots=True)
class LearnedState:
    """A learned rule in overrides.v1, and whether it failed; see above for `is_partial`."""

    entries: tuple[Entry, ...]
    is_partial: bool = False
    is_withdrawn: bool = False


@dataclass(frozen=True, slots=True)
class LearningProgress:
    """How many pages of the crawl were taken when its rules were learned last."""

    pages: int = 0


@dataclass(frozen=True, slots=True)
class Confirmations:
    """How many pages of one kind were read and confirmed a learned rule."""

    pages: int = 0

    @property
    def is_enough(self) -> bool:
        """Whether the rule may leave out further pages of the kind."""
        return self.pages >= _ENOUGH_CONFIRMATIONS


class RuleAndKind(NamedTuple):
    """The key of a learned rule, and a kind of page."""

    rule_key: str
    page_kind: str


class PairFindings(NamedTuple):
    """The rules that failed, and how many pages confirmed which rules."""

    failed: frozenset[str]
    confirmed: Counter[RuleAndKind]


def is_learning_due(progress: LearningProgress, *, taken: int, is_exhausted: bool) -> bool:
    """Return whether the rules are to be learned now: at times, and before the crawl ends if there may be any."""
    if is_exhausted and progress.pages:
        return taken > progress.pages
    return taken >= max(_FIRST_PAGES, int(progress.pages * _GROWTH))


class LearnedForms:
    """The form of URLs under learned rules."""

    def __init__(self, policy: Policy, rules: Mapping[str, LearnedState]) -> None:
        self.rules = rules
        self._policy = policy
        self._all = _add_entries(policy, tuple(rule.entries for rule in rules.values()))
        self._each = {key: _add_entries(policy, (rule.entries,)) for key, rule in rules.items()}

    def make(self, url: str) -> str:
        """Return the form of a normalized URL."""
        return normalize(url, self._all)

    def list_rules(self, url: str) -> frozenset[str]:
        """Return the keys of the rules that change a URL, each alone."""
        return frozenset(key for key, policy in self._each.items() if normalize(url, policy) != url)

    def list_partial(self, url: str) -> frozenset[str]:
        """Return the keys of the rules that change a URL and whose pages lack links."""
        return frozenset(key for key in self.list_rules(url) if self.rules[key].is_partial)

    def list_needed(self, one: str, other: str) -> frozenset[str]:
        """Return the keys of the rules without which two URLs of one form are two pages.

        If each of several rules would be enough, these are all that change one of the URLs.
        """
        involved = self.list_rules(one) | self.list_rules(other)
        if len(involved) <= 1:
            return involved
        return frozenset(key for key in involved if self._keeps_apart(key, one, other)) or involved

    def _keeps_apart(self, key: str, one: str, other: str) -> bool:
        """Return whether two URLs have different forms without this rule."""
        others = _add_entries(self._policy, tuple(rule.entries for each, rule in self.rules.items() if each != key))
        return normalize(one, others) != normalize(other, others)

    def name_kind(self, url: str) -> str:
        """Return the kind of page that a normalized URL names."""
        return name_page_kind(url, form=self.make(url))


def _add_entries(policy: Policy, rules: tuple[tuple[Entry, ...], ...]) -> Policy:
    own = None if policy.overrides is None else policy.overrides.text
    return _load_policy(policy.without_overrides(), make_overrides(rules, own))


@lru_cache(maxsize=256)
def _load_policy(policy: Policy, overrides: str) -> Policy:
    return policy.with_overrides(overrides, file="learned rules")


class LearnedSkips:
    """Decides which pages are skipped, because they were read under another URL of the same form."""

    def __init__(
        self,
        connection: Connection,
        crawl_id: int,
        pages: Sequence[LeasedPage],
        forms: LearnedForms,
        confirmed: Collection[RuleAndKind],
    ) -> None:
        self._forms = forms
        self._confirmed = confirmed
        self._form_of = {page.id: forms.make(page.url) for page in pages}
        self._keys = {page_id: make_page_key(form) for page_id, form in self._form_of.items()}
        self._members: dict[str, list[Any]] = {}
        self._opened: set[str] = set()
        values = {"crawl_id": crawl_id, "keys": list(self._keys.values())}
        for row in connection.execute(_SELECT_MEMBERS, values):
            self._members.setdefault(row.learned_key, []).append(row)
        self._queued = {row.key: row for row in connection.execute(_SELECT_QUEUED, values)}

    def decide(self, page: LeasedPage) -> Skip | Wait | None:
        """Return by which rule a page is skipped, or that it waits; None if it is to be read."""
        key = self._keys[page.id]
        if not page.depth:
            self._opened.add(key)
            return None
        rules = self._forms.list_rules(page.url)
        plain = self._queued.get(key)
        if rules and plain is not None and plain.id != page.id and plain.depth <= page.depth:
            return Wait()  # the URL without what the rules drop is read first
        # Pages that were leased under rules that failed since may have another form now.
        members = [
            row
            for row in self._members.get(key, [])
            if row.id != page.id and self._forms.make(row.url) == self._form_of[page.id]
        ]
        partial = self._forms.list_partial(page.url)
        able = [row for row in members if self._forms.list_partial(row.url) <= partial]
        read = [row for row in able if row.state == PageState.DONE]
        if not read:
            is_open = bool(able) or (key in self._opened and bool(rules))
            self._opened.add(key)
            return Wait() if is_open else None
        involved = sorted(rules or self._forms.list_rules(read[0].url))
        if not involved:
            return None
        is_control = int(key[:8], 16) % _FORMS_PER_CONTROL == 0 and len(members) == 1
        if is_control or not self._is_confirmed(page.url, read[0].url):
            # One at a time, so that pages of several forms confirm a rule. If many texts of a form proved nothing, the
            # next one is not worth waiting for.
            is_open = key in self._opened or any(row.state == PageState.FETCHING for row in members)
            self._opened.add(key)
            return Wait() if is_open and len(read) <= _MAX_COMPARED else None
        return Skip(page.id, SkipReason.LEARNED_RULE, involved[0], read[0].url)

    def _is_confirmed(self, url: str, read_url: str) -> bool:
        """Return whether pages of this kind confirmed all rules under which two URLs are one page."""
        kind = self._forms.name_kind(url)
        return all(RuleAndKind(key, kind) in self._confirmed for key in self._forms.list_needed(url, read_url))

    def save_keys(self, connection: Connection, leased: Iterable[LeasedPage]) -> None:
        """Store the forms of pages that are read, by which others find them."""
        save_learned_keys(connection, {page.id: self._keys[page.id] for page in leased})


def save_learned_keys(connection: Connection, keys: Mapping[int, str]) -> None:
    """Store the keys of forms by the ids of pages."""
    if keys:
        connection.execute(_SET_LEARNED_KEY, [{"id": each, "learned_key": key} for each, key in keys.items()])


def compare_forms(
    connection: Connection, crawl_id: int, results: Collection[PageResult], forms: LearnedForms
) -> PairFindings:
    """Compare pages that were read with others of their form: a rule under which two texts are one page has failed."""
    found = {each.page.id: forms.make(each.url) for each in results}
    if not found:
        return PairFindings(frozenset(), Counter())
    keys = {page_id: make_page_key(form) for page_id, form in found.items()}
    members: dict[str, list[Any]] = {}
    for row in connection.execute(_SELECT_MEMBERS, {"crawl_id": crawl_id, "keys": list(keys.values())}):
        if row.state == PageState.DONE:
            members.setdefault(row.learned_key, []).append(row)
    failed: set[str] = set()
    confirmed: Counter[RuleAndKind] = Counter()
    for each in results:
        confirmed_here: set[RuleAndKind] = set()
        own = TextOfPage(each.fingerprint, each.title)
        for row in members.get(keys[each.page.id], [])[:_MAX_COMPARED]:
            other = TextOfPage(read_fingerprint(row.text_hash, row.simhash, row.words), row.title)
            is_pair = row.id != each.page.id and forms.make(row.url) == found[each.page.id]
            verdict = compare_pair(own, other) if is_pair else PairVerdict.UNCLEAR
            if verdict is PairVerdict.DIFFERENT:
                failed |= forms.list_rules(each.url) | forms.list_rules(row.url)
            if verdict is PairVerdict.SAME:
                kinds = [forms.name_kind(url) for url in (each.url, row.url)]
                needed = forms.list_needed(each.url, row.url)
                confirmed_here |= {RuleAndKind(key, kind) for key in needed for kind in kinds}
        confirmed.update(confirmed_here)
    return PairFindings(frozenset(failed), confirmed)


def read_learned_state(values: dict[str, Any]) -> LearnedState:
    """Return the state that the database has as JSON."""
    entries = tuple((host, key, value) for host, key, value in values.pop("entries"))
    return LearnedState(entries, **values)


def list_targets(links: str, verdict: str) -> list[str]:
    """Return the URLs in the stored links of a page that have this verdict."""
    return [row[1] for row in json.loads(links) if row[3] == verdict and row[1]]
