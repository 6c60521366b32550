"""A file is replaced as a whole or not at all."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from canonry.atomic_files import replace_file

if TYPE_CHECKING:
    from pathlib import Path


def test_the_file_appears_at_the_end(tmp_path: Path) -> None:
    file = tmp_path / "new" / "a.txt"
    with replace_file(file) as part:
        part.write_text("whole")
        assert not file.exists()
    assert file.read_text() == "whole"
    assert os.listdir(file.parent) == ["a.txt"]


def test_an_exception_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("old")

    def write_half() -> None:
        with replace_file(file) as part:
            part.write_text("half")
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        write_half()
    assert file.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize(("is_private", "mode"), [(True, 0o600), (False, 0o640)])
def test_permissions(tmp_path: Path, *, is_private: bool, mode: int) -> None:
    mask = os.umask(0o027)
    try:
        with replace_file(tmp_path / "a.txt", is_private=is_private) as part:
            part.write_text("whole")
    finally:
        os.umask(mask)
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == mode
