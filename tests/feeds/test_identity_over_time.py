"""Simulated feeds with every mishap, over weeks: nothing is announced twice, nothing missed, no edit lost (contract I3–I5)."""

from __future__ import annotations

from benchmarks.identity import measure
from benchmarks.identity_feeds import Kind, make_feeds

# Longer than the 30 days of retention, so that items come back after they were deleted.
DAYS = 40


def test_every_article_is_announced_once_and_every_edit_is_reported() -> None:
    kinds = len(Kind)
    feeds = make_feeds(2 * kinds, seed=7)[kinds:]  # the first feeds have one mishap each, these have several
    assert {feed.kind for feed in feeds} == set(Kind)
    assert sum(len(feed.mishaps) for feed in feeds) > kinds
    [found] = measure(["canonry"], feeds, DAYS)
    assert sum(len(feed.articles) for feed in feeds) > 20 * kinds
    assert +found.false_new == {}
    assert +found.missed_new == {}
    assert +found.lost_updates == {}
    # A feed that changes on every request is noticed only after some polls.
    assert set(+found.false_updates) <= {Kind.VOLATILE_DATES, Kind.NONCES}
    assert found.false_updates.total() < 2 * 2 * 12
