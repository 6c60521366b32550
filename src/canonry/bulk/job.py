"""Describe a bulk job: input files, column, policy and output (contract S3)."""

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

MIN_MEMORY_BYTES = 512 * 1000**2
# A row's place is one 63-bit number: 23 bits for the file, 40 bits for the row.
ROW_BITS = 40
_MAX_FILES = 1 << 23
# With so many bytes of input, 4096 buckets of runs instead of 256 keep each bucket small enough for memory.
_MANY_INPUT_BYTES = 16 * 1000**3
_COMPRESSED_SUFFIXES = (".gz", ".zst", ".bz2", ".parquet", ".pq")
_COMPRESSION_FACTOR = 6
_UNIT_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


class Mode(StrEnum):
    """The kind of output."""

    DEDUPE = "dedupe"  # each canonical URL once, with its count and its first row
    NORMALIZE = "normalize"  # one row for each input URL
    JOIN = "join"  # the input rows with canonical_url and canonical_hash
    DIFF = "diff"  # the rows for which two policies differ


class Format(StrEnum):
    """The format of an input file."""

    TEXT = "text"
    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True)
class BulkJob:
    """The options of one job; pickled as it is for workers on other machines."""

    inputs: tuple[str, ...]
    out: str
    policy: Policy
    mode: Mode = Mode.DEDUPE
    column: str = "url"
    against: Policy | None = None
    format: Format | None = None
    memory: int = 1000**3
    bucket_digits: int = 2  # hex digits of the hash by which runs are put into buckets

    @property
    def work_folder(self) -> Path:
        """The hidden folder beside the output: finished parts, spilled data, and the output until it is complete."""
        out = Path(self.out)
        return out.parent / f".{out.name}.work"

    @property
    def invalid_file(self) -> str:
        """The side file for invalid rows."""
        out = Path(self.out)
        return str(out.with_name(f"{out.stem}.invalid{out.suffix or '.parquet'}"))

    @property
    def block_bytes(self) -> int:
        """The input bytes of one batch; a few dozen times as much is in memory at once."""
        return min(max(self.memory // 128, 2 << 20), 16 << 20)

    @property
    def flush_bytes(self) -> int:
        """The bytes of runs that are collected before they are written, so that slices of buckets are not tiny."""
        return min(max(self.memory // 16, 32 << 20), 256 << 20)


class Stage(StrEnum):
    """The step that a job is at."""

    READING = "reading"
    WRITING = "writing"


@dataclass(frozen=True, slots=True)
class BulkProgress:
    """The progress of a job: `done` of `of` input bytes while reading, of part rows while writing."""

    stage: Stage
    files: int
    of_files: int
    rows: int
    done: int
    of: int


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """An input file that was left out because it cannot be read."""

    file: str
    reason: str


@dataclass(frozen=True, slots=True)
class BulkReport:
    """The counts of a finished job; `kept` input files were read by an earlier run that was interrupted.

    `malformed` counts the invalid rows that are not in the format of their file: the file may be damaged.
    """

    out: str
    rows: int
    written: int
    invalid: int
    empty: int
    files: int
    kept: int
    invalid_file: str | None
    policy: str = ""  # its id, which names the overrides file that was used
    malformed: int = 0
    skipped: tuple[SkippedFile, ...] = ()
    core: str = "native"  # or "pure Python", which is slower, if a file was read without the C core


def find_inputs(names: Iterable[str | os.PathLike[str]]) -> tuple[str, ...]:
    """Return the files that names and glob patterns match, each once, sorted by name."""
    found: set[str] = set()
    for name in [os.fspath(each) for each in names]:
        if os.path.isdir(name):
            raise BulkError(f"{name} is a folder. Name its files, for example {os.path.join(name, '*')}.")
        if os.path.exists(name):
            found.add(name)
            continue
        matches = [match for match in glob.glob(name, recursive=True) if os.path.isfile(match)]
        if not matches:
            raise BulkError(f"{name}: no such file" if not glob.has_magic(name) else f"{name}: no file matches")
        found.update(matches)
    if not found:
        raise BulkError("There are no input files.")
    if len(found) >= _MAX_FILES:
        raise BulkError(f"{len(found)} input files are too many: one job reads at most {_MAX_FILES - 1}.")
    return tuple(sorted(found))


def choose_bucket_digits(inputs: Iterable[str]) -> int:
    """Return the hex digits by which the runs of these files are put into buckets."""
    total = 0
    for file in inputs:
        size = os.path.getsize(file) if os.path.exists(file) else 0
        total += size * (_COMPRESSION_FACTOR if file.lower().endswith(_COMPRESSED_SUFFIXES) else 1)
    return 2 if total < _MANY_INPUT_BYTES else 3


def parse_size(text: str | int) -> int:
    """Return the bytes of a size such as `1GB` or `512MiB`; a number is a number of bytes."""
    if isinstance(text, int):
        return text
    match = re.fullmatch(r"([0-9.]+)\s*([KMGT]?)(I?)B?", text.strip().upper())
    try:
        if match is not None:
            return int(float(match[1]) * (1024 if match[3] else 1000) ** _UNIT_POWERS[match[2]])
    except (ValueError, OverflowError):
        pass
    raise BulkError(f"{text!r} is not an amount of memory. Write it like 1GB or 512MiB.")
