"""A page that is saved under another URL, as evidence proves, is not saved again (contract E5, U4); for both databases."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import pytest

from canonry.bookmarks.bookmark import BookmarkFields, BookmarkUrl, ExpansionState, OnDuplicate, PutOutcome, PutResult
from canonry.bookmarks.bookmark_store import BookmarkStore
from canonry.bookmarks.put_page import put_page
from canonry.errors import AlreadySaved
from canonry.evidence.fact_store import refuse_pair, save_aliases, save_facts
from canonry.evidence.facts import ControlResult, PageAlias, PageFact
from canonry.evidence.fingerprint import Fingerprint
from canonry.evidence.same_page import Evidence
from canonry.store.database import Database
from canonry.store.schema import stamp

if TYPE_CHECKING:
    from collections.abc import Generator

NOW = datetime(2026, 1, 31, 10, tzinfo=UTC)
SAVED, OLD = "https://a.com/saved", "https://a.com/old"
PAGE = Fingerprint("1" * 64, 1, 100)
run = asyncio.run


@pytest.fixture
def database(database_url: str) -> Generator[Database]:
    with Database(database_url) as database:
        yield database


def make_url(url: str, *, given: str | None = None) -> BookmarkUrl:
    return BookmarkUrl(url, given, url, exact_url=False, policy="bookmark@2")


def put(
    database: Database,
    url: str | BookmarkUrl,
    *,
    owner: int = 1,
    fields: BookmarkFields | None = None,
    on_duplicate: OnDuplicate = OnDuplicate.RETURN,
) -> PutResult:
    given = make_url(url) if isinstance(url, str) else url
    work = partial(put_page, owner=owner, url=given, fields=fields or {}, now=stamp(NOW), on_duplicate=on_duplicate)
    return database.write_now(work)


def save_alias(database: Database, url: str, target: str, evidence: Evidence = Evidence.DECLARED) -> None:
    aliases = [PageAlias(url, target, evidence)]
    database.write_now(lambda connection: save_aliases(connection, aliases, stamp(NOW)))


def make_fact(url: str, permanent_url: str = "", canonical_url: str = "", text: Fingerprint = PAGE) -> PageFact:
    return PageFact(
        url, permanent_url, canonical_url, 200, "Title", text, "b" * 64, stamp(NOW), control=ControlResult.PASSED
    )


def save(database: Database, *facts: PageFact) -> None:
    database.write_now(lambda connection: save_facts(connection, facts))


# fmt: off
JOINED = [
    # why, aliases, the URL to save
    ("an alias",                    [(OLD, SAVED)],                                           make_url(OLD)),
    ("the other way round",         [(SAVED, OLD)],                                           make_url(OLD)),
    ("an alias of an alias",        [(OLD, "https://a.com/m"), ("https://a.com/m", SAVED)],   make_url(OLD)),
    ("as it was given",             [(f"{OLD}?id=1", SAVED)],                                 make_url(OLD, given=f"{OLD}?id=1")),
    ("another spelling is saved",   [(OLD, f"{SAVED}?utm_source=x")],                         make_url(OLD)),
]
APART = [
    ("no alias",                    [("https://a.com/else", SAVED)],                          make_url(OLD)),
    ("exact",                       [(OLD, SAVED)],                                           replace(make_url(OLD), exact_url=True)),
    ("a route",                     [(OLD, SAVED)],                                           make_url(f"{OLD}#/b")),
    ("a part of the page",          [(OLD, SAVED)],                                           make_url(f"{OLD}#part", given=f"{OLD}#part")),
    ("an old target of the link",   [("https://bit.ly/x", SAVED)],                            replace(make_url(OLD, given="https://bit.ly/x"), expansion=ExpansionState.EXPANDED)),
    ("a file says anything",        [("https://a.com/else", SAVED)],                          make_url(OLD, given="no URL")),
]
# fmt: on


@pytest.mark.parametrize(("why", "aliases", "url"), JOINED, ids=[each[0] for each in JOINED])
def test_a_proven_alias_opens_its_bookmark(
    database: Database, why: str, aliases: list[tuple[str, str]], url: BookmarkUrl
) -> None:
    saved = put(database, SAVED, fields={"title": "A", "tags": ("x",)}).bookmark
    for alias, target in aliases:
        save_alias(database, alias, target)
    wanted = PutResult(saved, PutOutcome.NO_CHANGE, OLD, Evidence.DECLARED)
    assert put(database, url, fields={"title": "B"}) == wanted, why
    with pytest.raises(AlreadySaved) as caught:
        put(database, url, on_duplicate=OnDuplicate.ERROR)
    assert caught.value.bookmark_id == saved.id
    updated = put(database, url, fields={"title": "B"}, on_duplicate=OnDuplicate.UPDATE)
    assert (updated.bookmark.id, updated.bookmark.title, updated.bookmark.url) == (saved.id, "B", SAVED)
    assert (updated.outcome, updated.bookmark.tags) == (PutOutcome.UPDATED, ("x",))
    assert put(database, url, owner=2).outcome is PutOutcome.CREATED
    allowed = put(database, url, on_duplicate=OnDuplicate.ALLOW)
    assert (allowed.outcome, allowed.alias) == (PutOutcome.CREATED, None)
    again = put(database, url)  # now it is saved under its own URL
    assert (again.bookmark.id, again.alias, again.evidence) == (allowed.bookmark.id, None, None)


@pytest.mark.parametrize(("why", "aliases", "url"), APART, ids=[each[0] for each in APART])
def test_another_url_is_saved(database: Database, why: str, aliases: list[tuple[str, str]], url: BookmarkUrl) -> None:
    put(database, SAVED)
    for alias, target in aliases:
        save_alias(database, alias, target)
    assert put(database, url).outcome is PutOutcome.CREATED, why


def test_a_bookmark_of_a_part_of_the_page_is_not_its_page(database: Database) -> None:
    put(database, f"{SAVED}#part")
    save_alias(database, f"{SAVED}#part", SAVED, Evidence.SAME_TEXT)  # as reading the page does
    assert put(database, SAVED).outcome is PutOutcome.CREATED


def test_a_bookmark_in_the_trash_is_not_found(database: Database) -> None:
    saved = put(database, SAVED).bookmark
    save_alias(database, OLD, SAVED)
    run(BookmarkStore(database).trash(1, saved.id, NOW))
    assert put(database, OLD).outcome is PutOutcome.CREATED


@pytest.mark.parametrize(
    ("one", "other"), [(OLD, SAVED), (OLD, "https://a.com/m"), (f"{OLD}?id=1", SAVED)], ids=["pair", "step", "given"]
)
def test_a_refused_pair_stays_apart(database: Database, one: str, other: str) -> None:
    put(database, SAVED)
    save_alias(database, OLD, "https://a.com/m")
    save_alias(database, "https://a.com/m", f"{SAVED}?utm_source=x")
    url = make_url(OLD, given=f"{OLD}?id=1")
    assert put(database, url).outcome is PutOutcome.NO_CHANGE
    database.write_now(lambda connection: refuse_pair(connection, 1, one, other, stamp(NOW)))
    assert put(database, url).outcome is PutOutcome.CREATED


def test_several_pages_that_redirect_to_one_stay_apart(database: Database) -> None:
    """As on the duplicates page: a shop may send what it no longer sells to a category."""
    put(database, SAVED)
    save(database, make_fact(OLD, SAVED), make_fact(SAVED))
    assert put(database, OLD, owner=1).evidence is Evidence.REDIRECT
    save(database, make_fact("https://a.com/older", SAVED))
    assert put(database, OLD).outcome is PutOutcome.CREATED  # nor is it the page of the other one
    assert put(database, "https://a.com/older").outcome is PutOutcome.CREATED


@pytest.mark.parametrize("saves_target", [False, True])
def test_two_pages_that_redirect_to_one_are_not_joined_by_it(database: Database, *, saves_target: bool) -> None:
    put(database, OLD)
    save(database, make_fact(OLD, SAVED), make_fact("https://a.com/older", SAVED))
    if saves_target:
        save(database, make_fact(SAVED))
    assert put(database, "https://a.com/older").outcome is PutOutcome.CREATED


def test_redirects_of_other_hosts_and_spellings_are_no_landing(database: Database) -> None:
    saved = put(database, SAVED).bookmark
    urls = ["https://short.example/1", "https://other.example/2", "http://a.com/saved", "http://www.a.com/saved/"]
    save(database, make_fact(SAVED), *(make_fact(url, SAVED) for url in urls))
    for url in urls:
        found = put(database, url)
        assert (found.bookmark.id, found.alias, found.evidence) == (saved.id, url, Evidence.REDIRECT)


def test_an_alias_that_is_no_longer_proven_does_not_count(database: Database) -> None:
    put(database, SAVED)
    save(database, make_fact(SAVED), make_fact(OLD, SAVED), make_fact("https://a.com/c", canonical_url=SAVED))
    assert put(database, "https://a.com/c").evidence is Evidence.DECLARED
    other = Fingerprint("2" * 64, 2**63 + 2**31 - 1, 900)
    save(database, make_fact(OLD, text=other), make_fact("https://a.com/c", text=other))
    assert put(database, OLD).outcome is PutOutcome.CREATED
    assert put(database, "https://a.com/c").outcome is PutOutcome.CREATED
