"""Format the outcome of a run, as Markdown for a file and as a short table for the terminal."""

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
    from chaos.failures import Failure, Fault
    from chaos.load import Load

# How long a service may still answer after it was killed; not longer than the pause between two failures.
_LINGER_SECONDS = 1.5


@dataclass(slots=True)
class RunOutcome:
    """The results of a run; complete when `checks` are set."""

    seed: int
    seconds: float
    load: Load
    failures: list[Failure] = field(default_factory=list)
    # How often the part that should fail was not running.
    skipped: Counter[Fault] = field(default_factory=Counter)
    checks: list[Check] = field(default_factory=list)
    peaks: dict[str, int] = field(default_factory=dict[str, int])  # bytes by kind of process
    limits: Mapping[str, int] = field(default_factory=dict[str, int])
    facts: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return bool(self.checks) and all(check.is_ok for check in self.checks)


def format_summary(outcome: RunOutcome) -> str:
    """Format the checks as a table for the terminal."""
    rows = [(check.name, check.checked, _format_result(check)) for check in outcome.checks]
    problems = [f"{check.name}: {check.summary}" for check in outcome.checks if not check.is_ok]
    return "\n".join([format_table(("check", "checked", "result"), rows), *problems])


def format_report(outcome: RunOutcome) -> str:
    """Format everything as Markdown."""
    load = outcome.load
    about = [
        ("seed", str(outcome.seed)),
        ("seconds with failures", f"{outcome.seconds:g}"),
        *((name, str(value)) for name, value in describe_machine().items()),
        *outcome.facts,
    ]
    counts = Counter(failure.fault for failure in outcome.failures)
    outages = find_longest_outages(outcome.failures, load.acknowledged_at)
    failures = [
        (fault, str(count), str(outcome.skipped[fault]), f"{outages.get(fault, 0):.1f}")
        for fault, count in sorted(counts.items())
    ]
    figures = [
        ("requests", str(sum(load.requests.values()))),
        ("successful responses", str(len(load.acknowledged_at))),
        ("acknowledged bookmarks", str(len(load.acknowledgements))),
        ("requests given up at the end", str(load.given_up)),
        *((f"status {name}" if name.isdecimal() else f"no response: {name}", str(count))
          for name, count in sorted(load.errors.items())),
        *((f"one request, p{percent}, ms", f"{compute_percentile(load.latencies, percent) * 1000:.0f}") for percent in (50, 99)),
        *((f"with retries, p{percent}, ms", f"{compute_percentile(load.waits, percent) * 1000:.0f}") for percent in (50, 99, 100)),
    ]  # fmt: skip
    memory = [
        (kind, f"{peak / 2**20:.0f}", f"{outcome.limits[kind] / 2**20:.0f}" if kind in outcome.limits else "")
        for kind, peak in sorted(outcome.peaks.items())
    ]
    audit = [(check.name, check.checked, _format_result(check), check.summary) for check in outcome.checks]
    parts = [
        f"# Chaos: {'clean' if outcome.is_clean else 'NOT CLEAN'}",
        format_table(("", ""), about),
        "## Audit",
        format_table(("check", "checked", "result", "problems"), audit),
        "## Failures",
        format_table(
            ("failure", "times", "skipped: not running", "longest time without a successful response, s"), failures
        ),
        "## Load",
        format_table(("", ""), figures),
        "## Memory",
        format_table(("kind of process", "largest process, MiB", "limit, MiB"), memory),
        *(["## Notes", "\n".join(f"- {note}" for note in outcome.notes)] if outcome.notes else []),
    ]
    return "\n\n".join(parts) + "\n"


def _format_result(check: Check) -> str:
    return "ok" if check.is_ok else "FAILED"


def find_longest_outages(failures: Sequence[Failure], acknowledged_at: Sequence[float]) -> dict[Fault, float]:
    """Return the longest time without a successful response for each fault.

    A gap between two responses belongs to the first failure in it or just before: processes whose parent was killed
    still answer for a moment. A gap without one belongs to the last failure before it.
    """
    times, failed_at = sorted(acknowledged_at), [failure.at for failure in failures]
    longest = {failure.fault: 0.0 for failure in failures}
    for before, after in pairwise(times):
        number = bisect_left(failed_at, before - _LINGER_SECONDS)
        if number == len(failed_at) or failed_at[number] >= after:
            number -= 1
        if number >= 0:
            fault = failures[number].fault
            longest[fault] = max(longest[fault], after - before)
    return longest


def compute_percentile(values: Sequence[float], percent: int) -> float:
    """Return the value that so many percent of the values do not exceed; 0 if there are none."""
    return sorted(values)[min(len(values) * percent // 100, len(values) - 1)] if values else 0.0
