"""A file is replaced as a whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from canonry.atomic_files import replace_file

if TYPE_CHECKING:
    from collections.abc import Generator


def test_the_file_appears_at_the_end(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
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


@pytest.fixture
def umask() -> Generator[None]:
    mask = os.umask(0o027)
    yield
    os.umask(mask)


PERMISSIONS = [
    # why                             private  before  after
    ("new: as the umask says",        False,   None,   0o640),
    ("new and private",               True,    None,   0o600),
    ("replaced: as it was",           False,   0o664,  0o664),
    ("replaced, of the owner only",   False,   0o600,  0o600),
    ("private, whatever it was",      True,    0o664,  0o600),
]  # fmt: skip


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize(("is_private", "before", "after"), [pytest.param(*row[1:], id=row[0]) for row in PERMISSIONS])
def test_permissions(tmp_path: Path, *, is_private: bool, before: int | None, after: int) -> None:
    file = tmp_path / "a.txt"
    if before is not None:
        file.touch()
        file.chmod(before)
    with replace_file(file, is_private=is_private) as part:
        part.write_text("whole")
    assert file.read_text() == "whole"
    assert file.stat().st_mode & 0o777 == after


def test_a_symlink_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for name in ("there.txt", "missing.txt"):
        link, target = tmp_path / f"link to {name}", tmp_path / "data" / name
        link.symlink_to(target)
        (tmp_path / "data" / "there.txt").write_text("old")
        with replace_file(link) as part:
            part.write_text("whole")
        assert link.is_symlink()
        assert target.read_text() == "whole"


def test_a_missing_folder_is_refused_and_named(tmp_path: Path) -> None:
    for is_private in (False, True):
        with pytest.raises(FileNotFoundError) as caught, replace_file(tmp_path / "no" / "x", is_private=is_private):
            raise AssertionError
        assert caught.value.filename == str(tmp_path / "no")
    assert os.listdir(tmp_path) == []


def test_a_folder_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError), replace_file(tmp_path):
        raise AssertionError
    assert os.listdir(tmp_path) == []


def test_an_error_names_the_file(tmp_path: Path) -> None:
    def fill_the_disk() -> None:
        with replace_file(tmp_path / "x"):
            raise OSError(errno.ENOSPC, "No space left on device")

    def write_to_nowhere() -> None:
        with replace_file(Path("/dev/no-such-device")) as part:
            part.touch()

    with pytest.raises(OSError, match="No space left on device: ") as caught:
        fill_the_disk()
    assert caught.value.filename == str(tmp_path / "x")
    with pytest.raises(FileNotFoundError, match="'/dev/no-such-device'"):
        write_to_nowhere()


def test_a_pipe_stays_and_gets_the_content(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with replace_file(pipe, is_private=True) as part:
            part.write_text("whole")
        assert os.read(reader, 100) == b"whole"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    assert os.listdir(tmp_path) == ["pipe"]


def test_an_open_file_gets_the_content_after_its_own(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as log:
        log.write("before\n")
        log.flush()
        with replace_file(Path(f"/dev/fd/{log.fileno()}")) as part:
            part.write_text("whole")
        assert os.fstat(log.fileno()).st_nlink == 1
    assert (tmp_path / "log").read_text() == "before\nwhole"


def test_the_longest_file_name(tmp_path: Path) -> None:
    file = tmp_path / ("x" * 255)
    with replace_file(file) as part:
        part.write_text("whole")
    assert file.read_text() == "whole"
