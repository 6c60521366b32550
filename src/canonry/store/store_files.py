"""The files of a SQLite store: created for their owner only, and closed to others where they are not (contract O)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from canonry.atomic_files import Restriction, create_private_file, create_private_folder, restrict_to_owner
from canonry.settings import get_data_folder

if TYPE_CHECKING:
    from collections.abc import Callable

_SUFFIXES = ("", "-wal", "-shm", "-journal")  # SQLite gives new ones the permissions of the database


def prepare_file(file: Path) -> None:
    """Create the file of a database, and its folder, for their owner only; what exists stays as it is."""
    create_private_folder(file.parent)
    create_private_file(Path(file.resolve()))


def restrict_files(file: Path, say: Callable[[str], object], *, others: tuple[Path, ...] = ()) -> None:
    """Take the rights of other accounts away from a database and `others`, and say so; also if that fails."""
    found = [Path(f"{file}{suffix}") for suffix in _SUFFIXES] + list(others)
    if file.parent == get_data_folder().resolve():  # any other folder may have more in it than stores of canonry
        found.append(file.parent)
    results = {path: restrict_to_owner(path) for path in found}
    if restricted := [path.name for path, result in results.items() if result is Restriction.RESTRICTED]:
        say(f"{file}: other accounts could read this store; now only you can (changed: {', '.join(restricted)})")
    if failed := [str(path) for path, result in results.items() if result is Restriction.FAILED]:
        say(
            f"{file}: other accounts can read this store, and its permissions cannot be changed."
            f" As the owner, run: chmod go= {' '.join(failed)}"
        )
