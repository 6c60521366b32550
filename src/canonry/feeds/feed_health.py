"""Judge how a feed is doing, and what a person can do about it (contract U2). The sentences are made by the pages."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from canonry.errors import FailureKind
from canonry.feeds.feed_values import FeedStatus

if TYPE_CHECKING:
    from canonry.feeds.feed_values import FeedState


class FeedHealth(StrEnum):
    """The condition of a feed."""

    NEW = "new"  # never polled
    WORKING = "working"
    FAILING = "failing"
    STOPPED = "stopped"  # its server says that it is gone for good
    PAUSED = "paused"  # by a person


PROBLEMS = frozenset({FeedHealth.FAILING, FeedHealth.STOPPED})


class FeedAdvice(StrEnum):
    """Advice for a feed that fails."""

    WAIT = "wait"  # it may work again by itself, and is retried
    FIND_NEW_ADDRESS = "find_new_address"
    GIVE_ACCESS = "give_access"  # the server wants a password, or refuses our user agent
    ALLOW = "allow"  # a setting forbids the address
    RAISE_LIMIT = "raise_limit"  # of the size
    RAISE_TIMEOUT = "raise_timeout"
    CHECK_PROXY = "check_proxy"
    ASK_SITE = "ask_site"  # only its owner can repair it


_BY_STATUS = {
    401: FeedAdvice.GIVE_ACCESS,
    402: FeedAdvice.GIVE_ACCESS,
    403: FeedAdvice.GIVE_ACCESS,
    404: FeedAdvice.FIND_NEW_ADDRESS,
    406: FeedAdvice.GIVE_ACCESS,
    407: FeedAdvice.CHECK_PROXY,
    410: FeedAdvice.FIND_NEW_ADDRESS,
    451: FeedAdvice.ASK_SITE,
}
_BY_KIND = {
    FailureKind.DNS: FeedAdvice.FIND_NEW_ADDRESS,
    FailureKind.CERTIFICATE: FeedAdvice.ASK_SITE,
    FailureKind.TIMEOUT: FeedAdvice.RAISE_TIMEOUT,
    FailureKind.TOO_LARGE: FeedAdvice.RAISE_LIMIT,
    FailureKind.REDIRECT_LOOP: FeedAdvice.ASK_SITE,
    FailureKind.TOO_MANY_REDIRECTS: FeedAdvice.ASK_SITE,
    FailureKind.BAD_REDIRECT: FeedAdvice.ASK_SITE,
    FailureKind.REFUSED: FeedAdvice.ALLOW,
    FailureKind.NOT_A_FEED: FeedAdvice.FIND_NEW_ADDRESS,
    FailureKind.INVALID_URL: FeedAdvice.FIND_NEW_ADDRESS,
    FailureKind.PROXY: FeedAdvice.CHECK_PROXY,
}
_WAITS_BEFORE_ADVICE = 3  # failures in a row that may pass by themselves


def judge_health(feed: FeedState) -> FeedHealth:
    """Return the condition of a feed."""
    if feed.status is FeedStatus.PAUSED:
        return FeedHealth.PAUSED
    if feed.status is FeedStatus.STOPPED:
        return FeedHealth.STOPPED
    if feed.failures:
        return FeedHealth.FAILING
    return FeedHealth.WORKING if feed.last_checked_at else FeedHealth.NEW


def choose_advice(feed: FeedState) -> FeedAdvice:
    """Return what to do about the last failure of a feed; names and timeouts may recover for some polls."""
    if feed.failure_status in _BY_STATUS:
        return _BY_STATUS[feed.failure_status]
    if feed.failure_kind in {FailureKind.DNS, FailureKind.TIMEOUT} and feed.failures < _WAITS_BEFORE_ADVICE:
        return FeedAdvice.WAIT
    return FeedAdvice.WAIT if feed.failure_kind is None else _BY_KIND.get(feed.failure_kind, FeedAdvice.WAIT)
