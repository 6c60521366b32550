"""Learn rules from the pages that a crawl has read, and use them for the pages that it has not (contract L7).

A rule is used if the learner is confident of it, and if the pages that it would leave out lead nowhere else: each of
their links is, under the rules, also a link of a page that stays.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import Connection, text

from canonry.core.scope import Verdict
from canonry.crawler.known_pages import make_page_key
from canonry.crawler.learned_rule_store import load_learned_rules, make_learned_key, save_learning
from canonry.crawler.learned_rules import MIN_CONFIDENCE, LearnedForms, LearnedState, list_targets
from canonry.learner.values import RuleKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from canonry.core.policy import Policy
    from canonry.store.database import Database

_MEMORY = 500 * 1000**2
_BATCH_PAGES = 2000
# A crawl stays on one host, and its pages are keyed without the scheme.
_UNUSED_KINDS = frozenset({RuleKind.HOST, RuleKind.SCHEME})
_SELECT_READ = text(
    "SELECT id, url, links FROM crawl_pages WHERE crawl_id = :crawl_id AND id > :after AND state = 'done'"
    " AND status < 400 ORDER BY id LIMIT :count"
)


class _ReadPage(NamedTuple):
    id: int
    url: str
    form: str
    targets: array[int]  # the numbers of the forms of its links: a set of them takes twenty times the memory


class _Forms:
    """The forms of URLs, with a number for each."""

    def __init__(self, forms: LearnedForms) -> None:
        self._make = forms.make
        self._known: dict[str, int] = {}  # by URL
        self._numbers: dict[str, int] = {}
        self._texts: list[str] = []

    def get_number(self, url: str) -> int:
        """Return the number of the form of a URL."""
        number = self._known.get(url)
        if number is None:
            form = self._make(url)
            number = self._known[url] = self._numbers.setdefault(form, len(self._texts))
            if number == len(self._texts):
                self._texts.append(form)
        return number

    def get_text(self, url: str) -> str:
        """Return the form of a URL."""
        return self._texts[self.get_number(url)]


def learn_from_crawl(database: Database, crawl_id: int, policy: Policy, *, taken: int) -> None:
    """Learn the rules of a crawl again, and store those to use; `taken` is the number of pages taken so far."""
    from canonry.learner import learn_batches
    from canonry.learner.read_crawls import read_crawl_rows

    rows = read_crawl_rows(database, crawl_id, normalized=True)
    learned = learn_batches(rows, engine="duckdb", min_confidence=MIN_CONFIDENCE, memory=_MEMORY)
    before = database.read_now(lambda connection: load_learned_rules(connection, crawl_id))
    rules = {
        make_learned_key(rule.name): rule
        for rule in learned.rules
        if rule.kind not in _UNUSED_KINDS and not before.get(make_learned_key(rule.name), LearnedState(())).is_withdrawn
    }
    states = {key: LearnedState(rule.overrides) for key, rule in rules.items()}
    pages, states = _choose_rules(database, crawl_id, policy, states)
    keys = {page.id: make_page_key(page.form) for page in pages} if states else {}
    texts = {key: rule.text for key, rule in rules.items()}
    database.write_now(lambda connection: save_learning(connection, crawl_id, states, texts, keys=keys, taken=taken))


def _choose_rules(
    database: Database, crawl_id: int, policy: Policy, states: dict[str, LearnedState]
) -> tuple[list[_ReadPage], dict[str, LearnedState]]:
    """Return the pages that were read with their forms, and the rules that lose no link."""
    while states:
        forms = LearnedForms(policy, states)
        numbered = _Forms(forms)
        pages = list(_read_pages(database, crawl_id, numbered))
        adding, partial = _compare_links(pages, forms, numbered)
        if not adding:
            return pages, {key: replace(state, is_partial=key in partial) for key, state in states.items()}
        states = {key: state for key, state in states.items() if key not in adding}
    return [], {}


def _read_pages(database: Database, crawl_id: int, forms: _Forms) -> Iterator[_ReadPage]:
    after = 0
    while rows := database.read_now(partial(_select_read, crawl_id=crawl_id, after=after)):
        for row in rows:
            targets = array("I", {forms.get_number(url) for url in list_targets(row[2], Verdict.CRAWL)})
            yield _ReadPage(row[0], row[1], forms.get_text(row[1]), targets)
        after = rows[-1][0]


def _select_read(connection: Connection, crawl_id: int, after: int) -> list[tuple[int, str, str]]:
    values = {"crawl_id": crawl_id, "after": after, "count": _BATCH_PAGES}
    return [(row.id, row.url, row.links) for row in connection.execute(_SELECT_READ, values)]


def _compare_links(pages: list[_ReadPage], forms: LearnedForms, numbered: _Forms) -> tuple[set[str], set[str]]:
    """Return the rules whose pages have links that no other page has, and those whose pages lack links."""
    groups: defaultdict[str, list[tuple[frozenset[str], _ReadPage]]] = defaultdict(list)
    for page in pages:
        rules = forms.list_rules(page.url) if page.form != page.url else frozenset[str]()
        groups[page.form].append((rules, page))
    staying = {
        form: min(members, key=lambda member: (len(member[0]), member[1].id)) for form, members in groups.items()
    }
    linked = {numbered.get_number(page.url) for _, page in staying.values()}
    linked.update(*(page.targets for _, page in staying.values()))
    adding: set[str] = set()
    partial: set[str] = set()
    for form, members in groups.items():
        first_rules, first = staying[form]
        for rules, page in members:
            blamed = (rules - first_rules) or rules
            if not linked.issuperset(page.targets):
                adding |= blamed
            if page is not first and not {*page.targets, numbered.get_number(first.url)}.issuperset(first.targets):
                partial |= blamed
    return adding, partial
