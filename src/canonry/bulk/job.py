"""What a bulk job is: which files, which column, which policy, where the answer goes (contract S3)."""

from __future__ import annotations

import glob
import os
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from canonry.errors import BulkError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from canonry.core.policy import Policy

LEAST_MEMORY = 512 * 1000**2
# How the place of a row is one number: 23 bits for the file, 40 for the row.
ROW_BITS = 40
_MOST_FILES = 1 << 23
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


class Mode(StrEnum):
    """What a job answers."""

    DEDUPE = "dedupe"  # each canonical URL once, how often it came, and where first
    NORMALIZE = "normalize"  # one row for each input URL
    JOIN = "join"  # the input rows with canonical_url and canonical_hash
    DIFF = "diff"  # the rows for which two policies differ


class Format(StrEnum):
    """How an input file is written."""

    TEXT = "text"
    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True)
class Job:
    """One question to many files; workers on other machines get it as it is."""

    inputs: tuple[str, ...]
    out: str
    policy: Policy
    mode: Mode = Mode.DEDUPE
    column: str = "url"
    against: Policy | None = None
    format: Format | None = None
    memory: int = 1000**3

    @property
    def work(self) -> Path:
        """The hidden folder beside the output: finished parts, what is spilled, the output until it is whole."""
        out = Path(self.out)
        return out.parent / f".{out.name}.work"

    @property
    def invalid(self) -> str:
        """The side file for rows that are no URL."""
        out = Path(self.out)
        return str(out.with_name(f"{out.stem}.invalid{out.suffix or '.parquet'}"))

    @property
    def block(self) -> int:
        """Bytes of input that are looked at together; a few dozen times as much is in memory at once."""
        return min(max(self.memory // 128, 2 << 20), 16 << 20)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is: `reading` counts bytes of the inputs, `writing` rows of the parts."""

    stage: str
    files: int
    of_files: int
    rows: int
    done: int
    of: int


@dataclass(frozen=True, slots=True)
class Report:
    """What came of a job; `invalid` rows are in the side file, `kept` files were done by an earlier run."""

    out: str
    rows: int
    written: int
    invalid: int
    empty: int
    files: int
    kept: int
    invalid_file: str | None


def find_inputs(given: Iterable[str | os.PathLike[str]]) -> tuple[str, ...]:
    """The files that names and patterns stand for, each once, by name."""
    found: set[str] = set()
    for name in [os.fspath(each) for each in given]:
        if os.path.isdir(name):
            raise BulkError(f"{name} is a folder; name its files: {os.path.join(name, '*')}")
        if os.path.exists(name):
            found.add(name)
            continue
        matched = [each for each in glob.glob(name, recursive=True) if os.path.isfile(each)]
        if not matched:
            raise BulkError(f"{name}: no such file" if not glob.has_magic(name) else f"{name}: no file matches")
        found.update(matched)
    if not found:
        raise BulkError("no input files")
    if len(found) >= _MOST_FILES:
        raise BulkError(f"{len(found)} input files; at most {_MOST_FILES - 1} can be told apart")
    return tuple(sorted(found))


def read_size(text: str | int) -> int:
    """Bytes of `1GB`, `512MiB` or a number of them."""
    if isinstance(text, int):
        return text
    read = re.fullmatch(r"([0-9.]+)\s*([KMGT]?)(I?)B?", text.strip().upper())
    try:
        assert read is not None
        return int(float(read[1]) * (1024 if read[3] else 1000) ** _POWERS[read[2]])
    except (AssertionError, ValueError, OverflowError):
        raise BulkError(f"{text!r} is not an amount of memory such as 1GB or 512MiB") from None
