"""Read the headers of the records of a WARC file; a file that ends inside a record is damaged.

https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_BUFFER_BYTES = 1 << 20
_MAX_HEAD_BYTES = 16 << 20
_SHOWN_BYTES = 40  # of a line that should not be there


class DamagedArchive(ValueError):
    """The file is not a WARC file, or it ends inside a record."""


def read_record_headers(stream: Any) -> Iterator[dict[bytes, bytes]]:
    """Yield the headers of each record whose content is complete; their names are in lower case."""
    buffered = io.BufferedReader(stream, _BUFFER_BYTES)
    try:
        while (headers := _read_headers(buffered)) is not None:
            _skip_content(buffered, headers)
            yield headers
    finally:
        buffered.detach()  # the caller closes the stream


def _read_headers(stream: io.BufferedReader) -> dict[bytes, bytes] | None:
    """Return the headers of the next record; None at the end of the file."""
    line = stream.readline(_MAX_HEAD_BYTES)
    while line and not line.strip():  # two empty lines end a record
        line = stream.readline(_MAX_HEAD_BYTES)
    if not line:
        return None
    if not line.startswith(b"WARC/"):
        raise DamagedArchive(f"a record begins with {line[:_SHOWN_BYTES]!r} instead of WARC/1.0")
    headers: dict[bytes, bytes] = {}
    name, size = b"", 0
    while (line := stream.readline(_MAX_HEAD_BYTES)).strip():
        size += len(line)
        if size > _MAX_HEAD_BYTES:
            raise DamagedArchive(f"the headers of a record have more than {_MAX_HEAD_BYTES} bytes")
        if line[:1] in b" \t":  # the value of the line before continues
            headers[name] = (headers.get(name, b"") + b" " + line.strip()).strip()
            continue
        name, _, value = line.partition(b":")
        name = name.strip().lower()
        headers[name] = value.strip()
    if not line:
        raise DamagedArchive("it ends inside the headers of a record")
    return headers


def _skip_content(stream: io.BufferedReader, headers: dict[bytes, bytes]) -> None:
    length = headers.get(b"content-length", b"")
    if not length.isdigit():
        raise DamagedArchive(f"a record has the Content-Length {length[:_SHOWN_BYTES]!r}")
    left = int(length)
    while left:
        skipped = len(stream.read(min(left, _BUFFER_BYTES)))
        if not skipped:
            raise DamagedArchive(f"it ends inside a record, of which {left} bytes are missing")
        left -= skipped
