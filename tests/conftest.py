"""Fixtures of all tests, a hypothesis profile without deadlines, and a report of skipped tests."""

from __future__ import annotations

import os
import shutil
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
    """The URL of a PostgreSQL server; tests are skipped where it is missing."""
    with postgres.run_server() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[str]:
    """A new, empty database of each kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'empty.db'}"
    else:
        with postgres.create_database(request.getfixturevalue("postgres_url")) as url:
            yield url


@pytest.fixture(scope="session")
def _sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    _create_tables(f"sqlite:///{folder / 'canonry.db'}")
    return folder


@pytest.fixture(scope="session")
def _postgres_template(postgres_url: str) -> Generator[str]:
    with postgres.create_database(postgres_url) as url:
        _create_tables(url)
        yield url


def _create_tables(url: str) -> None:
    from canonry.jobs.queues import Jobs
    from canonry.store.database import Database

    with Database(url) as database, Jobs(database):
        """Opening both creates their tables."""


@pytest.fixture
def sqlite_url(_sqlite_template: Path, tmp_path: Path) -> str:
    """A new SQLite store with its tables, copied because creating them takes longer."""
    shutil.copytree(_sqlite_template, tmp_path, dirs_exist_ok=True)
    return f"sqlite:///{tmp_path / 'canonry.db'}"


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> Generator[str]:
    """A new store on each kind of database, with its tables."""
    if request.param == "sqlite":
        yield request.getfixturevalue("sqlite_url")
    else:
        server, made = (request.getfixturevalue(name) for name in ("postgres_url", "_postgres_template"))
        with postgres.create_database(server, made) as url:
            yield url


def pytest_report_header() -> str:
    return f"corpus of real URLs: {corpora.describe_corpus()}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many tests were skipped, for each reason, which names the command that installs the missing part."""
    reasons = Counter(report.longrepr[2] for report in terminalreporter.stats.get("skipped", []))
    for reason, tests in reasons.most_common():
        terminalreporter.write_line(f"skipped {tests}: {reason.removeprefix('Skipped: ')}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CANONRY_REQUIRE_ALL") and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = 1
