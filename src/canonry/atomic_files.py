"""Write files so that readers see a whole file or none."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator


@contextmanager
def replace_file(file: Path, *, is_private: bool = False) -> Generator[Path]:
    """Yield a temporary path beside `file`; move it into place at the end, delete it after an exception.

    A private file can be read by its owner only, others get the usual permissions.
    """
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


def _read_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
