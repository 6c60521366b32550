"""What all tests share: hypothesis without a clock, and no silent skips."""

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
    """A PostgreSQL server; skipped where the part is missing."""
    with postgres.running() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[str]:
    """A new, empty database of each kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'empty.db'}"
    else:
        with postgres.fresh_database(request.getfixturevalue("postgres_url")) as url:
            yield url


@pytest.fixture(scope="session")
def _made_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    _make(f"sqlite:///{folder / 'canonry.db'}")
    return folder


@pytest.fixture(scope="session")
def _made_postgres(postgres_url: str) -> Generator[str]:
    with postgres.fresh_database(postgres_url) as url:
        _make(url)
        yield url


def _make(url: str) -> None:
    from canonry.jobs.queues import Jobs
    from canonry.store.database import Database

    with Database(url) as database, Jobs(database):
        """Both make their tables."""


@pytest.fixture
def sqlite_url(_made_sqlite: Path, tmp_path: Path) -> str:
    """A store of its own in a file, with its tables: to copy them is quicker than to make them."""
    shutil.copytree(_made_sqlite, tmp_path, dirs_exist_ok=True)
    return f"sqlite:///{tmp_path / 'canonry.db'}"


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> Generator[str]:
    """A store of its own on each kind of database, with its tables."""
    if request.param == "sqlite":
        yield request.getfixturevalue("sqlite_url")
    else:
        server, made = (request.getfixturevalue(name) for name in ("postgres_url", "_made_postgres"))
        with postgres.fresh_database(server, made) as url:
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
