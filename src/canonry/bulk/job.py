"""Describe a bulk job: input files, column, policy and output (contract S3)."""

from __future__ import annotations

import glob
import hashlib
import os
import tempfile
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from canonry.bulk.storage import (
    STDIN,
    find_files,
    get_file_state,
    is_file,
    is_folder,
    is_remote,
    join_path,
    make_absolute,
    make_local,
    split_path,
)
from canonry.errors import BadInputFile, BulkError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from canonry.bulk.known_keys import KnownKeys
    from canonry.core.policy import Policy

MIN_MEMORY_BYTES = 512 * 1000**2
# Memory of the process besides the merge: Python, Arrow and the rows that are being written.
_BASE_MEMORY_BYTES = 300 * 1000**2
MEMORY_PER_RUN_BYTE = 5  # a merge needs this many times the memory of its rows
# A row's place is one 63-bit number: 23 bits for the file, 40 bits for the row.
ROW_BITS = 40
MAX_FILES = 1 << 23
MAX_PARTITIONS = 1 << 12  # as many as there can be buckets
_MANY_PARTITIONS = 16  # more of them need 4096 buckets to be of about the same size
BUCKET_BITS = (8, 10, 12)  # to choose from
_RUN_BYTES_PER_INPUT_BYTE = 2.5
_COMPRESSED_SUFFIXES = (".gz", ".zst", ".bz2", ".parquet", ".pq")
_COMPRESSION_FACTOR = 6


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
    CDX = "cdx"  # also CDXJ
    WARC = "warc"


@dataclass(frozen=True, slots=True)
class BulkJob:
    """The options of one job; pickled as it is for workers on other machines."""

    inputs: tuple[str, ...]
    out: str
    policy: Policy
    work_folder: str  # absolute: finished parts and spilled data
    current_folder: str  # in which relative paths of inputs and output are; workers run in other folders
    mode: Mode = Mode.DEDUPE
    column: str = "url"
    against: Policy | None = None
    format: Format | None = None
    memory: int = 1000**3
    bucket_bits: int = BUCKET_BITS[0]  # leading bits of the hash by which runs are put into buckets
    partitions: int | None = None  # files of the output, which is a folder then
    partition_bytes: int | None = None  # or about so many bytes in each of them
    keep: tuple[str, ...] = ()  # columns of the first row that a dedupe keeps
    group_by: str | None = None  # the column by whose values a dedupe groups, instead of by URL
    known: KnownKeys | None = None  # the output of an earlier dedupe

    def get_input_path(self, file: int) -> str:
        """Return the path of an input, which is the same in every folder."""
        return make_absolute(self.inputs[file], self.current_folder)

    @property
    def invalid_file(self) -> str:
        """The side file for invalid rows."""
        folder, name = split_path(self.out)
        stem, suffix = PurePosixPath(name).stem, PurePosixPath(name).suffix
        return join_path(folder, f"{stem}.invalid{suffix or '.parquet'}")

    @property
    def is_partitioned(self) -> bool:
        """Whether the output is a folder of files."""
        return self.partitions is not None or self.partition_bytes is not None

    @property
    def key_column(self) -> str:
        """The column of the output by which a dedupe groups and sorts."""
        return "canonical_hash" if self.group_by is None else "group_hash"

    @property
    def kept_columns(self) -> tuple[str, ...]:
        """The input columns that a dedupe keeps, the column to group by first."""
        return tuple(dict.fromkeys((*(() if self.group_by is None else (self.group_by,)), *self.keep)))

    @property
    def read_columns(self) -> tuple[str, ...] | None:
        """The input columns to read besides the URL; None for all of them."""
        return None if self.mode is Mode.JOIN else self.kept_columns

    @property
    def staging_folder(self) -> str:
        """The hidden folder beside the output, where a local output is made before it is moved into place."""
        folder, name = split_path(make_absolute(self.out, self.current_folder))
        return join_path(folder, f".{name}.work")

    @property
    def first_file_names(self) -> tuple[str, ...]:
        """The files that places of rows refer to: those of the known keys, then the inputs."""
        return self.inputs if self.known is None else (*self.known.first_files, *self.inputs)

    @property
    def input_offset(self) -> int:
        """The number of the first input in `first_file_names`."""
        return 0 if self.known is None else len(self.known.first_files)

    @property
    def block_bytes(self) -> int:
        """The input bytes of one batch; a few dozen times as much is in memory at once."""
        return min(max(self.memory // 128, 2 << 20), 16 << 20)

    @property
    def block_rows(self) -> int:
        """The most rows of one batch: each costs memory of its own, however short its URL is."""
        return max(self.block_bytes // 32, 1)

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
    new: int = 0  # of the written rows, those whose key was not in the known keys
    core: str = "native"  # or "pure Python", which is slower, if a file was read without the C core


def find_inputs(names: Iterable[str | os.PathLike[str]]) -> tuple[str, ...]:
    """Return the files that names and glob patterns match, each once, sorted by name; `-` is standard input."""
    found: set[str] = set()
    for name in [make_local(os.fspath(each)) for each in names]:
        if name == STDIN or is_file(name):
            found.add(name)
            continue
        if is_folder(name):
            raise BulkError(f"{name} is a folder. Name its files, for example {join_path(name, '*')}.")
        matches = find_files(name) if glob.has_magic(name) else []
        if not matches:
            raise BulkError(f"{name}: no such file" if not glob.has_magic(name) else f"{name}: no file matches")
        found.update(matches)
    if not found:
        raise BulkError("There are no input files.")
    for name in found:
        try:
            name.encode()
        except UnicodeEncodeError:
            shown = os.fsencode(name).decode("utf-8", "backslashreplace")
            raise BulkError(f"{shown}: the name is not UTF-8, so the output cannot have it. Rename the file.") from None
    if len(found) >= MAX_FILES:
        raise BulkError(f"{len(found)} input files are too many: one job reads at most {MAX_FILES - 1}.")
    return tuple(sorted(found))


def choose_bucket_bits(inputs: Iterable[str], memory: int, partitions: int | None) -> int:
    """Return the bits of the hash by which runs are put into buckets: a bucket should fit into memory three times.

    There are few choices, because a job that is continued with more files must choose the same.
    """
    total = 0
    for file in inputs:
        size = measure_file(file)
        total += size * (_COMPRESSION_FACTOR if file.lower().endswith(_COMPRESSED_SUFFIXES) else 1)
    if (partitions or 1) > _MANY_PARTITIONS:
        return BUCKET_BITS[-1]
    bucket_bytes = get_merge_bytes(memory) // MEMORY_PER_RUN_BYTE // 3
    run_bytes = total * _RUN_BYTES_PER_INPUT_BYTE
    return next((bits for bits in BUCKET_BITS if run_bytes <= bucket_bytes << bits), BUCKET_BITS[-1])


def get_merge_bytes(memory: int) -> int:
    """Return the share of the memory of a process that its merges may use."""
    return max(memory - _BASE_MEMORY_BYTES, memory // 4)


def measure_file(file: str) -> int:
    """Return the bytes of an input; 0 if they are unknown."""
    try:
        return get_file_state(file).size
    except BadInputFile:  # reported when it is read
        return 0


def choose_work_folder(out: str, engine: str, given: str | None) -> str:
    """Return the folder for unfinished work: hidden beside the output by default, or a new one in the given folder.

    One machine keeps it on a local disk if the output is remote; the machines of a cluster must all see it.
    """
    path = make_absolute(out, os.getcwd())
    folder, name = split_path(path)
    if given is None and (not is_remote(out) or engine == "spark"):
        return join_path(folder, f".{name}.work")
    unique = hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
    if given is not None:
        return join_path(make_absolute(make_local(given), os.getcwd()), f"canonry-bulk-{unique}.work")
    return os.path.join(tempfile.gettempdir(), f"canonry-bulk-{os.getuid()}-{unique}.work")
