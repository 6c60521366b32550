"""Simulated feeds with known truth: what every document shows, and which of it is new or edited.

Every kind of feed has one mishap that real feeds have: changed guids, edited slugs, cut documents and so on. An
article is the truth behind an item. Its version counts the edits that a reader sees.
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

if TYPE_CHECKING:
    from collections.abc import Iterator

START = datetime(2026, 1, 1, 6, tzinfo=UTC)
POLL_INTERVAL = timedelta(hours=12)
WINDOW = 12  # items of a document
_GONE_DAYS = (33, 45)
_WORDS = (
    "harbour", "ferry", "lantern", "market", "garden", "window", "letter", "winter", "orchard", "bridge", "kettle",
    "station", "river", "meadow", "captain", "baker", "violin", "notebook", "attic", "chimney", "lighthouse", "pilot",
    "gull", "rope", "anchor", "tide",
)  # fmt: skip


class Kind(StrEnum):
    """The mishap of a feed."""

    PLAIN = "nothing special"
    GUID_CHANGES = "guids change once in a while"
    SLUG_EDITS = "headline and slug are edited"
    SLASHES = "trailing slashes come and go"
    ESCAPES = "escapes are written differently"
    SCHEMES = "http, https and www alternate, guids too"
    RETURNS = "items come back after weeks"
    REUSED_GUIDS = "guids are used again"
    FRAGMENTS = "sections of one page, no guids"
    ONE_FRAGMENT = "one section of a page at a time, no guids"
    TITLED_FRAGMENTS = "sections of one page with one title"
    NO_LINK = "neither guids nor links"
    TEXT_ONLY = "only texts"
    ENCLOSURE_ONLY = "only enclosures"
    LISTED_TWICE = "items are listed twice"
    CUT = "documents are cut short"
    COPY = "copies of the items of another feed"
    VOLATILE_DATES = "the date is the time of the request"
    NONCES = "random tokens in texts and links"
    JSON_WITHOUT_ID = "JSON Feed without ids"
    MEDIA_GUIDS = "guids and links inside media groups"
    SHORT_GUIDS = "dates as guids, no links, two feeds on one host"
    ONE_LINK = "every item links to the home page, no guids"
    SAME_TITLES = "titles repeat"
    JOBS = "titles and dates repeat, links and guids do not"
    LINK_BLOG = "links to the items of another feed, own titles"
    GUIDS_APPEAR = "guids come and go"


_COMBINED = (Kind.LISTED_TWICE, Kind.CUT, Kind.RETURNS)  # mishaps that a feed may have beside its own


@dataclass(frozen=True, slots=True)
class Article:
    """The truth behind an item."""

    number: int
    title: str
    slug: str
    published: datetime
    text: str
    version: int = 0


@dataclass(frozen=True, slots=True)
class ShownItem:
    """An article as a document shows it; fields are empty if the feed has none."""

    article: Article
    guid: str = ""
    link: str = ""
    title: str = ""
    published: str = ""
    text: str = ""
    enclosure: str = ""


class Answer(StrEnum):
    """What the server of a feed answers."""

    DOCUMENT = "document"
    NOT_MODIFIED = "not modified"
    OUTAGE = "outage"


@dataclass(frozen=True, slots=True)
class PollAnswer:
    """The answer to one poll: the document, and the articles that are whole in it, each once."""

    answer: Answer
    body: bytes = b""
    shown: tuple[ShownItem, ...] = ()


@dataclass(slots=True)
class SimulatedFeed:
    """One feed; `source` is the feed that it copies or links to."""

    number: int
    kind: Kind
    chance: random.Random
    source: SimulatedFeed | None = None
    mishaps: frozenset[Kind] = frozenset()  # beside that of its kind
    articles: list[Article] = field(default_factory=list[Article])
    answer: PollAnswer = field(default_factory=lambda: PollAnswer(Answer.OUTAGE))
    _last_body: bytes = b""
    _gone: dict[int, int] = field(default_factory=dict[int, int])  # article → the poll in which it comes back
    _epoch: int = 0  # changes what changes once in a while

    @property
    def host(self) -> str:
        # All feeds with short guids share a host.
        return "dates.example.com" if self.kind is Kind.SHORT_GUIDS else f"feed{self.number}.example.com"

    @property
    def url(self) -> str:
        return f"https://{self.host}/{self.number}/feed"

    def poll(self, poll: int, numbers: Iterator[int]) -> None:
        """Let half a day pass, and set `answer`."""
        now = START + poll * POLL_INTERVAL
        self._write(poll, now, numbers)
        self._edit()
        if self.chance.random() < 0.02:
            self._epoch += 1
        if self.chance.random() < 0.03:
            self.answer = PollAnswer(Answer.OUTAGE)
            return
        shown = [self._show(article, now) for article in self._select(poll)]
        body = self._render(self._repeat(shown))
        if body == self._last_body:
            self.answer = PollAnswer(Answer.NOT_MODIFIED)
            return
        self._last_body = body
        if self._has(Kind.CUT) and self.kind is not Kind.JSON_WITHOUT_ID and shown and self.chance.random() < 0.2:
            body, shown = self._cut(body, shown)
            self._last_body = b""
        self.answer = PollAnswer(Answer.DOCUMENT, body, tuple(shown))

    def _has(self, mishap: Kind) -> bool:
        return self.kind is mishap or mishap in self.mishaps

    def _write(self, poll: int, now: datetime, numbers: Iterator[int]) -> None:
        if self.kind is Kind.COPY:
            assert self.source is not None
            known = {article.number for article in self.articles}
            self.articles += [article for article in self.source.articles if article.number not in known]
            return
        count = 6 if poll == 0 else int(self.chance.random() < 0.35)
        for _ in range(count):
            number = next(numbers)
            words = [self.chance.choice(_WORDS) for _ in range(30)]
            title = f"{words[0].capitalize()} {words[1]} {number}"
            published = now - timedelta(minutes=self.chance.randrange(1, 600))
            if self.kind in {Kind.SAME_TITLES, Kind.TITLED_FRAGMENTS}:
                title = "Open thread"
            elif self.kind is Kind.JOBS:
                title, published = "Senior ferry pilot", now.replace(hour=0)
            self.articles.append(
                Article(number, title, f"{words[0]}-{number}", published, f"{' '.join(words)} {number}")
            )

    def _edit(self) -> None:
        """Edit an article now and then, in a way that a reader sees."""
        if self.kind in {Kind.TEXT_ONLY, Kind.ENCLOSURE_ONLY, Kind.COPY} or not self.articles:
            return  # nothing would be left to recognise them by; copies show what their source shows
        if self.chance.random() > 0.15:
            return
        place = self.chance.randrange(max(0, len(self.articles) - WINDOW), len(self.articles))
        article = self.articles[place]
        version = article.version + 1
        if self.kind is Kind.SLUG_EDITS:
            slug = f"{self.chance.choice(_WORDS)}-{article.number}-{version}"
            article = replace(article, title=f"{article.title}, revised {version}", slug=slug)
        elif self.kind is Kind.FRAGMENTS and version % 2:
            article = replace(article, title=f"{article.title}, revised {version}")
        self.articles[place] = replace(article, text=f"{article.text} Correction {version}.", version=version)

    def _select(self, poll: int) -> list[Article]:
        """Return the articles of the document, the newest first."""
        if self.kind is Kind.ONE_FRAGMENT:
            return self.articles[-1:]
        if not self._has(Kind.RETURNS):
            return self.articles[: -WINDOW - 1 : -1]
        for article in self.articles[-WINDOW:]:
            if article.number not in self._gone and self.chance.random() < 0.01:
                self._gone[article.number] = poll + 2 * self.chance.randint(*_GONE_DAYS)
        back = {number for number, until in self._gone.items() if until <= poll <= until + 4}
        return [
            article
            for article in reversed(self.articles)
            if article.number in back
            or (article.number not in self._gone and article in self.articles[-WINDOW:])
            or (article in self.articles[-WINDOW:] and self._gone.get(article.number, 0) <= poll)
        ]

    def _show(self, article: Article, now: datetime) -> ShownItem:
        host, number, kind = self.host, article.number, self.kind
        link, guid = f"https://{host}/{article.slug}", f"tag:{host},2026:{number}"
        item = ShownItem(article, guid, link, article.title, _format_date(article.published), article.text)
        match kind:
            case Kind.GUID_CHANGES:
                return replace(item, guid=f"{guid}:{self._epoch}")
            case Kind.SLASHES:
                return replace(item, guid="", link=f"{link}{'/' * (self._epoch % 2)}")
            case Kind.ESCAPES:
                return replace(item, guid="", link=f"{link}/{('caf%c3%a9%7e', 'caf%C3%A9~')[self._epoch % 2]}")
            case Kind.SCHEMES:
                start = ("http://", "https://www.", "https://")[self._epoch % 3]
                return replace(item, link=link.replace("https://", start), guid=link.replace("https://", start))
            case Kind.REUSED_GUIDS:
                return replace(item, guid=f"item-number-{number % 20}")
            case Kind.FRAGMENTS | Kind.ONE_FRAGMENT:
                return replace(item, guid="", link=f"https://{host}/changes#v{number}")
            case Kind.TITLED_FRAGMENTS:
                return replace(item, link=f"https://{host}/changes#v{number}")
            case Kind.NO_LINK:
                return replace(item, guid="", link="")
            case Kind.TEXT_ONLY:
                return ShownItem(article, text=article.text)
            case Kind.ENCLOSURE_ONLY:
                return ShownItem(article, enclosure=f"https://{host}/{number}.mp3")
            case Kind.COPY:
                assert self.source is not None
                link = f"http://www.{self.source.host}/{article.slug}/"
                return replace(item, link=link, guid=str(number))
            case Kind.VOLATILE_DATES:
                return replace(item, published=_format_date(now))
            case Kind.NONCES:
                token = f"{self.chance.getrandbits(64):016x}"
                text = f'{article.text} <img src="https://ads.example.com/{token}.gif?cb={token}"> <!-- {token} -->'
                return replace(item, link=f"{link}?sid={token}", text=text)
            case Kind.JSON_WITHOUT_ID:
                return replace(item, guid="")
            case Kind.SHORT_GUIDS:
                day = START + timedelta(days=self.articles.index(article))
                return replace(item, guid=f"{day:%Y-%m-%d}", link="")
            case Kind.ONE_LINK:
                return replace(item, guid="", link=f"https://{host}/")
            case Kind.LINK_BLOG:
                assert self.source is not None
                target = self.source.articles[number % len(self.source.articles)]
                return replace(item, link=f"https://{self.source.host}/{target.slug}", title=f"Look: {article.title}")
            case Kind.GUIDS_APPEAR:
                return replace(item, guid=guid if self._epoch % 2 else "")
            case _:
                return item

    def _repeat(self, shown: list[ShownItem]) -> list[ShownItem]:
        if not self._has(Kind.LISTED_TWICE) or not shown or self.chance.random() < 0.5:
            return shown
        again = self.chance.choice(shown)
        if again.guid and again.title:
            again = replace(again, text=f"{again.text[:60]}…", published="")
        return [*shown, again]

    def _cut(self, body: bytes, shown: list[ShownItem]) -> tuple[bytes, list[ShownItem]]:
        """Return a part of the document that ends inside an item, and the items that are whole in it."""
        place = self.chance.randrange(len(shown))
        start = [match.start() for match in re.finditer(rb"<(?:item|entry)>", body)][place]
        end = body.index(b"</item>" if b"</item>" in body else b"</entry>", start)
        return body[: self.chance.randrange(start + 1, end)], shown[:place]

    def _render(self, items: list[ShownItem]) -> bytes:
        if self.kind is Kind.JSON_WITHOUT_ID:
            return _render_json(items)
        if self.kind in {Kind.MEDIA_GUIDS, Kind.SHORT_GUIDS, Kind.ENCLOSURE_ONLY, Kind.TEXT_ONLY} or self.number % 3:
            return _render_rss(items, has_media=self.kind is Kind.MEDIA_GUIDS)
        return _render_atom(items) if self.kind is not Kind.NO_LINK else _render_rss(items, has_media=False)


def make_feeds(count: int, seed: int = 1) -> list[SimulatedFeed]:
    """Return feeds of all kinds in turn; copies and link blogs follow a plain feed of their own."""
    feeds: list[SimulatedFeed] = []
    kinds = list(Kind)
    for number in range(count):
        kind = kinds[number % len(kinds)]
        chance = random.Random(seed * 1_000_003 + number)
        source = next((feed for feed in reversed(feeds) if feed.kind is Kind.PLAIN), None)
        # Of every kind, the first feed has only its own mishap, the others have more.
        others = [mishap for mishap in _COMBINED if number >= len(kinds) and chance.random() < 0.5]
        if kind not in {Kind.COPY, Kind.LINK_BLOG}:
            source = None
        feeds.append(SimulatedFeed(number, kind, chance, source, frozenset(others)))
    return feeds


def _format_date(when: datetime) -> str:
    return when.strftime("%a, %d %b %Y %H:%M:%S GMT")


def _render_rss(items: list[ShownItem], *, has_media: bool) -> bytes:
    listed: list[str] = []
    for item in items:
        parts = [f"<title>{escape(item.title)}</title>"] if item.title else []
        parts += [f"<link>{escape(item.link)}</link>"] if item.link else []
        parts += [f"<guid>{escape(item.guid)}</guid>"] if item.guid else []
        parts += [f"<description>{escape(item.text)}</description>"] if item.text else []
        parts += (
            [f'<enclosure url={quoteattr(item.enclosure)} type="audio/mpeg" length="1"/>'] if item.enclosure else []
        )
        if has_media:
            parts.append("<media:group><guid>thumbnail</guid><link>https://media.example.com/</link></media:group>")
        parts += [f"<pubDate>{item.published}</pubDate>"] if item.published else []
        listed.append(f"<item>{''.join(parts)}</item>")
    head = '<rss version="2.0" xmlns:media="http://search.yahoo.com/mrss/"><channel><title>News</title>'
    return f"{head}{''.join(listed)}</channel></rss>".encode()


def _render_atom(items: list[ShownItem]) -> bytes:
    listed: list[str] = []
    for item in items:
        parts = [f"<title>{escape(item.title)}</title>"]
        parts += [f"<link href={quoteattr(item.link)}/>"] if item.link else []
        parts += [f"<id>{escape(item.guid)}</id>"] if item.guid else []
        parts += [f'<content type="html">{escape(item.text)}</content>']
        parts += [f"<published>{item.published}</published><updated>{item.published}</updated>"]
        listed.append(f"<entry>{''.join(parts)}</entry>")
    return f'<feed xmlns="http://www.w3.org/2005/Atom"><title>News</title>{"".join(listed)}</feed>'.encode()


def _render_json(items: list[ShownItem]) -> bytes:
    listed = [
        {"url": item.link, "title": item.title, "content_text": item.text, "date_published": item.published}
        for item in items
    ]
    feed = {"version": "https://jsonfeed.org/version/1.1", "title": "News", "items": listed}
    return json.dumps(feed).encode()
