"""Write files so that readers see a whole file or none, and files that only their owner can read."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

_RIGHTS_OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@contextmanager
def replace_file(file: Path, *, is_private: bool = False) -> Generator[Path]:
    """Yield a temporary path beside `file`; move it into place at the end, delete it after an exception.

    A private file can be read by its owner only, others get the usual permissions.
    """
    if is_private:
        create_private_folder(file.parent)
    else:
        file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    os.close(handle)
    part = Path(name)
    try:
        yield part
        if not is_private:
            part.chmod(0o666 & ~_read_umask())
        sync(part)
        move_into_place(part, file)
    finally:
        part.unlink(missing_ok=True)


def move_into_place(part: Path, file: Path) -> None:
    """Rename a complete file in one step, and wait until the new name is on disk."""
    part.replace(file)
    sync(file.parent)


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def create_private_folder(folder: Path) -> None:
    """Create a folder and its missing parents for their owner only; folders that exist keep their permissions."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(0o700, exist_ok=True)


def create_private_file(file: Path) -> None:
    """Create an empty file that only its owner can read; a file that exists stays as it is."""
    with suppress(FileExistsError):
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


class Restriction(StrEnum):
    """The result of `restrict_to_owner`."""

    NONE = "none"  # others had no rights, or there is no such file
    RESTRICTED = "restricted"
    FAILED = "failed"  # others still have rights


def restrict_to_owner(path: Path) -> Restriction:
    """Take the rights of all other accounts away from a file or folder."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        if not mode & _RIGHTS_OF_OTHERS:
            return Restriction.NONE
        path.chmod(mode & ~_RIGHTS_OF_OTHERS)
        has_failed = path.stat().st_mode & _RIGHTS_OF_OTHERS  # some file systems ignore permissions
    except FileNotFoundError:
        return Restriction.NONE
    except OSError:
        return Restriction.FAILED
    return Restriction.FAILED if has_failed else Restriction.RESTRICTED


def _read_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
