"""Counts are summarized as totals and hourly series."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from canonry.bookmarks.statistics import LATENCY_BUCKETS
from canonry.bookmarks.usage import Bucket, summarize_usage

SINCE = datetime(2026, 1, 31, 22, 30, tzinfo=UTC)
UNTIL = SINCE + timedelta(hours=3)
FIRST, SECOND = "2026-01-31T22", "2026-02-01T00"
COUNTS = {
    "latency:10": {FIRST: 2, SECOND: 3},
    "latency:more": {SECOND: 1},
    "put:created": {FIRST: 1},
    "put:no_change": {FIRST: 1, SECOND: 2},
    "put:updated": {SECOND: 4},
    "cache:hit": {FIRST: 3},
    "cache:miss": {SECOND: 1},
    "expansion:expanded": {FIRST: 1, SECOND: 1},
    "expansion:failed": {SECOND: 5},
    "rule:strip_params": {FIRST: 1},
    "rule:parse": {FIRST: 1, SECOND: 1},
    "http:GET / 2xx 5": {FIRST: 9},
}


def test_totals_are_sums_over_all_hours() -> None:
    usage = summarize_usage(COUNTS, SINCE, UNTIL)
    assert (usage.normalizations, usage.created, usage.duplicates_avoided) == (6, 1, 7)
    assert (usage.cache_hits, usage.cache_misses, usage.cache_hit_rate) == (3, 1, 0.75)
    assert list(usage.expansions.items()) == [("failed", 5), ("expanded", 2)]
    assert list(usage.rules.items()) == [("parse", 2), ("strip_params", 1)]


def test_the_latency_histogram_has_every_bucket() -> None:
    latency = summarize_usage(COUNTS, SINCE, UNTIL).latency
    assert [bucket.microseconds for bucket in latency] == [*LATENCY_BUCKETS, None]
    assert (latency[0], latency[-1]) == (Bucket(10, 5), Bucket(None, 1))
    assert sum(bucket.count for bucket in latency) == 6


def test_the_series_has_every_hour_also_empty_ones() -> None:
    hours = summarize_usage(COUNTS, SINCE, UNTIL).hours
    assert [hour.hour for hour in hours] == [FIRST, "2026-01-31T23", SECOND, "2026-02-01T01"]
    assert [hour.normalizations for hour in hours] == [2, 0, 4, 0]
    assert [hour.duplicates_avoided for hour in hours] == [1, 0, 6, 0]
    assert (hours[0].rules, hours[1].rules) == ({"parse": 1, "strip_params": 1}, {})


def test_the_cache_hit_rate_is_none_without_lookups() -> None:
    usage = summarize_usage({}, SINCE, SINCE)
    assert usage.cache_hit_rate is None
    assert [hour.hour for hour in usage.hours] == [FIRST]
