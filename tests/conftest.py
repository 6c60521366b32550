"""What all tests share: hypothesis without a clock, and no silent skips."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

import hypothesis
import pytest

import corpora
import postgres

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

hypothesis.settings.register_profile(
    "canonry",
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(hypothesis.HealthCheck),
)
hypothesis.settings.load_profile("canonry")


@pytest.fixture(scope="session")
def postgres_url() -> Generator[str]:
    """A PostgreSQL server; skipped where the part is missing."""
    with postgres.running() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[str]:
    """A new, empty database of each kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'canonry.db'}"
    else:
        with postgres.fresh_database(request.getfixturevalue("postgres_url")) as url:
            yield url


def pytest_report_header() -> str:
    return f"corpus of real URLs: {corpora.describe()}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name each missing part, the command that adds it, and how many tests want it."""
    reasons = Counter(report.longrepr[2] for report in terminalreporter.stats.get("skipped", []))
    for reason, tests in reasons.most_common():
        terminalreporter.write_line(f"skipped {tests}: {reason.removeprefix('Skipped: ')}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CANONRY_REQUIRE_ALL") and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = 1
