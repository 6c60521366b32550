"""Write files so that readers see a whole file or none, and files that only their owner can read."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
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
    """Yield the path of a new file; move it to `file` at the end, delete it after an exception.

    A private file can be read by its owner only, another keeps the permissions of the file that it replaces. A symlink
    stays, and its target is replaced. A device or a pipe stays too, and gets the content of the new file. No folder is
    made. An OSError names `file`, or its folder if that does not exist.
    """
    part: Path | None = None
    try:
        with _make_stream_part(file) if is_stream(file) else _make_part(file, is_private=is_private) as part:
            yield part
    except OSError as error:
        if error.errno is None or error.filename not in {None, str(part)}:
            raise
        raise OSError(error.errno, error.strerror, str(file)) from error


@contextmanager
def _make_part(file: Path, *, is_private: bool) -> Generator[Path]:
    """Yield a new file, which replaces `file` at the end."""
    target = find_target(file)
    if not target.parent.exists():
        raise FileNotFoundError(errno.ENOENT, "the folder does not exist", str(target.parent))
    part = target.with_name(f".canonry-{secrets.token_hex(8)}.part")
    try:
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600 if is_private else 0o666))
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(file)) from error
    try:
        yield part
        if not is_private:
            copy_permissions(target, part)
        sync(part)
        move_into_place(part, target)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def _make_stream_part(file: Path) -> Generator[Path]:
    """Yield a new file, whose content is written to the device or pipe `file` at the end."""
    with tempfile.TemporaryDirectory(prefix="canonry-") as folder:
        part = Path(folder) / "part"
        yield part
        # Appending keeps what `>> FILE` has, if `file` is /dev/stdout.
        with part.open("rb") as content, open(os.open(file, os.O_WRONLY | os.O_APPEND), "wb") as stream:
            shutil.copyfileobj(content, stream)


def is_stream(file: Path) -> bool:
    """Return whether a path leads to a device, a pipe, or a file that this process has open (`/dev/stdout`)."""
    folder = os.path.realpath(file.parent)
    if folder in {"/dev", "/dev/fd"} or folder.startswith("/proc/"):
        return True
    return file.exists() and not file.is_file() and not file.is_dir()


def find_target(file: Path) -> Path:
    """Follow symlinks to the file to replace, which need not exist; IsADirectoryError for a folder."""
    target = file.resolve()
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
    return target


def copy_permissions(file: Path, part: Path) -> None:
    """Give a new file the permissions of the file that it replaces, if there is one."""
    with suppress(FileNotFoundError):
        part.chmod(stat.S_IMODE(file.stat().st_mode))


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
