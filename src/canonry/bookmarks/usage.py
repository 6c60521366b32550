"""What the service was used for: the counts of the store as numbers and series (contract B7)."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from canonry.bookmarks.save import LATENCIES

if TYPE_CHECKING:
    from collections.abc import Mapping

    # name → hour → count, as `Statistics.since` gives them
    Counts = Mapping[str, Mapping[str, int]]

_AVOIDED = ("put:no_change", "put:updated")


@dataclass(frozen=True, slots=True)
class Bucket:
    """Normalizations that took at most so many microseconds, and more than the bucket before; None: any longer."""

    microseconds: int | None
    count: int


@dataclass(frozen=True, slots=True)
class Hour:
    """What happened in an hour, `2026-01-31T10`."""

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
    """What happened in all, and in each hour, those included in which nothing did."""

    normalizations: int
    latency: tuple[Bucket, ...]
    created: int
    duplicates_avoided: int
    cache_hits: int
    cache_misses: int
    expansions: Mapping[str, int]
    rules: Mapping[str, int]
    hours: tuple[Hour, ...]

    @property
    def cache_hit_rate(self) -> float | None:
        """Between 0 and 1; None where nothing was looked up."""
        asked = self.cache_hits + self.cache_misses
        return self.cache_hits / asked if asked else None


def usage_of(counts: Counts, since: datetime, until: datetime) -> Usage:
    """Numbers and series from counts; the most frequent rule first."""
    by_hour: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for name, series in counts.items():
        for hour, count in series.items():
            by_hour[hour][name] = count
    hours = tuple(_hour(hour, by_hour.get(hour, {})) for hour in _hours(since, until))
    buckets = [Bucket(least, sum(counts.get(f"latency:{least}", {}).values())) for least in LATENCIES]
    return Usage(
        normalizations=sum(each.normalizations for each in hours),
        latency=(*buckets, Bucket(None, sum(counts.get("latency:more", {}).values()))),
        created=sum(each.created for each in hours),
        duplicates_avoided=sum(each.duplicates_avoided for each in hours),
        cache_hits=sum(each.cache_hits for each in hours),
        cache_misses=sum(each.cache_misses for each in hours),
        expansions=_summed([each.expansions for each in hours]),
        rules=_summed([each.rules for each in hours]),
        hours=hours,
    )


def _hour(hour: str, here: Mapping[str, int]) -> Hour:
    return Hour(
        hour=hour,
        normalizations=sum(_named(here, "latency:").values()),
        created=here.get("put:created", 0),
        duplicates_avoided=sum(here.get(name, 0) for name in _AVOIDED),
        cache_hits=here.get("cache:hit", 0),
        cache_misses=here.get("cache:miss", 0),
        expansions=_named(here, "expansion:"),
        rules=_named(here, "rule:"),
    )


def _hours(since: datetime, until: datetime) -> list[str]:
    first = since.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    count = int((until - first) / timedelta(hours=1)) + 1
    return [(first + timedelta(hours=number)).strftime("%Y-%m-%dT%H") for number in range(count)]


def _named(counts: Mapping[str, int], prefix: str) -> dict[str, int]:
    return {name.removeprefix(prefix): count for name, count in sorted(counts.items()) if name.startswith(prefix)}


def _summed(several: list[Mapping[str, int]]) -> dict[str, int]:
    total = Counter[str]()
    for each in several:
        total.update(each)
    return dict(sorted(total.items(), key=lambda pair: (-pair[1], pair[0])))
