"""Random feeds with edits, moves, outages and months of time: the store is compared with a model (contract I1–I5).

The model keeps a list of entries and searches all of it: it knows which entries an item may be, not how to find
them. Where the contract leaves a choice, the model accepts every allowed entry and goes on with the store's choice.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from html import escape
from typing import TYPE_CHECKING, TypeAlias

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from sqlalchemy import Connection, select

import canonry
from canonry.errors import FailureKind
from canonry.feeds.ingest import ingest
from canonry.feeds.ingest_report import FeedOutcome, FeedResult, ItemRecord
from canonry.store import schema
from canonry.store.database import Database

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

TTL = timedelta(days=30)
TOMBSTONES = timedelta(days=365)
NEARLY_ALL = 0.8
VOLATILE = 2  # documents in a row in which nearly all known items change
START = datetime(2026, 1, 1, tzinfo=UTC)
ADOPT_AFTER = 3
# The rules of I3 by which a post may be an entry, the strongest first.
RANKS = GUID, PLACE, IDENTICAL, RENUMBERED, LEGACY, ELSEWHERE, HASH, FIRST_HASH = range(8)

TextPair: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Post:
    """An item as its publisher writes it."""

    guid: str
    link: str
    title: str
    published: str
    text: str

    @property
    def address(self) -> str:
        """The canonical URL of the links of this test: without tracking, and empty if it is no URL."""
        return self.link.removesuffix("?utm_source=rss") if self.link.startswith("http") else ""

    @property
    def place(self) -> str:
        return self.address.partition(":")[2].replace("//www.", "//", 1)

    @property
    def fingerprint(self) -> TextPair:
        """Guid and content hash, by which its sighting in the store is found."""
        return self.guid, canonry.content_hash(self)

    @property
    def fallback_name(self) -> TextPair:
        """What its fallback hash covers."""
        return self.title, f"{self.published} {self.link} {self.text}"

    @property
    def first_fallback_name(self) -> TextPair:
        """What the first version of its fallback hash covers."""
        return self.title, f"{self.published} {self.link}"

    @property
    def twin_name(self) -> object:
        """What is equal in two copies of one item in a document."""
        if self.title and self.guid:
            return self.guid, self.place, self.title
        if self.title and self.published and self.place:
            return self.place, self.title, self.published, ""
        return self.fingerprint


@dataclass(slots=True)
class ShownPost:
    """A post as a feed showed it last, and the number of that document."""

    post: Post
    seen: datetime
    document: int
    has_stable_hash: bool = False


NEVER = ShownPost(Post("", "", "", "", ""), START, 0)


@dataclass(slots=True)
class ModelEntry:
    """An entry of the model: its own post, the post that each feed showed last, and its keys."""

    post: Post
    by_feed: dict[str, ShownPost] = field(default_factory=dict[str, ShownPost])
    guids: set[TextPair] = field(default_factory=set[TextPair])  # feed and guid
    legacy_guids: set[str] = field(default_factory=set[str])
    hashes: set[tuple[str, TextPair]] = field(default_factory=set[tuple[str, TextPair]])
    first_hashes: set[tuple[str, TextPair]] = field(default_factory=set[tuple[str, TextPair]])

    def get_post(self, feed: str) -> Post:
        return self.by_feed[feed].post if feed in self.by_feed else self.post


@dataclass(frozen=True, slots=True)
class StoredSighting:
    """A row of the table of sightings."""

    entry: int
    fingerprint: TextPair
    document: int
    seen: str


@dataclass(frozen=True, slots=True)
class StoreTables:
    """The tables of the store; feeds are identified by the URL they were first stored under."""

    entries: set[int]
    urls: dict[str, str]
    sightings: dict[str, list[StoredSighting]]
    identities: dict[TextPair, int]
    ambiguous: set[tuple[str, str, str]]

    @classmethod
    def read(cls, connection: Connection) -> StoreTables:
        feeds = {row.id: row for row in connection.execute(select(schema.feeds))}
        sightings: dict[str, list[StoredSighting]] = {feed.key_url: [] for feed in feeds.values()}
        for row in connection.execute(select(schema.sightings)):
            fingerprint = row.guid, row.content_hash
            shown = StoredSighting(row.entry_id, fingerprint, row.document, row.last_seen_at)
            sightings[feeds[row.feed_id].key_url].append(shown)
        return cls(
            set(connection.execute(select(schema.entries.c.id)).scalars()),
            {feed.key_url: feed.url for feed in feeds.values()},
            sightings,
            {(row[0], row[1]): row[2] for row in connection.execute(select(schema.entry_identities))},
            {(feeds[row[0]].key_url, row[1], row[2]) for row in connection.execute(select(schema.ambiguous_keys))},
        )


class Model:
    """What the store must contain."""

    def __init__(self) -> None:
        self.entries: dict[int, ModelEntry] = {}
        self.ambiguous: set[tuple[str, str, str]] = set()
        self.documents: Counter[str] = Counter()
        self.items: list[Post] = []  # of the document that is merged, without copies
        self.changed_documents: Counter[str] = Counter()
        self.buried: dict[tuple[object, ...], tuple[str, datetime]] = {}  # content hash and time of deletion

    def merge(
        self, feed: str, posts: Sequence[Post], sightings: Sequence[StoredSighting], now: datetime
    ) -> Counter[str]:
        """Check how the store merged a document, take over its choices, and return the number of items by outcome."""
        self.documents[feed] += 1
        posts = self._drop_twins(feed, posts)
        latest = [row for row in sightings if row.document == self.documents[feed]]
        assert sorted(row.fingerprint for row in latest) == sorted(post.fingerprint for post in posts), (
            "each item is there, once"
        )
        chosen = {row.fingerprint: row.entry for row in latest}
        levels = {post.fingerprint: self._rank_entries(feed, post, posts) for post in posts}
        for post in posts:
            _check_choice(post.fingerprint, chosen, levels, set(self.entries))
        noise = self._find_noise(feed, posts, chosen)
        outcomes = Counter(
            self._show(feed, post, chosen[post.fingerprint], now, posts, is_noise=post.fingerprint in noise)
            for post in posts
        )
        for post in posts:
            self._register_keys(feed, post, self.entries[chosen[post.fingerprint]], posts)
        self._delete_expired(feed, now)
        return outcomes

    def touch(self, feed: str, now: datetime) -> None:
        """Mark the posts of the last document as seen, after a 304."""
        for entry in self.entries.values():
            shown = entry.by_feed.get(feed)
            if shown is not None and shown.document == self.documents[feed]:
                shown.seen = now

    def _drop_twins(self, feed: str, posts: Sequence[Post]) -> list[Post]:
        """Return each item once: without copies, and without items that have the same fallback hash and no other key."""
        once: dict[object, Post] = {}
        for post in posts:
            once.setdefault(post.twin_name, post)
        self.items = list(once.values())
        for kind, values in (
            ("guid", [post.guid for post in once.values()]),
            ("canonical_url", [post.place for post in once.values()]),
        ):
            self.ambiguous |= {(feed, kind, value) for value, times in Counter(values).items() if value and times > 1}
        for post in once.values():
            if self._is_identifying(feed, "guid", post.guid) and any(
                (feed, post.guid) in entry.guids and self._is_guid_reused(feed, post, posts, entry)
                for entry in self.entries.values()
            ):
                self.ambiguous.add((feed, "guid", post.guid))
        named: dict[object, Post] = {}
        for post in once.values():
            named.setdefault(post if self._has_strong_key(feed, post) else post.fallback_name, post)
        return list(named.values())

    def _rank_entries(self, feed: str, post: Post, posts: Sequence[Post]) -> dict[int, int]:
        """Return the entries that this post may be, with the rank of the rule of I3 that allows it."""
        return {
            number: level
            for number, entry in self.entries.items()
            if (level := self._rank(feed, post, posts, entry)) is not None
        }

    def _rank(self, feed: str, post: Post, posts: Sequence[Post], entry: ModelEntry) -> int | None:
        known, is_in_feed = entry.get_post(feed), feed in entry.by_feed
        has_guid = self._is_identifying(feed, "guid", post.guid)
        has_place = self._is_identifying(feed, "canonical_url", post.place)
        if has_guid and (feed, post.guid) in entry.guids:
            return GUID
        if has_place and is_in_feed and known.place == post.place:
            # An ambiguous guid is no evidence that the old item is still in the document.
            is_old_guid_present = any(other.guid == known.guid for other in posts) and self._is_identifying(
                feed, "guid", known.guid
            )
            is_alike = _is_same_text(post.title, known.title) or _is_same_text(post.published, known.published)
            has_one_guid = not post.guid or not known.guid or post.guid == known.guid
            if has_one_guid or (is_alike and not is_old_guid_present):
                return PLACE
        is_guid_taken = known.guid != post.guid and any(other.guid == known.guid for other in self.items)
        has_lost_guid = is_guid_taken and (feed, "guid", known.guid) in self.ambiguous
        if has_lost_guid and known.fingerprint[1] == post.fingerprint[1] and self._has_guid_of_document(feed, entry):
            return RENUMBERED
        is_legacy = has_guid and is_in_feed and post.guid in entry.legacy_guids
        if is_legacy and not self._is_guid_reused(feed, post, posts, entry):
            return LEGACY
        # Short guids are no evidence in another feed.
        has_same_guid = _is_same_text(post.guid, entry.post.guid) and len(post.guid) >= 8
        is_alike = has_same_guid or _is_same_text(post.title, entry.post.title)
        if has_place and not is_in_feed and post.place == entry.post.place and is_alike:
            return ELSEWHERE
        if has_guid or has_place:
            return None
        is_shown_alike = is_in_feed and (known.guid, known.place) == (post.guid, post.place)
        has_key = bool(post.place) or (feed, post.guid) in entry.guids
        is_dated_alike = (known.title, known.published) == (post.title, post.published)
        is_unchanged = known.fingerprint[1] == post.fingerprint[1]
        if (
            is_shown_alike
            and has_key
            and (is_unchanged or (is_dated_alike and self._has_first_hash(feed, post, posts)))
        ):
            return IDENTICAL
        if (feed, post.fallback_name) in entry.hashes:
            return HASH
        is_same = self._has_first_hash(feed, post, posts) or known.fingerprint[1] == post.fingerprint[1]
        return FIRST_HASH if (feed, post.first_fallback_name) in entry.first_hashes and is_same else None

    def _is_guid_reused(self, feed: str, post: Post, posts: Sequence[Post], entry: ModelEntry) -> bool:
        known = entry.get_post(feed)
        if post.fingerprint[1] == known.fingerprint[1]:
            return False
        if not post.place or not known.place or post.place == known.place or post.title == known.title:
            return feed in entry.by_feed and self._is_guid_renumbered(feed, post, entry)
        if not _is_same_text(post.published, known.published):
            return True
        # Edited, unless both are there.
        before = [entry.by_feed[feed].post for entry in self.entries.values() if feed in entry.by_feed]
        return any((each.place, each.title) == (known.place, known.title) for each in posts) or any(
            (each.place, each.title) == (post.place, post.title) for each in before
        )

    def _is_guid_renumbered(self, feed: str, post: Post, entry: ModelEntry) -> bool:
        """Whether the entry, unchanged, has another guid now, or the item had another one."""
        known = entry.get_post(feed)
        if (post.title, post.published) == (known.title, known.published):
            return False
        others = [each for each in self.items if each.guid != post.guid]
        return any(each.fingerprint[1] == known.fingerprint[1] for each in others) or any(
            self._has_guid_of_document(feed, other) and other.get_post(feed).fingerprint[1] == post.fingerprint[1]
            for other in self.entries.values()
            if other is not entry
        )

    def _has_guid_of_document(self, feed: str, entry: ModelEntry) -> bool:
        return feed in entry.by_feed and any((feed, post.guid) in entry.guids for post in self.items)

    def _has_first_hash(self, feed: str, post: Post, posts: Sequence[Post]) -> bool:
        """Whether title and date are there, and no other item of the document without a guid has them and the link."""
        names = [each.first_fallback_name for each in posts if not self._is_identifying(feed, "guid", each.guid)]
        return bool(post.title and post.published) and names.count(post.first_fallback_name) == 1

    def _find_noise(self, feed: str, posts: Sequence[Post], chosen: Mapping[TextPair, int]) -> set[TextPair]:
        """Count the documents that change nearly everything; return the updates that a reader cannot see (I11)."""
        known = [
            (post, self.entries[number].by_feed[feed])
            for post in posts
            if (number := chosen[post.fingerprint]) in self.entries and feed in self.entries[number].by_feed
        ]
        if not known:
            return set()
        enough, before = NEARLY_ALL * len(known), self.changed_documents[feed]
        has_changed = sum(post.fingerprint[1] != shown.post.fingerprint[1] for post, shown in known) >= enough
        self.changed_documents[feed] = min(before + 1, 4) if has_changed else max(before - 1, 0)
        if before < VOLATILE:
            return set()
        have_dates_changed = sum(post.published != shown.post.published for post, shown in known) >= enough
        return {
            post.fingerprint
            for post, shown in known
            if shown.has_stable_hash
            and (post.title, post.place, post.text) == (shown.post.title, shown.post.place, shown.post.text)
            and (have_dates_changed or post.published == shown.post.published)
        }

    def _show(self, feed: str, post: Post, number: int, now: datetime, posts: Sequence[Post], *, is_noise: bool) -> str:
        outcome = "duplicate"
        if number not in self.entries:
            self.entries[number] = ModelEntry(post)
            outcome = self._recall(feed, post, posts, now)
        entry = self.entries[number]
        shown = entry.by_feed.get(feed)
        has_changed = shown is not None and shown.post.fingerprint[1] != post.fingerprint[1]
        if has_changed and not is_noise:
            entry.post = post
            outcome = "updated"
        has_stable_hash = self.changed_documents[feed] > 0
        if shown is not None and shown.post.fingerprint == post.fingerprint:
            has_stable_hash = shown.has_stable_hash
        entry.by_feed[feed] = ShownPost(post, now, self.documents[feed], has_stable_hash)
        return outcome

    def _recall(self, feed: str, post: Post, posts: Sequence[Post], now: datetime) -> str:
        """Return what an item is that matches no entry: it may come back after it was deleted (I5)."""
        hashes: set[tuple[str, TextPair]] = set()
        if not self._has_strong_key(feed, post):
            hashes = {("second", post.fallback_name)}
            if self._has_first_hash(feed, post, posts):
                hashes.add(("first", post.first_fallback_name))
        found = [self.buried.get(name) for name in self._name_tombstones(feed, post, hashes)]
        contents = {each[0] for each in found if each is not None and now - each[1] < TOMBSTONES}
        if not contents:
            return "new"
        return "duplicate" if post.fingerprint[1] in contents else "updated"

    def _name_tombstones(
        self, feed: str, post: Post, hashes: Collection[tuple[str, TextPair]]
    ) -> set[tuple[object, ...]]:
        guid = post.guid if self._is_identifying(feed, "guid", post.guid) else ""
        place = post.place if self._is_identifying(feed, "canonical_url", post.place) else ""
        names: set[tuple[object, ...]] = {(feed, "hash", *each) for each in hashes}
        if guid and place:
            names.add((feed, "guid and place", guid, place))
        if guid and post.title:
            names.add((feed, "guid and title", guid, post.title))
        if guid and (post.published or not (place or post.title)):
            names.add((feed, "guid and date", guid, post.published))
        if place and (post.title or post.published):
            names.add((feed, "place, title and date", place, post.title, post.published))
        if place and not guid:
            names |= {(feed, "place and title", place, post.title)} if post.title else set()
            names |= {(feed, "place and date", place, post.published)} if post.published or not post.title else set()
        return names

    def _register_keys(self, feed: str, post: Post, entry: ModelEntry, posts: Sequence[Post]) -> None:
        others = self.entries.values()
        if self._is_identifying(feed, "guid", post.guid):
            owner = next((other for other in others if (feed, post.guid) in other.guids), entry)
            # If the document shows the owner of the guid as another item, the guid moves to this one.
            if owner is entry or owner.by_feed.get(feed, NEVER).document == self.documents[feed]:
                owner.guids.discard((feed, post.guid))
                entry.guids.add((feed, post.guid))
            if not any(post.guid in other.legacy_guids for other in others):
                entry.legacy_guids.add(post.guid)
        elif not self._has_strong_key(feed, post):
            owner = next((other for other in others if (feed, post.fallback_name) in other.hashes), entry)
            if owner is entry or owner.by_feed.get(feed, NEVER).document == self.documents[feed]:
                owner.hashes.discard((feed, post.fallback_name))
                entry.hashes.add((feed, post.fallback_name))
            if self._has_first_hash(feed, post, posts):
                name = feed, post.first_fallback_name
                owner = next((other for other in others if name in other.first_hashes), entry)
                if owner is entry or owner.by_feed.get(feed, NEVER).document == self.documents[feed]:
                    owner.first_hashes.discard(name)
                    entry.first_hashes.add(name)

    def _delete_expired(self, feed: str, now: datetime) -> None:
        """Delete what the document lacks and was last seen thirty days before it (I5)."""
        for number, entry in list(self.entries.items()):
            shown = entry.by_feed.get(feed)
            if shown is not None and shown.document < self.documents[feed] and now - shown.seen >= TTL:
                hashes = {("second", name) for of, name in entry.hashes if of == feed}
                hashes |= {("first", name) for of, name in entry.first_hashes if of == feed}
                for name in self._name_tombstones(feed, shown.post, hashes):
                    self.buried[name] = (shown.post.fingerprint[1], now)
                del entry.by_feed[feed]
                if not entry.by_feed:
                    del self.entries[number]

    def _has_strong_key(self, feed: str, post: Post) -> bool:
        return self._is_identifying(feed, "guid", post.guid) or self._is_identifying(feed, "canonical_url", post.place)

    def _is_identifying(self, feed: str, kind: str, value: str) -> bool:
        return bool(value) and (feed, kind, value) not in self.ambiguous


def _check_choice(
    fingerprint: TextPair,
    chosen: Mapping[TextPair, int],
    levels: Mapping[TextPair, Mapping[int, int]],
    known: Collection[int],
) -> None:
    """Assert that the post got one of its strongest entries that no other post may claim as strongly, or a new one."""
    mine = chosen[fingerprint]
    for level in RANKS:
        possible = {entry for entry, strength in levels[fingerprint].items() if strength == level}
        if mine in possible:
            return
        taken = {
            entry
            for other, entry in chosen.items()
            if other != fingerprint and levels[other].get(entry, FIRST_HASH + 1) <= level
        }
        assert not possible - taken, f"{fingerprint} is {possible - taken}, not {mine}"
    assert mine not in known, f"{fingerprint} is none of the known entries, not {mine}"


def _is_same_text(one: str, other: str) -> bool:
    return bool(one) and one == other


@dataclass(slots=True)
class Publisher:
    """A feed on the web: its posts, its URLs, and how it fails now."""

    home: str
    posts: list[Post] = field(default_factory=list[Post])
    urls: list[str] = field(default_factory=list[str])  # each redirects to the next, the last one serves the feed
    past: list[Post] = field(default_factory=list[Post])
    has_etag: bool = True
    trouble: str = ""

    def document(self) -> str:
        items = "".join(
            "<item>"
            + (f'<guid isPermaLink="false">{post.guid}</guid>' if post.guid else "")
            + (f"<link>{escape(post.link)}</link>" if post.link else "")
            + (f"<title>{post.title}</title>" if post.title else "")
            + (f"<pubDate>{post.published}</pubDate>" if post.published else "")
            + f"<description>{post.text}</description></item>"
            for post in self.posts
        )
        return f'<rss version="2.0"><channel><title>A feed</title>{items}</channel></rss>'

    def answer(self, url: str, validators: canonry.Validators) -> canonry.Response:
        stops = self.urls[self.urls.index(url) :]
        hops = tuple(canonry.Hop(301, one, other) for one, other in itertools.pairwise(stops))
        body = self.document().encode()
        match self.trouble:
            case "timeout":
                raise canonry.FetchFailed(url, "no complete response", kind=FailureKind.TIMEOUT)
            case "error":
                return canonry.Response(500, stops[-1], hops=hops)
            case "page":
                return canonry.Response(200, stops[-1], body=b"<!doctype html><title>Back soon</title>", hops=hops)
            case "garbage":
                return canonry.Response(200, stops[-1], body=b"\x00\xff<rss", hops=hops)
            case _ if not self.has_etag:
                return canonry.Response(200, stops[-1], body=body, hops=hops)
        etag = f'"{canonry.content_hash({"text": body.decode()})[:12]}"'
        is_same = validators.etag == etag
        return canonry.Response(304 if is_same else 200, stops[-1], {"etag": etag}, b"" if is_same else body, hops)


# Few values of each, so that they collide.
FEEDS = st.integers(0, 2)
PLACES = st.integers(0, 5)
GUIDS = st.sampled_from(["", "", "g1", "g2", "g3", "g4", "http://blog0.example.com/1"])
TITLES = st.sampled_from(["", "One", "Two", "Three", "Four"])
DATES = st.sampled_from(["", "", "Mon, 05 Jan 2026 10:00:00 GMT", "Tue, 06 Jan 2026 10:00:00 GMT"])
TEXTS = st.sampled_from(["a", "b", "c"])
LINKS = st.one_of(
    st.just(""),
    st.builds(
        "{}://{}{}/{}{}".format,
        st.sampled_from(["http", "https"]),
        st.sampled_from(["", "", "www."]),
        st.sampled_from(["blog0.example.com", "blog1.example.com"]),
        st.integers(1, 4),
        st.sampled_from(["", "", "?utm_source=rss"]),
    ),
    st.just("mailto:editor@example.com"),
)
POSTS = st.builds(Post, GUIDS, LINKS, TITLES, DATES, TEXTS)


class FeedMachine(RuleBasedStateMachine):
    """Three publishers and one store."""

    def __init__(self) -> None:
        super().__init__()
        self.database = Database("sqlite://")
        self.model = Model()
        self.now = START
        self.publishers = [Publisher(home := f"http://blog{n}.example.com/feed", urls=[home]) for n in range(3)]
        self.fetched_from = {publisher.home: publisher.home for publisher in self.publishers}
        self.moves: Counter[TextPair] = Counter()  # sightings in a row, by home and target
        self.moved_elsewhere: set[str] = set()  # feeds whose redirect led to other items: it is never adopted
        self.answers: dict[str, canonry.Response | None] = {}

    def teardown(self) -> None:
        self.database.close()

    @initialize(documents=st.lists(st.lists(POSTS, max_size=4), min_size=3, max_size=3))
    def begin(self, documents: list[list[Post]]) -> None:
        for publisher, posts in zip(self.publishers, documents, strict=True):
            publisher.posts = posts

    @rule(feed=FEEDS, post=POSTS)
    def publish(self, feed: int, post: Post) -> None:
        self.publishers[feed].posts[:0] = [post]

    @rule(feed=FEEDS, place=PLACES, title=TITLES)
    def edit_title(self, feed: int, place: int, title: str) -> None:
        self._edit(feed, place, title=title)

    @rule(feed=FEEDS, place=PLACES, text=TEXTS)
    def edit_text(self, feed: int, place: int, text: str) -> None:
        self._edit(feed, place, text=text)

    @rule(feed=FEEDS, place=PLACES, link=LINKS)
    def edit_link(self, feed: int, place: int, link: str) -> None:
        self._edit(feed, place, link=link)

    @rule(feed=FEEDS, place=PLACES, guid=GUIDS)
    def edit_guid(self, feed: int, place: int, guid: str) -> None:
        self._edit(feed, place, guid=guid)

    @rule(feed=FEEDS, place=PLACES, post=POSTS)
    def reuse_guid(self, feed: int, place: int, post: Post) -> None:
        if old := self._get_post(feed, place):
            self.publishers[feed].posts[self.publishers[feed].posts.index(old)] = replace(post, guid=old.guid)

    @rule(feed=FEEDS, place=PLACES, post=POSTS)
    def share_guid(self, feed: int, place: int, post: Post) -> None:
        if old := self._get_post(feed, place):
            self.publishers[feed].posts.append(replace(post, guid=old.guid))

    @rule(feed=FEEDS, place=PLACES, post=POSTS)
    def share_url(self, feed: int, place: int, post: Post) -> None:
        if old := self._get_post(feed, place):
            self.publishers[feed].posts.append(replace(post, link=old.link))

    @rule(feed=FEEDS, place=PLACES, other=PLACES)
    def swap_guids(self, feed: int, place: int, other: int) -> None:
        one, two = self._get_post(feed, place), self._get_post(feed, other)
        if one and two:
            self._edit(feed, place, guid=two.guid)
            self._edit(feed, other, guid=one.guid)

    @rule(feed=FEEDS, other=FEEDS, place=PLACES, guid=GUIDS, title=st.one_of(st.none(), TITLES), keeps=st.booleans())
    def link_to(self, feed: int, other: int, place: int, guid: str, title: str | None, keeps: bool) -> None:
        """Copy a post of another feed, as a link blog does, under its title or another."""
        if post := self._get_post(other, place):
            copied = replace(post, guid=post.guid if keeps else guid, title=post.title if title is None else title)
            self.publishers[feed].posts.append(copied)

    @rule(feed=FEEDS, place=PLACES)
    def remove(self, feed: int, place: int) -> None:
        if post := self._get_post(feed, place):
            self.publishers[feed].posts.remove(post)
            self.publishers[feed].past.append(post)

    @rule(feed=FEEDS, place=PLACES, link=st.one_of(st.none(), LINKS), title=st.one_of(st.none(), TITLES))
    def bring_back(self, feed: int, place: int, link: str | None, title: str | None) -> None:
        """Publish an earlier version of a post again, beside its current version."""
        publisher = self.publishers[feed]
        if publisher.past:
            old = publisher.past[-1 - place % len(publisher.past)]
            back = replace(old, link=old.link if link is None else link, title=old.title if title is None else title)
            publisher.posts.append(back)

    @rule(feed=FEEDS, start=st.integers(0, 3), end=st.integers(1, 6))
    def cut(self, feed: int, start: int, end: int) -> None:
        self.publishers[feed].posts[:] = self.publishers[feed].posts[start:end]

    @rule(feed=FEEDS)
    def reverse(self, feed: int) -> None:
        self.publishers[feed].posts.reverse()

    @rule(feed=FEEDS, has_etag=st.booleans())
    def set_etag(self, feed: int, has_etag: bool) -> None:
        self.publishers[feed].has_etag = has_etag

    @rule(feed=FEEDS, trouble=st.sampled_from(["", "", "", "timeout", "error", "page", "garbage"]))
    def set_trouble(self, feed: int, trouble: str) -> None:
        self.publishers[feed].trouble = trouble

    @rule(feed=FEEDS, is_https=st.booleans())
    def move(self, feed: int, is_https: bool) -> None:
        publisher = self.publishers[feed]
        host = f"moved{len(publisher.urls)}.blog{feed}.example.org" if not is_https else f"blog{feed}.example.com"
        if (url := f"https://{host}/feed") not in publisher.urls:
            publisher.urls.append(url)

    @rule(time=st.sampled_from([timedelta(hours=1), *(timedelta(days=days) for days in (1, 10, 29, 30, 31, 60))]))
    def wait(self, time: timedelta) -> None:
        self.now += time

    @rule(feeds=st.lists(FEEDS, min_size=1, max_size=3, unique=True), is_at_home=st.booleans())
    def poll(self, feeds: list[int], is_at_home: bool) -> None:
        homes = [self.publishers[feed].home for feed in feeds]
        self._ingest(homes if is_at_home else [self.fetched_from[home] for home in homes])

    @rule()
    def poll_all_twice(self) -> None:
        """Poll all feeds twice: the second time nothing is new or updated."""
        for publisher in self.publishers:
            publisher.has_etag = False
        homes = [publisher.home for publisher in self.publishers]
        self._ingest(homes)
        before = set(self.model.entries)
        report = self._ingest(homes)
        assert (report.new, report.updated) == (0, 0)
        assert set(self.model.entries) <= before

    @invariant()
    def check_store_equals_model(self) -> None:
        """Assert that nothing is lost, stored twice, deleted too early or kept too long, and that keys have entries."""
        tables = self.database.read_now(StoreTables.read)
        assert tables.entries == set(self.model.entries)
        assert tables.ambiguous == self.model.ambiguous
        assert set(tables.identities.values()) <= tables.entries
        assert {url: number for (kind, url), number in tables.identities.items() if kind == "guid"} == {
            f"{feed}:{guid}": number for number, entry in self.model.entries.items() for feed, guid in entry.guids
        }
        assert tables.urls == {home: self.fetched_from[home] for home in tables.urls}
        for home, rows in tables.sightings.items():
            assert {(row.entry, row.fingerprint, row.document, row.seen) for row in rows} == {
                (number, shown.post.fingerprint, shown.document, schema.stamp(shown.seen))
                for number, entry in self.model.entries.items()
                for feed, shown in entry.by_feed.items()
                if feed == home
            }

    def _get_post(self, feed: int, place: int) -> Post | None:
        posts = self.publishers[feed].posts
        return posts[place % len(posts)] if posts else None

    def _edit(self, feed: int, place: int, **changes: str) -> None:
        posts = self.publishers[feed].posts
        if posts:
            self.publishers[feed].past.append(posts[place % len(posts)])
            posts[place % len(posts)] = replace(posts[place % len(posts)], **changes)

    def _ingest(self, urls: list[str]) -> canonry.Report:
        items: list[ItemRecord] = []
        report = asyncio.run(
            ingest(
                urls,
                self.database,
                fetch=self._fetch,
                clock=lambda: self.now,
                concurrency=1,
                on_feed=self._on_feed,
                on_item=items.append,
            )
        )
        assert len(report.feeds) == len(urls)
        for name in ("new", "updated", "duplicate"):
            assert getattr(report, name) == sum(getattr(feed, name) for feed in report.feeds)
        assert Counter(item.outcome for item in items) == +Counter(new=report.new, updated=report.updated)
        assert report.no_change == sum(feed.result is FeedResult.NO_CHANGE for feed in report.feeds)
        assert report.failed == sum(feed.result is FeedResult.FAILED for feed in report.feeds)
        assert all(line.is_met for line in report.checklist), report.checklist
        assert not report.warnings
        return report

    async def _fetch(self, url: str, validators: canonry.Validators, **_: object) -> canonry.Response:
        publisher = next(publisher for publisher in self.publishers if url in publisher.urls)
        assert url == self.fetched_from[publisher.home]
        self.answers[publisher.home] = None
        response = self.answers[publisher.home] = publisher.answer(url, validators)
        return response

    def _on_feed(self, outcome: FeedOutcome) -> None:
        """Repeat in the model what the run has done with one feed."""
        publisher = next(publisher for publisher in self.publishers if outcome.feed_url in publisher.urls)
        answer, counts = self.answers[publisher.home], Counter[str]()
        tables = self.database.read_now(StoreTables.read)
        if publisher.trouble or answer is None:
            assert outcome.result is FeedResult.FAILED
        elif answer.is_not_modified:
            assert outcome.result is FeedResult.NO_CHANGE
            self.model.touch(publisher.home, self.now)
            self._check_move(publisher, tables.urls[publisher.home], has_known_items=False)
        else:
            assert outcome.result is FeedResult.INGESTED
            rows = tables.sightings[publisher.home]
            counts = self.model.merge(publisher.home, publisher.posts, rows, self.now)
            has_known_items = bool(counts["updated"] + counts["duplicate"])
            is_redirected = self.fetched_from[publisher.home] != publisher.urls[-1]
            if is_redirected and self.model.documents[publisher.home] > 1 and counts["new"] and not has_known_items:
                self.moved_elsewhere.add(publisher.home)
            self._check_move(publisher, tables.urls[publisher.home], has_known_items=has_known_items)
        assert counts == +Counter(new=outcome.new, updated=outcome.updated, duplicate=outcome.duplicate)

    def _check_move(self, publisher: Publisher, url: str, *, has_known_items: bool) -> None:
        """Assert that a move is adopted at its third sighting or later, by a document with known items."""
        home, target = publisher.home, publisher.urls[-1]
        sightings = self.moves[home, target] + 1
        if url == self.fetched_from[home] != target:
            assert home in self.moved_elsewhere or not (has_known_items and sightings >= ADOPT_AFTER)
            self.moves = Counter({key: times for key, times in self.moves.items() if key[0] != home})
            self.moves[home, target] = sightings
        elif url != self.fetched_from[home]:
            assert url == target and has_known_items and sightings >= ADOPT_AFTER
            assert home not in self.moved_elsewhere
            self.fetched_from[home] = url


A = Post("a", "https://blog0.example.com/1", "One", "", "a")
B = Post("b", "", "Two", "", "b")
C = replace(A, guid="c", title="Three")  # at the URL of A, which becomes ambiguous
D = replace(B, link="https://blog0.example.com/2")
# Mistakes that the model has found: why, and the documents of the first two feeds, step by step.
REGRESSIONS = [
    ("a guid its entry has given up", [([A], []), ([replace(A, guid="b")], []), ([replace(A, link=""), B], [])]),
    ("a URL shared here is not that of elsewhere", [([], [A]), ([A, replace(A, guid="b", title="Two")], [A])]),
    ("a guid shared here hides no twin elsewhere", [([B], [A, C]), ([B, replace(A, guid="b")], [A, C])]),
    ("a guid used again hides no twin elsewhere", [([D], [A, C]), ([replace(A, guid="b")], [A, C])]),
]


@pytest.mark.parametrize(("why", "steps"), REGRESSIONS)
def test_cases_that_the_model_once_found(why: str, steps: list[tuple[list[Post], list[Post]]]) -> None:
    feeds = FeedMachine()
    for documents in steps:
        for publisher, posts in zip(feeds.publishers, documents, strict=False):
            publisher.posts = list(posts)
        feeds.poll_all_twice()
        feeds.check_store_equals_model()
    feeds.teardown()


@pytest.mark.parametrize("guid", ["", "a", "a" * 3000])
@pytest.mark.parametrize("path", ["1", "1" * 3000, "\u00e9" * 900])
def test_every_key_fits_into_an_index(guid: str, path: str) -> None:
    """PostgreSQL has no room for a key of more than 2,704 bytes in an index."""
    with Database("sqlite://") as database:
        answer = Publisher("", [Post(guid, f"https://blog0.example.com/{path}", "One", "", "a")]).document().encode()

        async def fetch(url: str, **_: object) -> canonry.Response:
            return canonry.Response(200, url, body=answer)

        reports = [asyncio.run(ingest(["https://blog0.example.com/feed"], database, fetch=fetch)) for _ in range(2)]
        assert [(report.new, report.duplicate) for report in reports] == [(1, 0), (0, 1)]
        assert all(line.is_met for report in reports for line in report.checklist)
        tables = database.read_now(StoreTables.read)
        assert all(len(value.encode()) <= 2000 for _, value in tables.identities)


@pytest.mark.slow
def test_the_store_equals_the_model() -> None:
    run_state_machine_as_test(FeedMachine, settings=settings(max_examples=40, stateful_step_count=50))
