"""Learn rules from the pages that a crawl has read, and use them for the pages that it has not (contract L7).

A rule is used if the learner is confident of it, and if the pages that it would leave out lead nowhere else: each of
their links is, under the rules, also a link of a page that stays.
"""

from __future__ import annotations

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
    targets: frozenset[str]  # the forms of its links


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
        pages = list(_read_pages(database, crawl_id, forms))
        adding, partial = _compare_links(pages, forms)
        if not adding:
            return pages, {key: replace(state, is_partial=key in partial) for key, state in states.items()}
        states = {key: state for key, state in states.items() if key not in adding}
    return [], {}


def _read_pages(database: Database, crawl_id: int, forms: LearnedForms) -> Iterator[_ReadPage]:
    known: dict[str, str] = {}

    def make_form(url: str) -> str:
        if url not in known:
            known[url] = forms.make(url)
        return known[url]

    after = 0
    while rows := database.read_now(partial(_select_read, crawl_id=crawl_id, after=after)):
        for row in rows:
            targets = frozenset(map(make_form, list_targets(row[2], Verdict.CRAWL)))
            yield _ReadPage(row[0], row[1], make_form(row[1]), targets)
        after = rows[-1][0]


def _select_read(connection: Connection, crawl_id: int, after: int) -> list[tuple[int, str, str]]:
    values = {"crawl_id": crawl_id, "after": after, "count": _BATCH_PAGES}
    return [(row.id, row.url, row.links) for row in connection.execute(_SELECT_READ, values)]


def _compare_links(pages: list[_ReadPage], forms: LearnedForms) -> tuple[set[str], set[str]]:
    """Return the rules whose pages have links that no other page has, and those whose pages lack links."""
    groups: defaultdict[str, list[tuple[frozenset[str], _ReadPage]]] = defaultdict(list)
    for page in pages:
        rules = forms.list_rules(page.url) if page.form != page.url else frozenset[str]()
        groups[page.form].append((rules, page))
    staying = {
        form: min(members, key=lambda member: (len(member[0]), member[1].id)) for form, members in groups.items()
    }
    linked = set(staying).union(*(page.targets for _, page in staying.values()))
    adding: set[str] = set()
    partial: set[str] = set()
    for form, members in groups.items():
        first_rules, first = staying[form]
        for rules, page in members:
            blamed = (rules - first_rules) or rules
            if page.targets - linked:
                adding |= blamed
            if first.targets - page.targets - {form}:
                partial |= blamed
    return adding, partial
