"""A service of its own for every test that writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from service import Running, serving
from surfaces.web.visitor import Visitor

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path


@pytest.fixture
def running(tmp_path: Path) -> Generator[Running]:
    """The service in personal mode."""
    with serving(f"sqlite:///{tmp_path / 'canonry.db'}") as found:
        yield found


@pytest.fixture
def visitor(running: Running) -> Visitor:
    return Visitor(running)
