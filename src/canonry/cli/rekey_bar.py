"""The progress bar of a rekey."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

from canonry.cli import render

if TYPE_CHECKING:
    from canonry.rekey.entry_rekey import RekeyProgress


class RekeyBar:
    """A progress bar that appears after one second."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._start = time.monotonic() + 1
        self._bar: render.ProgressBar | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.clear()

    def show(self, progress: RekeyProgress) -> None:
        if time.monotonic() >= self._start:
            self._bar = self._bar or render.ProgressBar(progress.total)
            self._bar.show(progress.done, self._label)
