"""Summarize what the service was used for: totals and hourly series from the counts of the store (contract B7)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from canonry.bookmarks.statistics import LATENCY_BUCKETS

# name → hour → count, as `Statistics.get_hourly` returns them
Counts: TypeAlias = Mapping[str, Mapping[str, int]]

DUPLICATE_COUNTS = ("put:no_change", "put:updated")


@dataclass(frozen=True, slots=True)
class Bucket:
    """Normalizations that took at most `microseconds` and more than the bucket before; None is the open last one."""

    microseconds: int | None
    count: int


@dataclass(frozen=True, slots=True)
class Hour:
    """Counts of one hour, named as `2026-01-31T10` (UTC)."""

    hour: str
    normalizations: int
    created: int
    duplicates_avoided: int
    cache_hits: int
    cache_misses: int
    expansions: Mapping[str, int]
    rules: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Usage:
    """Totals and the counts of every hour, also of hours in which nothing happened."""

    normalizations: int
    latency: tuple[Bucket, ...]
    created: int
    duplicates_avoided: int
    cache_hits: int
    cache_misses: int
    cache_hit_rate: float | None  # between 0 and 1; None if nothing was looked up
    expansions: Mapping[str, int]
    rules: Mapping[str, int]
    hours: tuple[Hour, ...]


def summarize_usage(counts: Counts, since: datetime, until: datetime) -> Usage:
    """Return totals and hourly series; expansions and rules with the most frequent first."""
    by_hour: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for name, series in counts.items():
        for hour, count in series.items():
            by_hour[hour][name] = count
    hours = tuple(_make_hour(hour, by_hour.get(hour, {})) for hour in _list_hours(since, until))
    buckets = [Bucket(limit, sum(counts.get(f"latency:{limit}", {}).values())) for limit in LATENCY_BUCKETS]
    cache_hits = sum(each.cache_hits for each in hours)
    cache_misses = sum(each.cache_misses for each in hours)
    return Usage(
        normalizations=sum(each.normalizations for each in hours),
        latency=(*buckets, Bucket(None, sum(counts.get("latency:more", {}).values()))),
        created=sum(each.created for each in hours),
        duplicates_avoided=sum(each.duplicates_avoided for each in hours),
        cache_hits=cache_hits,
        cache_misses=cache_misses,
        cache_hit_rate=cache_hits / (cache_hits + cache_misses) if cache_hits + cache_misses else None,
        expansions=_add_up([each.expansions for each in hours]),
        rules=_add_up([each.rules for each in hours]),
        hours=hours,
    )


def _make_hour(hour: str, counts: Mapping[str, int]) -> Hour:
    return Hour(
        hour=hour,
        normalizations=sum(_select_prefix(counts, "latency:").values()),
        created=counts.get("put:created", 0),
        duplicates_avoided=sum(counts.get(name, 0) for name in DUPLICATE_COUNTS),
        cache_hits=counts.get("cache:hit", 0),
        cache_misses=counts.get("cache:miss", 0),
        expansions=_select_prefix(counts, "expansion:"),
        rules=_select_prefix(counts, "rule:"),
    )


def _list_hours(since: datetime, until: datetime) -> list[str]:
    first = since.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    count = int((until - first) / timedelta(hours=1)) + 1
    return [(first + timedelta(hours=number)).strftime("%Y-%m-%dT%H") for number in range(count)]


def _select_prefix(counts: Mapping[str, int], prefix: str) -> dict[str, int]:
    return {name.removeprefix(prefix): count for name, count in sorted(counts.items()) if name.startswith(prefix)}


def _add_up(several: list[Mapping[str, int]]) -> dict[str, int]:
    total = Counter[str]()
    for each in several:
        total.update(each)
    return dict(sorted(total.items(), key=lambda pair: (-pair[1], pair[0])))
