"""A database of one kind, and workers that do not outlive the test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import postgres
from jobs.running import Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path


@pytest.fixture
def postgres_database(postgres_url: str) -> Generator[str]:
    with postgres.create_database(postgres_url) as url:
        yield url


@pytest.fixture
def workers(tmp_path: Path) -> Generator[Callable[[str], Workers]]:
    """Workers of a database, given its URL."""
    opened: list[Workers] = []

    def open_workers(url: str) -> Workers:
        folder = tmp_path / f"jobs-{len(opened)}"
        folder.mkdir()
        opened.append(Workers(url, folder))
        return opened[-1]

    yield open_workers
    for each in opened:
        each.close()
