"""Feeds as pages show them: their condition, and what to do about a failure, in sentences."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from canonry.errors import FailureKind, mask_credentials
from canonry.feeds.feed_activity import FeedActivity
from canonry.feeds.feed_health import PROBLEMS, FeedAdvice, FeedHealth, choose_advice, judge_health
from canonry.feeds.feed_values import FeedNote
from canonry.server.pages.reading_filter import name_feed

if TYPE_CHECKING:
    from canonry.feeds.feed_values import FeedState

_ADVICE = {
    FeedAdvice.WAIT: "This often passes: the feed is checked again by itself.",
    FeedAdvice.FIND_NEW_ADDRESS: "Open the site and look for its feed. Follow the new address, then remove this feed.",
    FeedAdvice.GIVE_ACCESS: "Set a header with a password in the settings, or another user agent.",
    FeedAdvice.ALLOW: "To allow this address, set allow_networks, allow_names or allow_ports of the service.",
    FeedAdvice.RAISE_LIMIT: "Set a larger size limit in the settings of this feed.",
    FeedAdvice.RAISE_TIMEOUT: "The server is slow or down. Set a longer timeout in the settings of this feed.",
    FeedAdvice.CHECK_PROXY: "Check the proxy in the settings of the service.",
    FeedAdvice.ASK_SITE: "The site has to repair this. Tell its owner, or pause the feed.",
}
_STOPPED = (
    "The server says that this feed is gone for good (410). It is checked once a week. "
    + (_ADVICE[FeedAdvice.FIND_NEW_ADDRESS])
)
_PHRASES = {status.value: f", {status.phrase.lower()}" for status in HTTPStatus}
_NOTES = {
    FeedNote.NONE: "",
    FeedNote.CHANGES_ON_EVERY_REQUEST: (
        "This feed changes at every request. Updates that change nothing you can see are left out."
    ),
}


@dataclass(frozen=True, slots=True)
class FeedRow:
    """A feed in a list; URLs have no credentials. `problem` and `advice` are empty for a feed that works."""

    id: int
    title: str
    url: str
    site_url: str
    folder: str
    health: FeedHealth
    problem: str
    advice: str
    note: str
    failures: int
    last_checked_at: str | None
    next_check_at: str | None
    activity: FeedActivity

    @property
    def has_problem(self) -> bool:
        return self.health in PROBLEMS

    @property
    def rate(self) -> str:
        """The new items in a week, for people."""
        per_week = self.activity.per_week
        if per_week is None:
            return "–"
        return f"{per_week:.0f}" if per_week >= 1 or per_week == 0 else "< 1"


def _describe_failure(feed: FeedState) -> str:
    if feed.failure_status is None:
        refused = "Refused: " if feed.failure_kind is FailureKind.REFUSED else ""
        return f"{refused}{mask_credentials(feed.failure)}."
    return f"The server answered {feed.failure_status}{_PHRASES.get(feed.failure_status, '')}."


def make_feed_row(feed: FeedState, activity: FeedActivity) -> FeedRow:
    """Return a feed as pages show it."""
    health = judge_health(feed)
    problem = advice = ""
    if health is FeedHealth.STOPPED:
        problem = _STOPPED
    elif health is FeedHealth.FAILING:
        problem, advice = _describe_failure(feed), _ADVICE[choose_advice(feed)]
    return FeedRow(
        id=feed.id,
        title=name_feed(feed),
        url=mask_credentials(feed.url),
        site_url=mask_credentials(feed.site_url),
        folder=feed.folder,
        health=health,
        problem=problem,
        advice=advice,
        note=_NOTES[feed.note],
        failures=feed.failures,
        last_checked_at=feed.last_checked_at,
        next_check_at=feed.next_check_at,
        activity=activity,
    )
