"""Lay out charts for SVG templates: bars, lines, axes with labels, and the same data as a table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from canonry.bookmarks.usage import Bucket

WIDTH, HEIGHT = 440, 240
LEFT, RIGHT, TOP, BOTTOM = 56, 20, 30, 50  # margins around the axes
_INNER_WIDTH, _INNER_HEIGHT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
_MAX_TIME_LABELS = 5


@dataclass(frozen=True, slots=True)
class Tick:
    """A label and its position on an axis."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar and its tooltip."""

    x: float
    y: float
    width: float
    height: float
    label: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart; `header` and `rows` are the same data as a table."""

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


def make_bar_chart(
    title: str,
    unit: str,
    times: Sequence[str],
    values: Sequence[int],
    *,
    max_value: int | None = None,
    period: str = "day",
) -> Chart:
    """Return a chart with one bar per period; give charts the same `max_value` to draw them on the same scale."""
    ticks, top = _make_scale(max(values, default=0) if max_value is None else max_value)
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
        f"{title}: {sum(values):,} in total, maximum {max(values, default=0):,} per {period}.",
        "",
        unit,
        _make_time_ticks(times, slot),
        ticks,
        (period, unit),
        tuple((when, f"{value:,}") for when, value in zip(times, values, strict=True) if value),
        bars,
    )


def make_share_chart(title: str, times: Sequence[str], values: Sequence[float | None], *, period: str = "day") -> Chart:
    """Return a line chart from 0 to 100 percent, with gaps where there is no value."""
    slot = _INNER_WIDTH / max(len(values), 1)
    runs: list[list[tuple[float, float]]] = [[]]
    for at, value in enumerate(values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append((round(LEFT + slot * (at + 0.5), 1), round(_y(value * 100, 100), 1)))
    known = [value for value in values if value is not None]
    summary = f"{title}: between {min(known):.0%} and {max(known):.0%}." if known else f"{title}: no data."
    return Chart(
        title,
        summary,
        "",
        "%",
        _make_time_ticks(times, slot),
        tuple(Tick(_y(value, 100), str(value)) for value in (0, 25, 50, 75, 100)),
        (period, "%"),
        tuple((when, f"{value:.1%}") for when, value in zip(times, values, strict=True) if value is not None),
        lines=tuple(" ".join(f"{x},{y}" for x, y in run) for run in runs if len(run) > 1),
        dots=tuple(dot for run in runs for dot in run),
    )


def make_latency_chart(title: str, buckets: Sequence[Bucket]) -> Chart:
    """Return a histogram on a logarithmic time axis; bars are as wide as their buckets and their area is the count.

    The first and the last bucket are open; they are drawn as wide as one doubling of time.
    """
    ends = [bucket.microseconds for bucket in buckets if bucket.microseconds is not None]
    least, most = ends[0] / 2, ends[-1] * 2
    spans = [(low, high) for low, high in zip([least, *ends], [*ends, most], strict=True)]
    heights = [bucket.count / math.log2(high / low) for bucket, (low, high) in zip(buckets, spans, strict=True)]
    ticks, top = _make_scale(math.ceil(max(heights)))

    def x(microseconds: float) -> float:
        return LEFT + math.log2(microseconds / least) / math.log2(most / least) * _INNER_WIDTH

    names = [_describe_span(low, high, least, most) for low, high in spans]
    count = sum(bucket.count for bucket in buckets)
    return Chart(
        title,
        f"{title}: {count:,} in total, {_describe_mode(buckets, names)}.",
        "time per URL (area: number of URLs)",
        "URLs per doubling of time",
        tuple(Tick(x(end), _format_microseconds(end)) for end in ends if math.log10(end) % 1 == 0),
        ticks,
        ("time", "URLs"),
        tuple((name, f"{bucket.count:,}") for name, bucket in zip(names, buckets, strict=True)),
        tuple(
            Bar(x(low) + 0.5, _y(height, top), x(high) - x(low) - 1, height / top * _INNER_HEIGHT, f"{name}: {n:,}")
            for (low, high), height, name, n in zip(spans, heights, names, [b.count for b in buckets], strict=True)
            if n
        ),
    )


def format_quantile(buckets: Sequence[Bucket], share: float) -> str:
    """Return the upper bound of the bucket that contains a quantile, e.g. `≤ 20 µs`."""
    wanted = share * sum(bucket.count for bucket in buckets)
    if not wanted:
        return "–"
    reached = 0
    for bucket in buckets:
        reached += bucket.count
        if reached >= wanted and bucket.microseconds is not None:
            return f"≤ {_format_microseconds(bucket.microseconds)}"
    ends = [bucket.microseconds for bucket in buckets if bucket.microseconds is not None]
    return f"> {_format_microseconds(ends[-1])}"


def _describe_mode(buckets: Sequence[Bucket], names: Sequence[str]) -> str:
    fullest = max(range(len(buckets)), key=lambda at: buckets[at].count)
    return f"most took {names[fullest]}" if buckets[fullest].count else "no data"


def _describe_span(low: float, high: float, least: float, most: float) -> str:
    if low == least:
        return f"at most {_format_microseconds(high)}"
    return (
        f"more than {_format_microseconds(low)}"
        if high == most
        else f"{_format_microseconds(low)} to {_format_microseconds(high)}"
    )


def _format_microseconds(microseconds: float) -> str:
    return f"{microseconds / 1000:g} ms" if microseconds >= 1000 else f"{microseconds:g} µs"


def _make_scale(max_value: int) -> tuple[tuple[Tick, ...], int]:
    """Return ticks at round numbers from 0 to at least `max_value`, and the highest number."""
    step = next(
        number * 10**power for power in range(20) for number in (1, 2, 5) if number * 10**power * 4 >= max(max_value, 1)
    )
    count = max(math.ceil(max_value / step), 1)
    return tuple(Tick(_y(step * at, step * count), f"{step * at:,}") for at in range(count + 1)), step * count


def _y(value: float, top: float) -> float:
    return TOP + _INNER_HEIGHT * (1 - value / top)


def _make_time_ticks(times: Sequence[str], slot: float) -> tuple[Tick, ...]:
    step = math.ceil(len(times) / _MAX_TIME_LABELS) or 1
    return tuple(Tick(LEFT + slot * (at + 0.5), times[at]) for at in range(0, len(times), step))
