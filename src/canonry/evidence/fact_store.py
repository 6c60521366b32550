"""Facts about pages and proven aliases in the database, shared by bookmarks, entries and crawls (contract E4)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import Connection, bindparam, or_, select
from sqlalchemy.dialects import postgresql

from canonry.evidence.facts import (
    ControlResult,
    PageAlias,
    PageFact,
    declares,
    differ_only_in_form,
    find_landings,
    has_unproven_redirect,
    hash_url,
    is_still_proven,
    list_aliases_of,
    make_form_key,
)
from canonry.evidence.fingerprint import Fingerprint
from canonry.evidence.same_page import Evidence
from canonry.net.response import NO_VALIDATORS, Validators
from canonry.store.schema import page_aliases, page_facts, refused_aliases
from canonry.store.statements import Prepared

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from sqlalchemy.dialects.postgresql import Insert

    from canonry.store.database import Database

_CHUNK = 500  # keys in one query
_MAX_RELATED_FACTS = 50
_MAX_CONTROLS = 3  # for one page
_MAX_ALIAS_STEPS, _MAX_ALIASES = 3, 200


class _AliasRow(NamedTuple):
    """A row of `page_aliases`."""

    url_key: str
    url: str
    target_key: str
    target_url: str
    evidence: str


class FactStore:
    """The facts of a database; every method is one transaction."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def save(self, facts: Sequence[PageFact]) -> None:
        """Save facts, newer ones in the place of older ones, and the aliases that they prove."""
        await self.database.write(partial(save_facts, facts=facts))

    async def get(self, url: str) -> PageFact | None:
        """Return what is known about a URL without fragment, or None."""
        return await self.database.read(lambda connection: next(iter(load_facts(connection, [url]).values()), None))

    async def list_aliases(self, url: str, *, owner: int | None = None) -> dict[str, str]:
        """Return the URLs that are proven to show the same page, with the evidence of each."""
        return await self.database.look_up(partial(find_alias_urls, url=url, owner=owner))


def save_facts(connection: Connection, facts: Sequence[PageFact]) -> None:
    """Save facts and the aliases that they prove; a control holds as long as the page claims the same."""
    if not facts:
        return
    related = _RelatedFacts(connection, facts)
    latest = {fact.url: _keep_control(fact, related.by_url.get(fact.url)) for fact in facts}
    rows = sorted((_dump_fact(fact) for fact in latest.values()), key=_get_url_key)  # one order: no deadlock
    connection.execute(_SAVE_FACTS, rows)
    related.add(latest.values())
    aliases = [alias for fact in latest.values() for alias in list_aliases_of(fact, related.find(fact))]
    save_aliases(connection, aliases, facts[0].fetched_at)


def _get_url_key(row: Mapping[str, Any]) -> str:
    return str(row["url_key"])


def _keep_control(fact: PageFact, known: PageFact | None) -> PageFact:
    """Return a fact with the control of the known one, if the page claims the same."""
    if known is None or fact.control is not ControlResult.NONE:
        return fact
    is_same = (fact.permanent_url, fact.canonical_url) == (known.permanent_url, known.canonical_url)
    return replace(fact, control=known.control) if is_same else fact


def list_uncontrolled(connection: Connection, fact: PageFact) -> list[PageFact]:
    """List the facts, this one or others, that would prove an alias of this page if a control passed."""
    related = _RelatedFacts(connection, [fact]).find(fact)
    if has_unproven_redirect(fact):
        return [fact]
    pairs = [(fact, other) for other in related] + [(other, fact) for other in related if other.url != fact.url]
    found = {
        one.url: one
        for one, other in pairs
        if one.control is ControlResult.NONE and declares(one, other) and not differ_only_in_form(one.url, other.url)
    }
    return list(found.values())[:_MAX_CONTROLS]


def save_aliases(connection: Connection, aliases: Iterable[PageAlias], now: str) -> None:
    """Save proven aliases; one that is known stays as it is."""
    rows = [
        {
            "url_key": hash_url(alias.url),
            "url": alias.url,
            "target_key": hash_url(alias.target_url),
            "target_url": alias.target_url,
            "evidence": alias.evidence.value,
            "found_at": now,
        }
        for alias in aliases
    ]
    if rows:
        connection.execute(_SAVE_ALIASES, rows)


def load_facts(connection: Connection, urls: Collection[str]) -> dict[str, PageFact]:
    """Return the facts about these URLs, by URL."""
    found: dict[str, PageFact] = {}
    for keys in _chunk([hash_url(url) for url in urls]):
        for row in _SELECT_FACTS.fetch_all(connection, keys=tuple(keys)):
            fact = _parse_fact(row)
            found[fact.url] = fact
    return found


def find_alias_urls(
    connection: Connection, url: str, owner: int | None = None, *, skips_doubtful: bool = False
) -> dict[str, str]:
    """Return the URLs that are proven to show the same page as `url`, with the evidence of each.

    Aliases of aliases count. Pairs that the owner refused do not. `skips_doubtful` leaves out aliases that newer facts
    no longer prove, and redirects to a URL that several pages redirect to.
    """
    refused = set[tuple[str, str]]() if owner is None else load_refused_pairs(connection, owner)
    found: dict[str, str] = {}
    seen, frontier = {hash_url(url)}, [hash_url(url)]
    for _ in range(_MAX_ALIAS_STEPS):
        table = page_aliases.c
        query = select(table.url_key, table.url, table.target_key, table.target_url, table.evidence)
        keys = frontier[:_CHUNK]
        frontier = list[str]()
        found_rows = connection.execute(query.where(or_(table.url_key.in_(keys), table.target_key.in_(keys))))
        rows = [_AliasRow(*row) for row in found_rows]
        for row in _drop_doubtful(connection, rows) if skips_doubtful else rows:
            if tuple(sorted((row.url_key, row.target_key))) in refused:
                continue
            for key, other in ((row.url_key, row.url), (row.target_key, row.target_url)):
                if key not in seen and len(found) < _MAX_ALIASES:
                    seen.add(key)
                    frontier.append(key)
                    found[other] = row.evidence
        if not frontier:
            break
    return {
        other: evidence
        for other, evidence in found.items()
        if tuple(sorted((hash_url(url), hash_url(other)))) not in refused
    }


def _drop_doubtful(connection: Connection, rows: Sequence[_AliasRow]) -> list[_AliasRow]:
    """Return the rows of `page_aliases` that are certain enough for a merge that nobody reviews."""
    facts = load_facts(connection, list({url for row in rows for url in (row.url, row.target_url)}))
    ends: dict[int, str] = {}  # where the redirect ends, by the position of the row
    for position, row in enumerate(rows):
        if row.evidence == Evidence.REDIRECT:
            fact = facts.get(row.url)
            ends[position] = row.target_url if fact is None else fact.permanent_url
    table = page_aliases.c
    redirects: set[tuple[str, str]] = set()
    for keys in _chunk([hash_url(url) for url in set(ends.values())]):
        query = select(table.url, table.target_url)
        is_redirect = (table.evidence == Evidence.REDIRECT.value) & table.target_key.in_(keys)
        redirects |= {(url, target) for url, target in connection.execute(query.where(is_redirect))}
    landings = find_landings(redirects)
    return [
        row
        for position, row in enumerate(rows)
        if ends.get(position) not in landings
        and is_still_proven(
            PageAlias(row.url, row.target_url, Evidence(row.evidence)), facts.get(row.url), facts.get(row.target_url)
        )
    ]


def has_aliases(connection: Connection, urls: Collection[str]) -> bool:
    """Return whether `find_alias_urls` may return something for one of the URLs; one query."""
    return bool(_HAS_ALIASES.fetch_all(connection, keys=tuple(hash_url(url) for url in urls)))


def find_urls_with_aliases(connection: Connection, urls: Collection[str]) -> set[str]:
    """Return those of the URLs for which `find_alias_urls` may return something."""
    by_key = {hash_url(url): url for url in urls}
    found: set[str] = set()
    table = page_aliases.c
    for keys in _chunk(list(by_key)):
        for column in (table.url_key, table.target_key):
            found |= set(connection.execute(select(column).where(column.in_(keys))).scalars())
    return {by_key[key] for key in found}


def load_refused_pairs(connection: Connection, owner: int) -> set[tuple[str, str]]:
    """Return the keys of the pairs of URLs that an owner says are not the same."""
    table = refused_aliases.c
    query = select(table.first_key, table.second_key).where(table.owner_id == owner)
    return {(row.first_key, row.second_key) for row in connection.execute(query)}


def refuse_pair(connection: Connection, owner: int, one: str, other: str, now: str) -> None:
    """Remember that two URLs are not the same for an owner, whatever the evidence."""
    (first_key, first_url), (second_key, second_url) = sorted((hash_url(url), url) for url in (one, other))
    row = {
        "owner_id": owner,
        "first_key": first_key,
        "second_key": second_key,
        "first_url": first_url,
        "second_url": second_url,
        "refused_at": now,
    }
    connection.execute(postgresql.insert(refused_aliases).values(row).on_conflict_do_nothing())


class _RelatedFacts:
    """The facts that may prove an alias together with some others: of the same form, or one names the other's URL."""

    def __init__(self, connection: Connection, facts: Sequence[PageFact]) -> None:
        self.by_url: dict[str, PageFact] = {}
        self._by_form: dict[str, list[str]] = {}
        self._by_canonical: dict[str, list[str]] = {}
        for start in range(0, len(facts), _CHUNK):
            part = facts[start : start + _CHUNK]
            named = {url for fact in part for url in (fact.url, fact.permanent_url, fact.canonical_url) if url}
            values = {
                "forms": sorted({make_form_key(fact.url) for fact in part}),
                "urls": sorted(map(hash_url, named)),
                "canonicals": sorted(hash_url(fact.url) for fact in part),
                "count": _MAX_RELATED_FACTS * len(part),
            }
            self.add(_parse_fact(row) for row in connection.execute(_SELECT_RELATED, values))

    def add(self, facts: Iterable[PageFact]) -> None:
        """Add facts, newer ones in the place of older ones."""
        for fact in facts:
            if fact.url not in self.by_url:
                self._by_form.setdefault(make_form_key(fact.url), []).append(fact.url)
                self._by_canonical.setdefault(fact.canonical_url, []).append(fact.url)
            self.by_url[fact.url] = fact

    def find(self, fact: PageFact) -> list[PageFact]:
        """Return the facts that may prove an alias together with this one."""
        urls = [
            *self._by_form.get(make_form_key(fact.url), ()),
            *self._by_canonical.get(fact.url, ()),
            *(url for url in (fact.permanent_url, fact.canonical_url) if url in self.by_url),
        ]
        return [self.by_url[url] for url in dict.fromkeys(urls)][:_MAX_RELATED_FACTS]


def _make_save_statement() -> Insert:
    change = postgresql.insert(page_facts)  # SQLite understands this too
    values = {column.name: change.excluded[column.name] for column in page_facts.c if not column.primary_key}
    return change.on_conflict_do_update(index_elements=["url_key"], set_=values)


_SAVE_FACTS = _make_save_statement()
_SAVE_ALIASES = postgresql.insert(page_aliases).on_conflict_do_nothing()
_FACT_COLUMNS = [
    page_facts.c[name]
    for name in (
        *("url", "permanent_url", "canonical_url", "status", "title", "text_hash", "simhash", "words", "body_hash"),
        *("fetched_at", "etag", "last_modified", "control"),
    )
]
_SELECT_FACTS = Prepared(lambda in_list: select(*_FACT_COLUMNS).where(in_list(page_facts.c.url_key, "keys")))
_HAS_ALIASES = Prepared(
    lambda in_list: (
        select(page_aliases.c.id)
        .where(or_(in_list(page_aliases.c.url_key, "keys"), in_list(page_aliases.c.target_key, "keys")))
        .limit(1)
    )
)
_SELECT_RELATED = (
    select(*_FACT_COLUMNS)
    .where(
        or_(
            page_facts.c.form_key.in_(bindparam("forms", expanding=True)),
            page_facts.c.url_key.in_(bindparam("urls", expanding=True)),
            page_facts.c.canonical_key.in_(bindparam("canonicals", expanding=True)),
        )
    )
    .order_by(page_facts.c.fetched_at.desc())
    .limit(bindparam("count"))
)


def _dump_fact(fact: PageFact) -> dict[str, Any]:
    return {
        "url_key": hash_url(fact.url),
        "url": fact.url,
        "form_key": make_form_key(fact.url),
        "permanent_url": fact.permanent_url,
        "canonical_url": fact.canonical_url,
        "canonical_key": hash_url(fact.canonical_url) if fact.canonical_url else "",
        "status": fact.status,
        "title": fact.title,
        "text_hash": fact.fingerprint.text_hash,
        "simhash": f"{fact.fingerprint.simhash:016x}",
        "words": fact.fingerprint.words,
        "body_hash": fact.body_hash,
        "fetched_at": fact.fetched_at,
        "etag": fact.validators.etag,
        "last_modified": fact.validators.last_modified,
        "control": fact.control.value,
    }


def _parse_fact(row: Sequence[Any]) -> PageFact:
    """Return the fact of a row that has the `_FACT_COLUMNS`."""
    url, permanent_url, canonical_url, status, title, text_hash, simhash, words, *others = row
    body_hash, fetched_at, etag, last_modified, control = others
    return PageFact(
        url,
        permanent_url,
        canonical_url,
        status,
        title,
        Fingerprint(text_hash, int(simhash, 16), words),
        body_hash,
        fetched_at,
        Validators(etag, last_modified) if etag or last_modified else NO_VALIDATORS,
        ControlResult(control),
    )


def _chunk(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(keys), _CHUNK):
        yield keys[start : start + _CHUNK]
