"""Checks around the tests that run Chrome."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import loopback
from loopback import ADDRESS

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def refused_connects() -> Iterator[None]:
    """Fail the test if this process connected to a refused address."""
    loopback.CONNECTS.clear()
    yield
    assert set(loopback.CONNECTS) <= {ADDRESS}


@pytest.fixture
def profiles(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fail the test if a profile remains; the folder is the test's own, because other tests run Chromes too."""
    tmp_path_factory.getbasetemp()  # otherwise pytest would create it in that folder
    with tempfile.TemporaryDirectory(prefix="c-") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield
        assert not list(Path(folder).glob("canonry-chrome-*"))
        monkeypatch.undo()
