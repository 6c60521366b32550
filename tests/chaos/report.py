"""What came of a run, as Markdown for a file and as a short table."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from benchmarks.machine import describe_machine, format_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chaos.audit import Check
    from chaos.failures import Failure
    from chaos.load import Load

_LINGERS = 1.5  # seconds: less than there are between two failures


@dataclass(slots=True)
class Outcome:
    """All that a run has to tell."""

    seed: int
    seconds: float
    load: Load
    failures: list[Failure] = field(default_factory=list)
    missed: Counter[str] = field(default_factory=Counter[str])  # nothing was there to fail
    checks: list[Check] = field(default_factory=list)
    peaks: dict[str, int] = field(default_factory=dict[str, int])
    bounds: Mapping[str, int] = field(default_factory=dict[str, int])
    facts: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return bool(self.checks) and all(check.is_ok for check in self.checks)


def short(outcome: Outcome) -> str:
    """The audit, for a terminal."""
    rows = [(check.name, check.looked_at, _verdict(check)) for check in outcome.checks]
    wrong = [f"{check.name}: {check.told}" for check in outcome.checks if not check.is_ok]
    return "\n".join([format_table(("audit", "looked at", ""), rows), *wrong])


def full(outcome: Outcome) -> str:
    """The report."""
    load = outcome.load
    about = [
        ("seed", str(outcome.seed)),
        ("seconds of chaos", f"{outcome.seconds:g}"),
        *((name, str(value)) for name, value in describe_machine().items()),
        *outcome.facts,
    ]
    counts = Counter(failure.kind for failure in outcome.failures)
    outages = longest_outages(outcome.failures, load.acknowledged_at)
    failures = [
        (kind, str(count), str(outcome.missed[kind]), f"{outages.get(kind, 0):.1f}")
        for kind, count in sorted(counts.items())
    ]
    figures = [
        ("requests", str(sum(load.requests.values()))),
        ("acknowledged", str(len(load.acknowledged_at))),
        ("bookmarks acknowledged", str(len(load.promises))),
        ("given up at the end", str(load.given_up)),
        *((f"without an answer: {name}" if not name.isdecimal() else f"answered {name}", str(count))
          for name, count in sorted(load.errors.items())),
        *((f"one request, p{share}, ms", f"{at(load.latencies, share) * 1000:.0f}") for share in (50, 99)),
        *((f"until acknowledged, p{share}, ms", f"{at(load.waits, share) * 1000:.0f}") for share in (50, 99, 100)),
    ]  # fmt: skip
    memory = [
        (kind, f"{peak / 2**20:.0f}", f"{outcome.bounds[kind] / 2**20:.0f}" if kind in outcome.bounds else "")
        for kind, peak in sorted(outcome.peaks.items())
    ]
    audit = [(check.name, check.looked_at, _verdict(check), check.told) for check in outcome.checks]
    parts = [
        f"# Chaos: {'clean' if outcome.is_clean else 'NOT CLEAN'}",
        format_table(("", ""), about),
        "## Audit",
        format_table(("", "looked at", "", "wrong"), audit),
        "## Failures",
        format_table(("kind", "times", "nothing to fail", "longest time without an acknowledged answer, s"), failures),
        "## Load",
        format_table(("", ""), figures),
        "## Memory",
        format_table(("kind of process", "peak of one, MiB", "bound"), memory),
        *(["## Notes", "\n".join(f"- {note}" for note in outcome.notes)] if outcome.notes else []),
    ]
    return "\n\n".join(parts) + "\n"


def _verdict(check: Check) -> str:
    return "ok" if check.is_ok else "FAILED"


def longest_outages(failures: Sequence[Failure], acknowledged_at: Sequence[float]) -> dict[str, float]:
    """By kind, the longest time without an acknowledged answer; it belongs to the first failure in it or just before.

    A service whose parent was killed goes on answering for a moment.
    """
    times, begun = sorted(acknowledged_at), [failure.at for failure in failures]
    found = {failure.kind: 0.0 for failure in failures}
    for before, after in pairwise(times):
        number = bisect_left(begun, before - _LINGERS)
        if number == len(begun) or begun[number] >= after:
            number -= 1  # nothing failed in it: what failed before?
        if number >= 0:
            kind = failures[number].kind
            found[kind] = max(found[kind], after - before)
    return found


def at(values: Sequence[float], share: int) -> float:
    """The value that so many of a hundred do not exceed."""
    return sorted(values)[min(len(values) * share // 100, len(values) - 1)] if values else 0.0
