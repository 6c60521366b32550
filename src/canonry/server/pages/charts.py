"""Charts as places on a sheet: bars, lines, axes with their labels, and the same as a table. Templates draw them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from canonry.bookmarks.usage import Bucket

WIDTH, HEIGHT = 440, 240
LEFT, RIGHT, TOP, BOTTOM = 56, 20, 30, 50  # where the axes are, from the edges
_INNER_WIDTH, _INNER_HEIGHT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
_LABELS = 5  # at most so many under a chart


@dataclass(frozen=True, slots=True)
class Tick:
    """A label at its place on an axis."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar, and what it says to somebody who points at it."""

    x: float
    y: float
    width: float
    height: float
    said: str


@dataclass(frozen=True, slots=True)
class Chart:
    """What is drawn; `rows` say the same in words."""

    title: str
    summary: str
    x_title: str
    y_title: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    bars: tuple[Bar, ...] = ()
    lines: tuple[str, ...] = ()  # points of polylines
    dots: tuple[tuple[float, float], ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.bars and not self.dots


def over_time(
    title: str, unit: str, times: Sequence[str], values: Sequence[int], *, most: int | None = None, period: str = "day"
) -> Chart:
    """A bar for every period of equal length; `most` is for charts that share a scale."""
    ticks, top = _scale(max(values, default=0) if most is None else most)
    slot = _INNER_WIDTH / max(len(values), 1)
    bars = tuple(
        Bar(
            LEFT + slot * at + slot * 0.1, _y(value, top), slot * 0.8, value / top * _INNER_HEIGHT, f"{when}: {value:,}"
        )
        for at, (when, value) in enumerate(zip(times, values, strict=True))
        if value
    )
    return Chart(
        title,
        f"{title}: {sum(values):,} in all, at most {max(values, default=0):,} in a {period}.",
        "",
        unit,
        _times(times, slot),
        ticks,
        (period, unit),
        tuple((when, f"{value:,}") for when, value in zip(times, values, strict=True) if value),
        bars,
    )


def share_over_time(title: str, times: Sequence[str], values: Sequence[float | None], *, period: str = "day") -> Chart:
    """A line from 0 to 100 percent, broken where there was nothing to count."""
    slot = _INNER_WIDTH / max(len(values), 1)
    runs: list[list[tuple[float, float]]] = [[]]
    for at, value in enumerate(values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append((round(LEFT + slot * (at + 0.5), 1), round(_y(value * 100, 100), 1)))
    known = [value for value in values if value is not None]
    summary = f"{title}: between {min(known):.0%} and {max(known):.0%}." if known else f"{title}: nothing to count."
    return Chart(
        title,
        summary,
        "",
        "%",
        _times(times, slot),
        tuple(Tick(_y(value, 100), str(value)) for value in (0, 25, 50, 75, 100)),
        (period, "%"),
        tuple((when, f"{value:.1%}") for when, value in zip(times, values, strict=True) if value is not None),
        lines=tuple(" ".join(f"{x},{y}" for x, y in run) for run in runs if len(run) > 1),
        dots=tuple(dot for run in runs for dot in run),
    )


def latencies(title: str, buckets: Sequence[Bucket]) -> Chart:
    """A histogram whose bars are as wide as their buckets, on an axis where every doubling is equally far.

    The area of a bar is its count. The first and the last bucket have no end; they are drawn one doubling wide.
    """
    ends = [bucket.microseconds for bucket in buckets if bucket.microseconds is not None]
    least, most = ends[0] / 2, ends[-1] * 2
    spans = [(low, high) for low, high in zip([least, *ends], [*ends, most], strict=True)]
    heights = [bucket.count / math.log2(high / low) for bucket, (low, high) in zip(buckets, spans, strict=True)]
    ticks, top = _scale(math.ceil(max(heights)))

    def x(microseconds: float) -> float:
        return LEFT + math.log2(microseconds / least) / math.log2(most / least) * _INNER_WIDTH

    names = [_span(low, high, least, most) for low, high in spans]
    count = sum(bucket.count for bucket in buckets)
    return Chart(
        title,
        f"{title}: {count:,} in all, {_middle(buckets, names)}.",
        "time each took (area: how many)",
        "normalizations per doubling of time",
        tuple(Tick(x(end), _time(end)) for end in ends if math.log10(end) % 1 == 0),
        ticks,
        ("took", "normalizations"),
        tuple((name, f"{bucket.count:,}") for name, bucket in zip(names, buckets, strict=True)),
        tuple(
            Bar(x(low) + 0.5, _y(height, top), x(high) - x(low) - 1, height / top * _INNER_HEIGHT, f"{name}: {n:,}")
            for (low, high), height, name, n in zip(spans, heights, names, [b.count for b in buckets], strict=True)
            if n
        ),
    )


def quantile(buckets: Sequence[Bucket], share: float) -> str:
    """The bucket below whose end so large a share lies, for people."""
    wanted = share * sum(bucket.count for bucket in buckets)
    if not wanted:
        return "–"
    reached = 0
    for bucket in buckets:
        reached += bucket.count
        if reached >= wanted and bucket.microseconds is not None:
            return f"≤ {_time(bucket.microseconds)}"
    ends = [bucket.microseconds for bucket in buckets if bucket.microseconds is not None]
    return f"> {_time(ends[-1])}"


def _middle(buckets: Sequence[Bucket], names: Sequence[str]) -> str:
    most = max(range(len(buckets)), key=lambda at: buckets[at].count)
    return f"most of them {names[most]}" if buckets[most].count else "nothing to count"


def _span(low: float, high: float, least: float, most: float) -> str:
    if low == least:
        return f"at most {_time(high)}"
    return f"more than {_time(low)}" if high == most else f"{_time(low)} to {_time(high)}"


def _time(microseconds: float) -> str:
    return f"{microseconds / 1000:g} ms" if microseconds >= 1000 else f"{microseconds:g} µs"


def _scale(most: int) -> tuple[tuple[Tick, ...], int]:
    """Round numbers from 0 to at least `most`, and the highest of them."""
    step = next(
        number * 10**power for power in range(20) for number in (1, 2, 5) if number * 10**power * 4 >= max(most, 1)
    )
    count = max(math.ceil(most / step), 1)
    return tuple(Tick(_y(step * at, step * count), f"{step * at:,}") for at in range(count + 1)), step * count


def _y(value: float, top: float) -> float:
    return TOP + _INNER_HEIGHT * (1 - value / top)


def _times(times: Sequence[str], slot: float) -> tuple[Tick, ...]:
    apart = math.ceil(len(times) / _LABELS) or 1
    return tuple(Tick(LEFT + slot * (at + 0.5), times[at]) for at in range(0, len(times), apart))
