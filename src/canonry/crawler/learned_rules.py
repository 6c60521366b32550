"""Rules that the learner found during a crawl, in the database: which pages they leave out, and when they fail (L7).

Under the rules every URL has a form. A page is left out if another page of its form was read, and if that page leads to
at least as much: a rule is partial if its pages lack links of the others (`/print`). For one form in eight a second
page is read nevertheless. A rule that fails returns all pages that were left out to the queue.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection, bindparam, text

from canonry.core.native import normalize
from canonry.crawler.known_pages import make_page_key
from canonry.crawler.results import PageState
from canonry.crawler.session_ids import PairVerdict, TextOfPage, compare_pair
from canonry.learner.export_rules import Entry, make_overrides

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from canonry.core.policy import Policy
    from canonry.crawler.results import LeasedPage, PageResult

MIN_CONFIDENCE = 0.95
_FIRST_PAGES = 100  # after so many pages the rules are learned for the first time
_GROWTH = 1.5  # and again whenever there are this many times more
_MAX_COMPARED = 5
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


def is_learning_due(progress: LearningProgress, *, taken: int, is_exhausted: bool) -> bool:
    """Return whether the rules are to be learned now: at times, and before the crawl ends if there may be any."""
    if is_exhausted and progress.pages:
        return taken > progress.pages
    return taken >= max(_FIRST_PAGES, int(progress.pages * _GROWTH))


class LearnedForms:
    """The form of URLs under learned rules."""

    def __init__(self, policy: Policy, rules: Mapping[str, LearnedState]) -> None:
        self.rules = rules
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


def _add_entries(policy: Policy, rules: tuple[tuple[Entry, ...], ...]) -> Policy:
    own = None if policy.overrides is None else policy.overrides.text
    return _load_policy(policy.without_overrides(), make_overrides(rules, own))


@lru_cache(maxsize=64)
def _load_policy(policy: Policy, overrides: str) -> Policy:
    return policy.with_overrides(overrides, file="learned rules")


class LearnedFold(NamedTuple):
    """A decision about a page: it waits for another page, or a rule leaves it out in favour of another page."""

    is_waiting: bool
    rule_key: str = ""
    target_url: str = ""


class LearnedFolds:
    """Finds pages that were read under another URL of the same form."""

    def __init__(self, connection: Connection, crawl_id: int, pages: Sequence[LeasedPage], forms: LearnedForms) -> None:
        self._forms = forms
        self._form_of = {page.id: forms.make(page.url) for page in pages}
        self._keys = {page_id: make_page_key(form) for page_id, form in self._form_of.items()}
        self._members: dict[str, list[Any]] = {}
        self._opened: set[str] = set()
        values = {"crawl_id": crawl_id, "keys": list(self._keys.values())}
        for row in connection.execute(_SELECT_MEMBERS, values):
            self._members.setdefault(row.learned_key, []).append(row)
        self._queued = {row.key: row for row in connection.execute(_SELECT_QUEUED, values)}

    def find(self, page: LeasedPage) -> LearnedFold | None:
        """Return what happens to a page; None if it is to be read."""
        key = self._keys[page.id]
        if not page.depth:
            self._opened.add(key)
            return None
        rules = self._forms.list_rules(page.url)
        plain = self._queued.get(key)
        if rules and plain is not None and plain.id != page.id and plain.depth <= page.depth:
            return LearnedFold(is_waiting=True)  # the URL without what the rules drop is read first
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
            return LearnedFold(is_waiting=True) if is_open else None
        involved = sorted(rules or self._forms.list_rules(read[0].url))
        is_control = int(key[:8], 16) % _FORMS_PER_CONTROL == 0 and len(members) == 1
        if not involved or is_control:
            return None
        return LearnedFold(is_waiting=False, rule_key=involved[0], target_url=read[0].url)

    def save_keys(self, connection: Connection, leased: Iterable[LeasedPage]) -> None:
        """Store the forms of pages that are read, by which others find them."""
        save_learned_keys(connection, {page.id: self._keys[page.id] for page in leased})


def save_learned_keys(connection: Connection, keys: Mapping[int, str]) -> None:
    """Store the keys of forms by the ids of pages."""
    if keys:
        connection.execute(_SET_LEARNED_KEY, [{"id": each, "learned_key": key} for each, key in keys.items()])


def find_failed_rules(
    connection: Connection, crawl_id: int, results: Collection[PageResult], forms: LearnedForms
) -> frozenset[str]:
    """Compare pages that were read with others of their form; return the rules under which two texts are one page."""
    found = {each.page.id: forms.make(each.url) for each in results}
    if not found:
        return frozenset()
    keys = {page_id: make_page_key(form) for page_id, form in found.items()}
    members: dict[str, list[Any]] = {}
    for row in connection.execute(_SELECT_MEMBERS, {"crawl_id": crawl_id, "keys": list(keys.values())}):
        if row.state == PageState.DONE:
            members.setdefault(row.learned_key, []).append(row)
    failed: set[str] = set()
    for each in results:
        print_ = each.fingerprint
        own = TextOfPage(print_.text_hash, print_.simhash, print_.words, each.title)
        for row in members.get(keys[each.page.id], [])[:_MAX_COMPARED]:
            other = TextOfPage(row.text_hash, int(row.simhash or "0", 16), row.words, row.title)
            is_pair = row.id != each.page.id and forms.make(row.url) == found[each.page.id]
            if is_pair and compare_pair(own, other) is PairVerdict.DIFFERENT:
                failed |= forms.list_rules(each.url) | forms.list_rules(row.url)
    return frozenset(failed)


def read_learned_state(values: dict[str, Any]) -> LearnedState:
    """Return the state that the database has as JSON."""
    entries = tuple((host, key, value) for host, key, value in values.pop("entries"))
    return LearnedState(entries, **values)


def list_targets(links: str, verdict: str) -> list[str]:
    """Return the URLs in the stored links of a page that have this verdict."""
    return [row[1] for row in json.loads(links) if row[3] == verdict and row[1]]
