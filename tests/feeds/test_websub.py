"""WebSub: feeds are subscribed at their hubs, renewed, and polled as before when pushes stop (contract I11)."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import threading
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import update

from canonry.errors import FailureKind
from canonry.feeds.feed_store import FeedStore
from canonry.feeds.feed_values import FeedState, FeedStatus
from canonry.feeds.ingest_report import FeedOutcome, FeedResult
from canonry.feeds.polling import Polling, poll_feed
from canonry.feeds.read import read_feed
from canonry.feeds.websub import (
    MAX_PUSH_BYTES,
    DueFeed,
    HubRequests,
    Subscription,
    SubscriptionState,
    choose_retry,
    choose_topic,
    confirm,
    is_signed,
    judge_poll,
    mask_all,
    note_push,
    verify,
)
from canonry.feeds.websub_links import HubLinks, find_hub_links
from canonry.feeds.websub_store import WebSubStore
from canonry.jobs.websub_jobs import note_poll
from canonry.net.origin import Origin
from canonry.net.response import Response
from canonry.store.database import Database
from canonry.store.schema import feeds, stamp
from hub_server import HubServer, run_hub
from loopback import in_a_loop, make_client, make_public

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

START = datetime(2026, 1, 1, tzinfo=UTC)
BASE = "https://feeds.example.net"
ACTIVE = Subscription(
    feed_id=1,
    hub="https://hub.example.com/",
    topic="https://a.com/feed",
    callback=f"{BASE}/websub/token",
    secret="secret",
    state=SubscriptionState.ACTIVE,
    is_requested=False,
    failures=0,
    failure="",
    next_at=stamp(START),
    expires_at=stamp(START + timedelta(days=10)),
    pushed_at=None,
    missed_at=None,
)


@dataclass
class Runs:
    """A feed with a hub, followed in a store; `now` is the time of the clock."""

    hub: HubServer
    feeds: FeedStore
    subscriptions: WebSubStore
    polling: Polling
    requests: HubRequests
    times: list[datetime]

    @property
    def now(self) -> datetime:
        return self.times[-1]

    def wait(self, **span: float) -> None:
        self.times.append(self.now + timedelta(**span))

    async def feed(self) -> FeedState:
        [feed] = await self.feeds.list_all()
        return feed

    async def subscription(self) -> Subscription:
        [found] = await self.subscriptions.list_all()
        return found

    async def poll(self, *, is_pushed_meanwhile: bool = False) -> FeedOutcome:
        feed, started = await self.feed(), self.now
        outcome, _ = await poll_feed(feed, self.feeds, self.polling)
        if is_pushed_meanwhile:
            self.wait(seconds=1)
            await self.push()
        await note_poll(self.subscriptions, feed, outcome, started=started, now=self.now)
        return outcome

    async def hours_to_next_poll(self) -> float:
        at = (await self.feed()).next_check_at
        assert at is not None
        return (datetime.fromisoformat(at) - self.now).total_seconds() / 3600

    async def confirm(self) -> None:
        found = await self.subscription()
        await self.subscriptions.change(found.callback, lambda found: confirm(found, "864000", self.now))

    async def push(self) -> None:
        found = await self.subscription()
        await self.subscriptions.change(found.callback, lambda found: note_push(found, self.now))


@asynccontextmanager
async def following(database_url: str, *, origin: Origin = Origin.PERSON, base: str = BASE) -> AsyncIterator[Runs]:
    """Follow the feed of a hub, polled once."""
    times = [START]
    with run_hub() as hub, Database(database_url) as database:
        async with make_client() as client:
            store, subscriptions = FeedStore(database), WebSubStore(database)
            await store.add(f"{hub.url}/feed", START, origin=origin)
            polling = Polling(client.fetch, clock=lambda: times[-1], chance=lambda: 0.5)
            requests = HubRequests(subscriptions, client.fetch, base, clock=lambda: times[-1], chance=lambda: 0.5)
            runs = Runs(hub, store, subscriptions, polling, requests, times)
            await runs.poll()
            yield runs


@in_a_loop
async def test_a_feed_is_subscribed_at_its_hub_and_renewed_before_the_lease_ends(database_url: str) -> None:
    async with following(database_url) as runs:
        assert await runs.requests.request_due() == 1
        [form] = runs.hub.requests
        assert (form["hub.mode"], form["hub.topic"]) == ("subscribe", f"{runs.hub.url}/feed")
        assert form["hub.callback"].startswith(f"{BASE}/websub/") and len(form["hub.callback"]) > 60
        assert 32 < len(form["hub.secret"]) < 200 and int(form["hub.lease_seconds"]) > 0
        pending = await runs.subscription()
        assert (pending.state, pending.is_requested) == (SubscriptionState.PENDING, True)
        assert await runs.requests.request_due() == 0  # it waits for the hub
        await runs.confirm()
        runs.wait(days=7)
        assert await runs.requests.request_due() == 0
        runs.wait(days=2)
        assert await runs.requests.request_due() == 1
        assert runs.hub.requests[1] == form  # the same callback and secret: no push is lost
        assert (await runs.subscription()).state is SubscriptionState.ACTIVE


@in_a_loop
async def test_a_hub_that_does_not_confirm_is_asked_again_later_and_later(sqlite_url: str) -> None:
    async with following(sqlite_url) as runs:
        await runs.requests.request_due()
        runs.wait(minutes=59)
        assert await runs.requests.request_due() == 0
        runs.wait(minutes=2)
        assert await runs.requests.request_due() == 1
        runs.hub.status = 500
        asked: list[int] = []
        for hour in range(1, 50):
            runs.wait(hours=1)
            before = len(runs.hub.requests)
            await runs.requests.request_due()
            asked += [hour] * (len(runs.hub.requests) - before)
        assert asked == [1, 2, 4, 8, 16, 32]
        failed = await runs.subscription()
        assert failed.failures == 6 and "500" in failed.failure


@in_a_loop
async def test_what_a_feed_says_of_its_hub_later_replaces_the_subscription(sqlite_url: str) -> None:
    async with following(sqlite_url) as runs:
        await runs.requests.request_due()
        await runs.confirm()
        first = await runs.subscription()
        runs.hub.headers = {"Link": f'<{runs.hub.url}/moved>; rel="hub", <https://a.com/feed>; rel=self'}
        runs.wait(hours=2)
        await runs.poll()
        assert await runs.requests.request_due() == 1  # the hub redirects with 307 to where it is
        second = await runs.subscription()
        assert (second.hub, second.topic) == (f"{runs.hub.url}/moved", "https://a.com/feed")
        assert runs.hub.requests[-1]["hub.topic"] == "https://a.com/feed"
        assert second.callback != first.callback and second.secret != first.secret
        assert second.state is SubscriptionState.PENDING


@in_a_loop
async def test_another_public_url_and_a_wrong_clock_need_new_requests(sqlite_url: str) -> None:
    async with following(sqlite_url) as runs:
        await runs.requests.request_due()
        await runs.confirm()
        found = await runs.subscription()
        await runs.subscriptions.change(
            found.callback, lambda found: replace(found, next_at=stamp(START + timedelta(days=400)))
        )
        assert await runs.requests.request_due() == 1
        runs.requests = HubRequests(
            runs.subscriptions, runs.polling.fetch, "https://b.example.net/c/", clock=lambda: runs.now
        )
        assert await runs.requests.request_due() == 1
        assert runs.hub.requests[-1]["hub.callback"].startswith("https://b.example.net/c/websub/")


@in_a_loop
async def test_a_public_feed_cannot_name_a_hub_in_an_allowed_network(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The origin of the hub is the server that named it, also when the request is sent much later (G4b)."""
    async with following(sqlite_url) as runs:
        runs.hub.headers = {"Link": f'<http://127.0.0.1:{runs.hub.port}/hub>; rel="hub"'}
        await runs.poll()
        make_public(monkeypatch)
        assert await runs.requests.request_due() == 0
        assert runs.hub.requests == []
        assert (await runs.subscription()).failures == 1


@in_a_loop
async def test_paused_and_removed_feeds_are_not_subscribed(sqlite_url: str) -> None:
    async with following(sqlite_url) as runs:
        feed = await runs.feed()
        await runs.feeds.set_status(feed.id, FeedStatus.PAUSED)
        assert await runs.requests.request_due() == 0
        await runs.feeds.set_status(feed.id, FeedStatus.ACTIVE)
        assert await runs.requests.request_due() == 1
        await runs.feeds.remove(feed.id, START)
        assert await runs.subscriptions.list_all() == []


@in_a_loop
async def test_a_feed_may_be_removed_before_its_hub_is_asked(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with following(database_url) as runs:
        list_due = WebSubStore.list_due

        async def list_and_remove(*arguments: Any) -> list[DueFeed]:
            due = await list_due(*arguments)
            await runs.feeds.remove(due[0].feed_id, START)
            return due

        monkeypatch.setattr(WebSubStore, "list_due", list_and_remove)
        assert await runs.requests.request_due() == 0
        assert runs.hub.requests == []
        assert await runs.subscriptions.list_all() == []


@in_a_loop
async def test_two_changes_of_a_subscription_at_once_are_both_kept(database_url: str) -> None:
    """A hub may push while it confirms; on PostgreSQL both transactions run at once."""
    async with following(database_url) as runs:
        await runs.requests.request_due()
        callback, other_decides = (await runs.subscription()).callback, threading.Event()

        def confirm_slowly(found: Subscription) -> Subscription:
            other_decides.wait(0.5)  # a lock keeps the other one waiting until this one is stored
            return confirm(found, "864000", runs.now)

        def push(found: Subscription) -> Subscription:
            other_decides.set()
            return replace(found, pushed_at=stamp(runs.now))

        await asyncio.gather(
            runs.subscriptions.change(callback, confirm_slowly), runs.subscriptions.change(callback, push)
        )
        found = await runs.subscription()
        assert (found.state, found.pushed_at) == (SubscriptionState.ACTIVE, stamp(runs.now))


@in_a_loop
async def test_a_feed_is_polled_less_while_pushes_arrive_and_as_before_when_they_stop(database_url: str) -> None:
    async with following(database_url) as runs:
        await runs.requests.request_due()
        await runs.confirm()

        runs.wait(hours=1)
        await runs.poll()
        assert await runs.hours_to_next_poll() == pytest.approx(
            1, abs=0.1
        )  # no push yet: nothing proves that they come
        runs.wait(minutes=10)
        runs.hub.items = 2
        await runs.push()
        runs.wait(seconds=1)
        assert (await runs.poll()).new == 1
        assert await runs.hours_to_next_poll() == pytest.approx(6)
        runs.wait(hours=6)
        await runs.poll()
        assert await runs.hours_to_next_poll() == pytest.approx(6)  # nothing new: nothing was missed
        runs.wait(hours=6)
        runs.hub.items = 3
        assert (await runs.poll()).new == 1  # and no push announced it
        assert await runs.hours_to_next_poll() == pytest.approx(1, abs=0.1)
        runs.wait(hours=1)
        await runs.poll()
        assert await runs.hours_to_next_poll() == pytest.approx(1, abs=0.1)
        runs.wait(minutes=1)
        await runs.push()
        runs.wait(seconds=1)
        await runs.poll()
        assert await runs.hours_to_next_poll() == pytest.approx(1, abs=0.1)  # the change may not be there yet
        runs.wait(hours=1)
        await runs.poll()
        assert await runs.hours_to_next_poll() == pytest.approx(6)
        await runs.poll(is_pushed_meanwhile=True)
        assert await runs.hours_to_next_poll() == pytest.approx(1 / 60)  # the poll may have come too early
        runs.wait(days=11)  # the hub did not confirm the renewal
        await runs.poll()
        assert await runs.hours_to_next_poll() == pytest.approx(1, abs=0.1)


@in_a_loop
async def test_a_push_that_a_wrong_clock_has_noted_is_none(sqlite_url: str) -> None:
    """Else the feed would be polled every minute, and news without a push would be taken for announced."""
    async with following(sqlite_url) as runs:
        await runs.requests.request_due()
        await runs.confirm()
        runs.wait(days=5)
        await runs.push()
        runs.wait(days=-5)
        for hour in range(1, 4):
            runs.wait(hours=1)
            runs.hub.items = 1 + hour
            assert (await runs.poll()).new == 1
            assert await runs.hours_to_next_poll() == pytest.approx(1, abs=0.1)
        assert (await runs.subscription()).missed_at == stamp(runs.now)


@in_a_loop
async def test_an_interval_of_a_person_is_kept(sqlite_url: str) -> None:
    async with following(sqlite_url) as runs:
        await runs.requests.request_due()
        await runs.confirm()
        await runs.push()
        await runs.feeds.change((await runs.feed()).id, {"interval": 600})
        runs.wait(seconds=1)
        await runs.poll()
        at = (await runs.feed()).next_check_at
        assert at is not None and datetime.fromisoformat(at) < runs.now + timedelta(minutes=11)


# --- Decisions ----------------------------------------------------------------------------------------------------

ASKED = replace(ACTIVE, state=SubscriptionState.PENDING, is_requested=True, expires_at=None)
VERIFICATIONS = [
    # why                            subscription  mode           topic               wanted
    ("asked for", ASKED, "subscribe", ASKED.topic, SubscriptionState.ACTIVE),
    ("a renewal", replace(ACTIVE, is_requested=True), "subscribe", ASKED.topic, SubscriptionState.ACTIVE),
    ("not asked for", ACTIVE, "subscribe", ASKED.topic, None),
    ("another topic", ASKED, "subscribe", "https://b.com/feed", None),
    ("an end that nobody asked for", ACTIVE, "unsubscribe", ASKED.topic, None),
    ("denied", ASKED, "denied", ASKED.topic, SubscriptionState.DENIED),
    ("denied later", ACTIVE, "denied", ASKED.topic, SubscriptionState.DENIED),
    ("no mode", ASKED, "", ASKED.topic, None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("subscription", "mode", "topic", "wanted"),
    [row[1:] for row in VERIFICATIONS],
    ids=[row[0] for row in VERIFICATIONS],
)
def test_only_what_was_asked_for_is_confirmed(
    subscription: Subscription, mode: str, topic: str, wanted: SubscriptionState | None
) -> None:
    found = verify(subscription, mode=mode, topic=topic, lease="600", reason="no\n more", now=START)
    assert (None if found is None else found.state) == wanted
    if found is not None:
        assert not found.is_requested and not found.is_trusted(START)
        assert ("no more" in found.failure) == (wanted is SubscriptionState.DENIED)


@pytest.mark.parametrize(
    ("lease", "minutes"),
    [
        ("600", 10),
        ("1", 5),
        ("", 14400),
        ("x", 14400),
        ("-5", 14400),
        ("9" * 11, 43200),
        ("9" * 40, 14400),
        ("٣", 14400),
    ],
)
def test_a_lease_is_limited(lease: str, minutes: float) -> None:
    found = confirm(ASKED, lease, START)
    assert found.expires_at == stamp(START + timedelta(minutes=minutes))
    assert stamp(START) < found.next_at < found.expires_at


async def _chunks(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


@pytest.mark.parametrize("algorithm", ["sha1", "sha256", "sha384", "sha512"])
@in_a_loop
async def test_a_signature_is_checked(algorithm: str) -> None:
    digest = hmac.new(b"secret", b"body", getattr(hashlib, algorithm)).hexdigest()
    assert await is_signed("secret", f"{algorithm}={digest}", _chunks(b"bo", b"dy"))
    assert await is_signed("secret", f" {algorithm.upper()}={digest.upper()} ", _chunks(b"body"))
    assert not await is_signed("secret", f"{algorithm}={digest}", _chunks(b"bodY"))
    assert not await is_signed("Secret", f"{algorithm}={digest}", _chunks(b"body"))
    assert not await is_signed("secret", f"{algorithm}={digest[:-1]}", _chunks(b"body"))


@pytest.mark.parametrize("signature", ["", "sha256", "sha256=", "=", "md5=x", "new=x", "sha256=é", "sha256=\udcff"])
@in_a_loop
async def test_a_signature_that_is_none_is_refused(signature: str) -> None:
    assert not await is_signed("secret", signature, _chunks(b"body"))


@in_a_loop
async def test_a_push_over_the_limit_is_not_signed() -> None:
    body = b"x" * (MAX_PUSH_BYTES // 2 + 1)
    digest = hmac.new(b"secret", body * 2, hashlib.sha256).hexdigest()
    assert not await is_signed("secret", f"sha256={digest}", _chunks(body, body))


def test_retries_are_further_apart_with_every_failure() -> None:
    waits = [choose_retry(failures, 0.5) for failures in range(100)]
    assert waits[:3] == [timedelta(hours=1), timedelta(hours=2), timedelta(hours=4)]
    assert waits == sorted(waits) and waits[-1] == timedelta(days=1)


@in_a_loop
async def test_a_hub_is_not_asked_for_a_feed_with_a_password(sqlite_url: str) -> None:
    async with following(sqlite_url) as runs:
        feed = await runs.feed()
        query = update(feeds).values(url=feed.url.replace("//", "//me:secret@"), topic="")
        await runs.feeds.database.write(lambda connection: connection.execute(query))
        assert await runs.requests.request_due() == await runs.requests.request_due() == 0
        assert runs.hub.requests == [] and (await runs.subscription()).state is SubscriptionState.DENIED


def test_a_hub_does_not_learn_a_password() -> None:
    assert choose_topic("https://a.com/feed", "") == "https://a.com/feed"
    assert choose_topic("https://a.com/@me/feed", "") == "https://a.com/@me/feed"
    assert choose_topic("https://me:secret@a.com/feed", "") == ""
    assert choose_topic("https://me:secret@a.com/feed", "https://a.com/feed") == "https://a.com/feed"


@pytest.mark.parametrize(
    ("outcome", "pushed", "is_missed"),
    [
        (FeedOutcome("", FeedResult.INGESTED, new=1), None, True),
        (FeedOutcome("", FeedResult.INGESTED, updated=1), -1, True),
        (FeedOutcome("", FeedResult.INGESTED, new=1), 1, False),
        (FeedOutcome("", FeedResult.INGESTED), None, False),
        (FeedOutcome("", FeedResult.NO_CHANGE), None, False),
        (FeedOutcome("", FeedResult.FAILED, "no", failure=FailureKind.TIMEOUT), None, False),
    ],
)
def test_news_without_a_push_is_a_missed_push(outcome: FeedOutcome, pushed: int | None, is_missed: bool) -> None:
    values: dict[str, Any] = dict.fromkeys(
        ("url", "key_url", "title", "format", "etag", "last_modified", "hubs", "failure", "folder"), ""
    )
    feed = FeedState(
        **values, id=1, status=FeedStatus.ACTIVE, failures=0, last_checked_at=stamp(START), next_check_at=None,
        retry_at=None, moved_to="", moved_sightings=0, ttl=None,
    )  # fmt: skip
    at = None if pushed is None else stamp(START + timedelta(hours=pushed))
    found = judge_poll(replace(ACTIVE, pushed_at=at), feed=feed, outcome=outcome, now=START + timedelta(hours=2))
    assert (found.missed_at is not None) == is_missed


LINKS = [
    # why                       Link header                                    document                          hubs, topic
    ("none", "", "", (), ""),
    ("in the document", "", '<link rel="hub" href="/hub"/><link rel="self" href="/f"/>', ("https://a.com/hub",), "https://a.com/f"),
    ("in the header", '<https://h.com/>; rel="hub", <https://a.com/f>; rel=self', "", ("https://h.com/",), "https://a.com/f"),
    ("header first", "<https://h.com/>; rel=hub", '<link rel="hub" href="https://i.com/"/>', ("https://h.com/", "https://i.com/"), ""),
    ("no hub, no topic", "<https://a.com/f>; rel=self", '<link rel="self" href="/f"/>', (), ""),
    ("not http", "<ftp://h.com/>; rel=hub", '<link rel="hub" href="mailto:a@b"/>', (), ""),
    ("too long", f"<https://h.com/{'x' * 3000}>; rel=hub", "", (), ""),
    ("many", "", "".join(f'<link rel="hub" href="https://h.com/{n}"/>' for n in range(9)), tuple(f"https://h.com/{n}" for n in range(5)), ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("header", "document", "hubs", "topic"), [row[1:] for row in LINKS], ids=[row[0] for row in LINKS]
)
def test_hubs_and_topic_of_a_feed(header: str, document: str, hubs: tuple[str, ...], topic: str) -> None:
    body = f'<feed xmlns="http://www.w3.org/2005/Atom"><title>A</title>{document}</feed>'.encode()
    response = Response(200, "https://a.com/feed", {"link": header}, body)
    assert find_hub_links(response, read_feed(body, url=response.url)) == HubLinks(hubs, topic)


def test_secrets_are_not_shown() -> None:
    [shown] = mask_all([replace(ACTIVE, hub="https://me:pass@hub.example.com/")])
    assert (shown.secret, shown.callback) == ("", "") and "pass" not in shown.hub
