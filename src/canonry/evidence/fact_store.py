"""Facts about pages and proven aliases in the database, shared by bookmarks, entries and crawls (contract E4)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import Connection, delete, or_, select
from sqlalchemy.dialects import postgresql

from canonry.evidence.facts import PageFact, list_aliases_of, make_form_key, make_url_key
from canonry.evidence.fingerprint import Fingerprint
from canonry.store.schema import page_aliases, page_facts, refused_aliases

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from typing import Any

    from canonry.evidence.facts import PageAlias
    from canonry.store.database import Database

_CHUNK = 500  # keys in one query
_MAX_RELATED_FACTS = 50
_MAX_ALIAS_STEPS, _MAX_ALIASES = 3, 200


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
    """Save facts and the aliases that they prove."""
    for fact in facts:
        row = _dump_fact(fact)
        change = postgresql.insert(page_facts).values(row)  # SQLite understands this too
        connection.execute(change.on_conflict_do_update(index_elements=["url_key"], set_=row))
        save_aliases(connection, list_aliases_of(fact, _load_related(connection, fact)), fact.fetched_at)


def save_aliases(connection: Connection, aliases: Iterable[PageAlias], now: str) -> None:
    """Save proven aliases; one that is known stays as it is."""
    for alias in aliases:
        row = {
            "url_key": make_url_key(alias.url),
            "url": alias.url,
            "target_key": make_url_key(alias.target_url),
            "target_url": alias.target_url,
            "evidence": alias.evidence.value,
            "found_at": now,
        }
        connection.execute(postgresql.insert(page_aliases).values(row).on_conflict_do_nothing())


def load_facts(connection: Connection, urls: Collection[str]) -> dict[str, PageFact]:
    """Return the facts about these URLs, by URL."""
    found: dict[str, PageFact] = {}
    for keys in _chunk([make_url_key(url) for url in urls]):
        for row in connection.execute(select(page_facts).where(page_facts.c.url_key.in_(keys))).mappings():
            fact = _parse_fact(row)
            found[fact.url] = fact
    return found


def find_alias_urls(connection: Connection, url: str, owner: int | None = None) -> dict[str, str]:
    """Return the URLs that are proven to show the same page as `url`, with the evidence of each.

    Aliases of aliases count. Pairs that the owner refused do not.
    """
    refused = set[tuple[str, str]]() if owner is None else load_refused_pairs(connection, owner)
    found: dict[str, str] = {}
    seen, frontier = {make_url_key(url)}, [make_url_key(url)]
    for _ in range(_MAX_ALIAS_STEPS):
        table = page_aliases.c
        query = select(table.url_key, table.url, table.target_key, table.target_url, table.evidence)
        keys = frontier[:_CHUNK]
        frontier = list[str]()
        for row in connection.execute(query.where(or_(table.url_key.in_(keys), table.target_key.in_(keys)))):
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
        if tuple(sorted((make_url_key(url), make_url_key(other)))) not in refused
    }


def load_refused_pairs(connection: Connection, owner: int) -> set[tuple[str, str]]:
    """Return the keys of the pairs of URLs that an owner says are not the same."""
    table = refused_aliases.c
    query = select(table.first_key, table.second_key).where(table.owner_id == owner)
    return {(row.first_key, row.second_key) for row in connection.execute(query)}


def refuse_pair(connection: Connection, owner: int, one: str, other: str, now: str) -> None:
    """Remember that two URLs are not the same for an owner, whatever the evidence."""
    (first_key, first_url), (second_key, second_url) = sorted((make_url_key(url), url) for url in (one, other))
    row = {
        "owner_id": owner,
        "first_key": first_key,
        "second_key": second_key,
        "first_url": first_url,
        "second_url": second_url,
        "refused_at": now,
    }
    connection.execute(postgresql.insert(refused_aliases).values(row).on_conflict_do_nothing())


def accept_pair(connection: Connection, owner: int, one: str, other: str) -> None:
    """Forget that two URLs are not the same."""
    first_key, second_key = sorted((make_url_key(one), make_url_key(other)))
    table = refused_aliases.c
    is_pair = (table.owner_id == owner) & (table.first_key == first_key) & (table.second_key == second_key)
    connection.execute(delete(refused_aliases).where(is_pair))


def _load_related(connection: Connection, fact: PageFact) -> list[PageFact]:
    """Return the facts that may prove an alias together with this one."""
    table = page_facts.c
    named = [url for url in (fact.permanent_url, fact.canonical_url) if url]
    is_related = or_(
        table.form_key == make_form_key(fact.url),
        table.canonical_key == make_url_key(fact.url),
        table.url_key.in_([make_url_key(url) for url in named]),
    )
    query = select(page_facts).where(is_related).order_by(table.fetched_at.desc()).limit(_MAX_RELATED_FACTS)
    return [_parse_fact(row) for row in connection.execute(query).mappings()]


def _dump_fact(fact: PageFact) -> dict[str, Any]:
    return {
        "url_key": make_url_key(fact.url),
        "url": fact.url,
        "form_key": make_form_key(fact.url),
        "permanent_url": fact.permanent_url,
        "canonical_url": fact.canonical_url,
        "canonical_key": make_url_key(fact.canonical_url) if fact.canonical_url else "",
        "status": fact.status,
        "title": fact.title,
        "text_hash": fact.fingerprint.text_hash,
        "simhash": f"{fact.fingerprint.simhash:016x}",
        "words": fact.fingerprint.words,
        "body_hash": fact.body_hash,
        "fetched_at": fact.fetched_at,
    }


def _parse_fact(row: Any) -> PageFact:
    return PageFact(
        row["url"],
        row["permanent_url"],
        row["canonical_url"],
        row["status"],
        row["title"],
        Fingerprint(row["text_hash"], int(row["simhash"], 16), row["words"]),
        row["body_hash"],
        row["fetched_at"],
    )


def _chunk(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(keys), _CHUNK):
        yield keys[start : start + _CHUNK]
