"""url_normalize, url_key and url_hash in SQLite and DuckDB: the same results as canonry.normalize for every row."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow
import pytest

import canonry
import mixed_urls
from canonry.bulk.functions import register_duckdb, register_sqlite
from corpora import POLICIES
from mixed_urls import THREE

if TYPE_CHECKING:
    from collections.abc import Generator

pa: Any = pyarrow
URLS = mixed_urls.urls()
MINE = canonry.policy("crawl@1").with_params("b").with_name("mine")


def make_expected(policy: str = "bookmark") -> list[tuple[str | None, ...]]:
    return [mixed_urls.three(url, policy) for url in URLS]


@pytest.fixture
def sqlite() -> Generator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        register_sqlite(connection, policies=[MINE])
        connection.execute("CREATE TABLE pages (id INTEGER PRIMARY KEY, url)")
        connection.executemany("INSERT INTO pages (url) VALUES (?)", [(url,) for url in URLS])
        yield connection


@pytest.fixture
def duck() -> Generator[Any]:
    with duckdb.connect() as connection:
        register_duckdb(connection, policies=[MINE])
        pages = pa.table({"id": range(len(URLS)), "url": URLS})
        connection.register("given", pages)
        connection.execute("CREATE TABLE pages AS SELECT * FROM given")
        yield connection


@pytest.mark.parametrize("policy", POLICIES)
def test_sqlite_equals_normalize(sqlite: sqlite3.Connection, policy: str) -> None:
    rows = sqlite.execute(f"SELECT {THREE.format('url, ?')} FROM pages ORDER BY id", [policy] * 3)
    assert rows.fetchall() == make_expected(policy)


def test_sqlite_uses_the_bookmark_policy_by_default(sqlite: sqlite3.Connection) -> None:
    assert sqlite.execute(f"SELECT {THREE.format('url')} FROM pages ORDER BY id").fetchall() == make_expected()


def test_sqlite_finds_rows_by_an_index_on_the_key(sqlite: sqlite3.Connection) -> None:
    sqlite.execute("CREATE INDEX by_key ON pages (url_key(url))")
    sqlite.execute("INSERT INTO pages (id, url) VALUES (-1, 'HTTPS://Here.example:443/?utm_source=x&b=2&a=1')")
    query = "FROM pages WHERE url_key(url) = url_key('https://here.example/?a=1&b=2&fbclid=9')"
    assert sqlite.execute(f"SELECT id {query}").fetchall() == [(-1,)]
    plan = sqlite.execute(f"EXPLAIN QUERY PLAN SELECT id {query}").fetchall()
    assert "USING INDEX by_key" in plan[0][3]


def test_sqlite_accepts_the_functions_in_generated_columns(sqlite: sqlite3.Connection) -> None:
    sqlite.execute("CREATE TABLE kept (url TEXT, hash TEXT AS (url_hash(url, 'article@0')) STORED UNIQUE)")
    sqlite.execute("INSERT INTO kept VALUES ('https://a.com/x/')")
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        sqlite.execute("INSERT INTO kept VALUES ('https://A.com/x?utm_source=b')")
    assert sqlite.execute("SELECT hash FROM kept").fetchone() == (canonry.canonical_hash("https://a.com/x"),)


@pytest.mark.parametrize("url", ["5", "5.5", "x'00'", "NULL"])
def test_sqlite_gives_null_for_values_that_are_not_text(sqlite: sqlite3.Connection, url: str) -> None:
    assert sqlite.execute(f"SELECT {THREE.format(url)}").fetchone() == (None, None, None)


def test_sqlite_finds_own_policies_by_name_and_id(sqlite: sqlite3.Connection) -> None:
    url = "'https://a.com/x/?b=1&utm_source=y'"
    query = f"SELECT url_normalize({url}, 'mine'), url_normalize({url}, 'mine@1'), url_normalize({url}, NULL)"
    assert sqlite.execute(query).fetchone() == ("https://a.com/x?utm_source=y", "https://a.com/x?utm_source=y", None)
    for wrong in ("'none'", "5"):
        with pytest.raises(sqlite3.OperationalError):
            sqlite.execute(f"SELECT url_normalize('https://a.com/', {wrong})")


def test_a_changed_policy_does_not_take_the_name_of_a_shipped_one() -> None:
    changed = canonry.policy("bookmark").with_params("x")
    with closing(sqlite3.connect(":memory:")) as connection:
        register_sqlite(connection, policies=[changed])
        query = "SELECT url_normalize('https://a.com/?x=1', ?)"
        assert connection.execute(query, ["bookmark"]).fetchone() == ("https://a.com/?x=1",)
        assert connection.execute(query, [changed.id]).fetchone() == ("https://a.com/",)


@pytest.mark.parametrize("policy", POLICIES)
def test_duckdb_equals_normalize(duck: Any, policy: str) -> None:
    rows = duck.execute(f"SELECT {THREE.format('url, ' + repr(policy))} FROM pages ORDER BY id")
    assert rows.fetchall() == make_expected(policy)


def test_duckdb_uses_the_bookmark_policy_by_default(duck: Any) -> None:
    assert duck.execute(f"SELECT {THREE.format('url')} FROM pages ORDER BY id").fetchall() == make_expected()


def test_duckdb_takes_another_policy_in_each_row(duck: Any) -> None:
    policies = [*POLICIES, "mine", None]
    named = [(url, policies[at % len(policies)]) for at, url in enumerate(URLS)]
    pages = pa.table({"id": range(len(named)), "url": URLS, "policy": [policy for _, policy in named]})
    duck.register("named", pages)
    rows = duck.execute("SELECT url_key(url, policy) FROM named ORDER BY id").fetchall()
    own_policies = {"mine": MINE}
    assert rows == [
        (policy and mixed_urls.key(url, own_policies.get(policy, policy)),)  # type: ignore[arg-type]
        for url, policy in named
    ]
    for wrong, message in (("'none'", "no policy 'none'"), ("5", "must be text, not 5")):
        with pytest.raises(duckdb.InvalidInputException, match=message):
            duck.execute(f"SELECT url_normalize('https://a.com/', {wrong})")


@pytest.mark.parametrize("url", ["5", "5.5", "'x'::BLOB", "NULL", "NULL::VARCHAR", "[1]"])
def test_duckdb_gives_null_for_values_that_are_not_text(duck: Any, url: str) -> None:
    assert duck.execute(f"SELECT {THREE.format(url)}").fetchone() == (None, None, None)


def test_duckdb_groups_by_the_functions(duck: Any) -> None:
    assert (
        duck.execute("SELECT count(DISTINCT url_hash(url)) FROM pages").fetchone()
        == duck.execute("SELECT count(DISTINCT url_normalize(url)) FROM pages").fetchone()
        == (len({mixed_urls.normal(url, "bookmark") for url in URLS} - {None}),)
    )
    urls = duck.execute("SELECT url_key(u) FROM (SELECT 'https://A.com'::ENUM ('https://A.com') AS u)").fetchall()
    assert urls == [("https://a.com/",)]


def test_duckdb_can_register_again_and_from_another_connection(duck: Any) -> None:
    register_duckdb(duck)  # without MINE
    with pytest.raises(duckdb.InvalidInputException, match="no policy 'mine'"):
        duck.execute("SELECT url_key('https://a.com/', 'mine')")
    with duck.cursor() as other:
        register_duckdb(other)
        assert other.execute("SELECT url_key('https://A.com')").fetchall() == [("https://a.com/",)]
        with pytest.raises(canonry.CanonryError, match="already registered"):
            register_duckdb(other, policies=[MINE])
