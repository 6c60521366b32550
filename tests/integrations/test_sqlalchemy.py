"""SQLAlchemy columns on SQLite and PostgreSQL: the stored URL equals canonry.normalize."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlalchemy import Column, Engine, Integer, MetaData, String, Table, create_engine, insert, select, update
from sqlalchemy.exc import IntegrityError, StatementError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import canonry
import mixed_urls
from canonry.integrations.sqlalchemy import CanonicalUrl, canonical_hash_of, follow_url

if TYPE_CHECKING:
    from collections.abc import Generator

MINE = canonry.policy("crawl").with_params("b").with_name("mine")
URLS = [url for url in mixed_urls.urls(1_000) if url is None or mixed_urls.normal(url, "entry")]


class Base(DeclarativeBase):
    pass


class Page(Base):
    __tablename__ = "pages"

    id: Mapped[int] = mapped_column(primary_key=True)
    url: Mapped[str | None] = mapped_column(CanonicalUrl("bookmark@1"), unique=True)
    title: Mapped[str] = mapped_column(default="")
    url_hash: Mapped[str | None] = mapped_column(String(64), default=canonical_hash_of("url", "bookmark@1"))


follow_url(Page.url_hash, Page.url, "bookmark@1")
metadata = MetaData()
LINKS = Table(
    "links",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("url", CanonicalUrl("entry")),
    Column("mine", CanonicalUrl(MINE)),
    Column("hash", String(64), default=canonical_hash_of("url", "entry")),
)


@pytest.fixture
def engine(database_url: str) -> Generator[Engine]:
    made = create_engine(database_url.replace("postgresql://", "postgresql+psycopg://"))
    Base.metadata.create_all(made)
    metadata.create_all(made)
    yield made
    made.dispose()


def test_every_stored_row_equals_normalize(engine: Engine) -> None:
    with engine.begin() as connection:
        rows = [{"id": at, "url": url, "mine": url} for at, url in enumerate(URLS)]
        connection.execute(insert(LINKS), rows)
        found = connection.execute(select(LINKS.c.url, LINKS.c.mine, LINKS.c.hash).order_by(LINKS.c.id)).all()
    assert [tuple(row) for row in found] == [
        (mixed_urls.normal(url, "entry"), url and canonry.normalize(url, MINE), mixed_urls.digest(url, "entry"))
        for url in URLS
    ]


def test_another_url_of_the_same_page_finds_the_row_and_violates_uniqueness(engine: Engine) -> None:
    with Session(engine) as session:
        session.add(Page(url="HTTPS://A.com:443/?b=1&a=2&utm_source=x"))
        session.commit()
        for query in (
            select(Page).where(Page.url == "https://a.com/?a=2&b=1"),
            select(Page).where(Page.url.in_(["https://b.com/", "https://a.com/?b=1&a=2&fbclid=1"])),
            select(Page).where(Page.url.like("%A.com/?a=2%".lower())),
            select(Page).where(Page.url.startswith("https://a.com/")),
            select(Page).filter_by(url_hash=canonry.canonical_hash("https://a.com/?a=2&b=1", "bookmark")),
        ):
            assert session.scalars(query).one().url == "https://a.com/?a=2&b=1"
        assert session.scalars(select(Page).where(Page.url != "https://A.com?a=2&b=1")).all() == []
        session.add(Page(url="https://a.com/?b=1&a=2"))
        with pytest.raises(IntegrityError):
            session.commit()


def test_the_hash_follows_the_url(engine: Engine) -> None:
    with Session(engine) as session:
        page = Page(url="https://A.com")
        session.add(page)
        session.commit()
        assert page.url_hash == canonry.canonical_hash("https://a.com/", "bookmark@1")
        page.url = "https://B.com/?utm_id=1"
        session.commit()
        assert (page.url, page.url_hash) == ("https://b.com/", canonry.canonical_hash("https://b.com/", "bookmark@1"))
        page.title = "x"
        session.commit()
        assert page.url_hash == canonry.canonical_hash("https://b.com/", "bookmark@1")
        page.url = None
        session.commit()
        assert session.execute(select(Page.url, Page.url_hash)).all() == [(None, None)]


def test_core_statements_normalize_too(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(insert(Page).values(url="https://A.com/#x"))
        connection.execute(update(Page).where(Page.url == "https://A.com/#x").values(url="https://A.com/#y"))
        assert connection.execute(select(Page.url)).scalar_one() == "https://a.com/#y"


@pytest.mark.parametrize("url", ["nope", "", "ftp://a.com/", "https://a.com:99999/"])
def test_values_that_are_not_urls_are_refused(engine: Engine, url: str) -> None:
    with engine.begin() as connection:
        for statement in (insert(LINKS).values(url=url), select(LINKS).where(LINKS.c.url == url)):
            with pytest.raises(StatementError) as caught:
                connection.execute(statement)
            assert isinstance(caught.value.orig, canonry.InvalidUrl)


def test_the_policy_is_part_of_the_repr_and_of_the_cache_key() -> None:
    assert repr(CanonicalUrl()) == "CanonicalUrl('bookmark@1')"
    with pytest.raises(canonry.PolicyError, match="none"):
        CanonicalUrl("none")
    one, same, other = CanonicalUrl("crawl"), CanonicalUrl("crawl@2"), CanonicalUrl(MINE)
    assert one._static_cache_key == same._static_cache_key != other._static_cache_key
