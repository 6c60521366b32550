"""Files on local disks, on storage that pyarrow or fsspec reach (s3://, gs://, hdfs://, …), and standard input.

A path with a scheme is remote. What follows the bucket is a key as it is: nothing in it is decoded, and options such as
the endpoint come from the environment (AWS_ENDPOINT_URL, AWS_REGION, …) or from the machine's configuration.
"""

from __future__ import annotations

import glob
import io
import os
import re
import shutil
import stat
import time
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow.fs  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.parquet  # pyright: ignore[reportMissingTypeStubs]

from canonry.atomic_files import is_stream, move_into_place, sync
from canonry.bulk.disk_errors import get_first_line
from canonry.errors import BadInputFile, BulkError

if TYPE_CHECKING:
    from collections.abc import Generator

pa: Any = pyarrow  # pyarrow has no type stubs
pa_fs: Any = pyarrow.fs
pq: Any = pyarrow.parquet
STDIN = "-"
NEW_FILE_PREFIX = "making-"
_REMOTE_PATH = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://([^/]*)/?(.*)", re.DOTALL)
_LOCAL_SCHEME = "file://"
_ARROW_SCHEMES = frozenset({"s3", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs"})
_ROOT_PATH_SCHEMES = frozenset({"hdfs", "viewfs"})  # their paths start with a slash, and have no bucket


@dataclass(frozen=True, slots=True)
class FileState:
    """The size and modification time of a file, by which a change is noticed."""

    size: int
    changed: int


@dataclass(frozen=True, slots=True)
class _RemotePath:
    """A path inside a remote file system."""

    files: Any
    path: str


def is_remote(path: str) -> bool:
    """Return whether a path names its storage by a scheme."""
    return _REMOTE_PATH.match(path) is not None and not path.startswith(_LOCAL_SCHEME)


def make_local(path: str) -> str:
    """Return the path of a file:// address; other paths as they are."""
    return unquote(path.removeprefix(_LOCAL_SCHEME)) if path.startswith(f"{_LOCAL_SCHEME}/") else path


def follow_symlink(path: str) -> str:
    """Return the target of a symlink, so that the link stays when the file is replaced; other paths as they are."""
    return os.path.realpath(path) if os.path.islink(path) and not is_stream(Path(path)) else path


def make_absolute(path: str, folder: str) -> str:
    """Return a path that means in every folder what `path` means in this one."""
    return path if is_remote(path) or path == STDIN else os.path.normpath(os.path.join(folder, path))


def join_path(folder: str, name: str) -> str:
    """Return the path of a file in a folder."""
    return f"{folder.rstrip('/')}/{name}" if is_remote(folder) else os.path.join(folder, name)


def split_path(path: str) -> tuple[str, str]:
    """Return the folder and the name of a file."""
    if not is_remote(path):
        return os.path.split(path)
    folder, _, name = path.rstrip("/").rpartition("/")
    return folder, name


def _locate(path: str) -> _RemotePath:
    match = _REMOTE_PATH.match(path)
    assert match is not None
    scheme, host, rest = match[1].lower(), match[2], match[3]
    if not host and scheme in _ARROW_SCHEMES - _ROOT_PATH_SCHEMES:
        raise BulkError(f"{path}: the bucket is missing. Write {scheme}://BUCKET/NAME.")
    files = _connect(scheme, host)
    if scheme in _ROOT_PATH_SCHEMES:
        return _RemotePath(files, f"/{rest}")
    if scheme in _ARROW_SCHEMES:
        return _RemotePath(files, f"{host}/{rest}".rstrip("/"))
    return _RemotePath(files, files.handler.fs._strip_protocol(path))  # noqa: SLF001


@lru_cache(maxsize=64)
def _connect(scheme: str, host: str) -> Any:
    """Return the file system of a scheme and a bucket or host."""
    if scheme in _ARROW_SCHEMES:
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        try:
            if scheme == "s3" and endpoint:  # pyarrow takes it from addresses only
                return pa_fs.S3FileSystem(endpoint_override=endpoint, region=os.environ.get("AWS_REGION"))
            return pa_fs.FileSystem.from_uri(f"{scheme}://{host}")[0]
        except (pa.ArrowException, OSError) as error:
            raise BulkError(f"{scheme}://{host} cannot be reached: {get_first_line(error)}") from None
    try:
        fsspec: Any = import_module("fsspec")  # it has no type stubs
        opened: Any = fsspec.filesystem(scheme)
    except (ImportError, ValueError) as error:
        known = ", ".join(sorted(_ARROW_SCHEMES))
        raise BulkError(f"{scheme}:// is not known here ({error}). Known: {known}; fsspec adds others.") from None
    except TypeError:  # arguments are missing, for github:// and others
        raise BulkError(
            f"{scheme}:// needs options that a path cannot give. Copy the file to another storage."
        ) from None
    return pa_fs.PyFileSystem(pa_fs.FSSpecHandler(opened))


def open_input(path: str) -> Any:
    """Open a file for reading bytes; standard input for `-`."""
    if path == STDIN:
        return os.fdopen(os.dup(0), "rb")  # which the caller closes
    if not is_remote(path):
        return open(path, "rb")
    place = _locate(path)
    return place.files.open_input_file(place.path)


@contextmanager
def open_parquet(path: str) -> Generator[Any]:
    """Open a Parquet file with little buffering."""
    with (
        open_input(path) if is_remote(path) else nullcontext(path) as source,
        pq.ParquetFile(source, buffer_size=1 << 20, pre_buffer=False) as opened,
    ):
        yield opened


def read_range(file: Any, start: int, size: int) -> bytes:
    """Return `size` bytes of an open file from `start`, fewer at its end."""
    if isinstance(file, io.BufferedReader):
        return os.pread(file.fileno(), size, start)
    data: bytes = file.read_at(size, start)
    return data


def read_bytes(path: str) -> bytes:
    """Return the contents of a small file."""
    with open_input(path) as file:
        return bytes(file.read())


def get_file_state(file: str) -> FileState:
    """Return the size and modification time by which a changed input is noticed; zeros for standard input and pipes."""
    if file == STDIN:
        return FileState(0, 0)
    try:
        if not is_remote(file):
            status = os.stat(file)
            if not stat.S_ISREG(status.st_mode):  # a pipe
                return FileState(0, 0)
            return FileState(status.st_size, status.st_mtime_ns)
        info = _get_info(file)
        if info.type != pa_fs.FileType.File:
            raise FileNotFoundError(2, "no such file")
        return FileState(info.size or 0, info.mtime_ns or 0)
    except OSError as error:
        message = error.strerror or get_first_line(error)
        raise BadInputFile(file, f"{file} cannot be read: {message}") from None


def _get_info(path: str) -> Any:
    place = _locate(path)
    return place.files.get_file_info(place.path)


def is_file(path: str) -> bool:
    """Return whether a file exists; a symbolic link that leads nowhere counts."""
    if is_remote(path):
        return bool(_get_info(path).type == pa_fs.FileType.File)
    return os.path.lexists(path) and not os.path.isdir(path)


def is_folder(path: str) -> bool:
    """Return whether a folder exists; on storage without folders, whether a key starts with the path and a slash."""
    if is_remote(path):
        return bool(_get_info(path).type == pa_fs.FileType.Directory)
    return os.path.isdir(path)


def is_same_file(path: str, other: str) -> bool:
    """Return whether two paths name one existing file."""
    if is_remote(path) or is_remote(other) or STDIN in (path, other):
        return path == other
    return os.path.exists(path) and os.path.exists(other) and os.path.samefile(path, other)


def find_files(pattern: str) -> list[str]:
    """Return the files that a glob pattern matches, sorted."""
    if not is_remote(pattern):
        return sorted(match for match in glob.glob(pattern, recursive=True) if os.path.isfile(match))
    fixed = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
    folder = fixed.rpartition("/")[0]
    if not is_remote(folder):  # a wildcard in the host or bucket, which cannot be listed
        raise BulkError(f"{pattern}: no such file. *, ? and [ are wildcards only after the host or bucket.")
    matches = re.compile(_translate_pattern(pattern)).fullmatch
    return [path for path in _list_remote(folder, is_recursive=True) if matches(path)]


def list_files(folder: str, suffix: str = "") -> list[str]:
    """Return the files of a folder, sorted."""
    if is_remote(folder):
        found = _list_remote(folder, is_recursive=False)
    else:
        found = sorted(join_path(folder, each.name) for each in os.scandir(folder) if each.is_file())
    return [path for path in found if path.endswith(suffix)]


def _list_remote(folder: str, *, is_recursive: bool) -> list[str]:
    place = _locate(folder)
    selector = pa_fs.FileSelector(place.path, allow_not_found=True, recursive=is_recursive)
    found = place.files.get_file_info(selector)
    start = len(place.path.rstrip("/"))
    return sorted(folder.rstrip("/") + info.path[start:] for info in found if info.type == pa_fs.FileType.File)


def _translate_pattern(pattern: str) -> str:
    """Return a glob pattern as a regular expression; as in `glob`, wildcards do not match hidden files and folders."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[[^\]]+\])", pattern)
    not_hidden, folders = r"(?:(?<!/)|(?!\.))", r"(?:[^/.][^/]*/)*"
    special = {
        "**/": folders,
        "**": rf"{folders}[^/.][^/]*",
        "*": f"{not_hidden}[^/]*",
        "?": f"{not_hidden}[^/]",
    }
    return "".join(
        special[part] if part in special else part.replace("[!", "[^") if part.startswith("[") else re.escape(part)
        for part in parts
    )


def make_folder(path: str) -> None:
    """Create a folder if it does not exist."""
    if not is_remote(path):
        os.makedirs(path, exist_ok=True)
        return
    place = _locate(path)
    # Object storage has no folders, and an object that stands for one would be left over.
    if not isinstance(place.files, pa_fs.S3FileSystem | pa_fs.GcsFileSystem):
        place.files.create_dir(place.path, recursive=True)


def delete_file(path: str) -> None:
    """Delete a file if it exists."""
    if not is_remote(path):
        Path(path).unlink(missing_ok=True)
        return
    place = _locate(path)
    with suppress(FileNotFoundError):
        if place.files.get_file_info(place.path).type == pa_fs.FileType.File:
            place.files.delete_file(place.path)


def delete_folder(path: str) -> None:
    """Delete a folder and all files in it, as far as possible."""
    if not is_remote(path):
        shutil.rmtree(path, ignore_errors=True)
        return
    place = _locate(path)
    with suppress(OSError):
        place.files.delete_dir(place.path)


class NewFile:
    """A file that appears under its name when it is complete.

    A local file is written under a temporary name beside it. Remote storage shows a file when it is closed; an error
    deletes what was written. Two tasks of a cluster may write the same file: the last one wins, with the same bytes.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._temporary: str | None = None
        if is_remote(path):
            place = _locate(path)
            try:
                self.stream = place.files.open_output_stream(place.path)
            except NotImplementedError:  # of fsspec, for http:// and others
                raise BulkError(f"{split_path(path)[0]} can only be read. Choose another OUT.") from None
        else:
            folder, name = os.path.split(path)
            stem = f"{NEW_FILE_PREFIX}{name}.{os.getpid()}.{os.urandom(4).hex()}"
            self._temporary = os.path.join(folder, stem)
            self.stream = open(self._temporary, "wb")  # noqa: SIM115

    def complete(self) -> None:
        """Close the file, sync it to disk and give it its name."""
        self.stream.close()
        if self._temporary is not None:
            sync(Path(self._temporary))
            move_into_place(Path(self._temporary), Path(self.path))

    def discard(self) -> None:
        """Delete the file after an error."""
        with suppress(OSError, pa.ArrowException):  # the disk may be full
            if self._temporary is None:
                self.stream.write(b"incomplete")  # closing shows the file, which must not pass for a complete one
            self.stream.close()
        with suppress(OSError, pa.ArrowException):
            delete_file(self._temporary or self.path)


def check_writable(path: str) -> None:
    """Raise BulkError if the storage of a path can only be read.

    On storage that fsspec reaches, a file is made and deleted; all that pyarrow reaches by itself can be written.
    """
    if not is_remote(path) or not isinstance(_locate(path).files, pa_fs.PyFileSystem):
        return
    folder, name = split_path(path)
    with suppress(OSError, ValueError):  # reported when the output is written: its folder may be made until then
        NewFile(join_path(folder, f"{NEW_FILE_PREFIX}{name}.{os.urandom(4).hex()}")).discard()


@contextmanager
def create_file(path: str) -> Generator[Any]:
    """Yield the stream of a new file, which appears when it is complete."""
    new_file = NewFile(path)
    try:
        yield new_file.stream
        new_file.complete()
    except BaseException:
        new_file.discard()
        raise


def move_folder(folder: Path, target: Path) -> None:
    """Give a folder its final name; a folder of that name is replaced."""
    old = target.with_name(f".{target.name}.{os.getpid()}.{time.time_ns()}.old")
    if target.is_dir():
        target.rename(old)
    folder.rename(target)
    sync(target.parent)
    shutil.rmtree(old, ignore_errors=True)
