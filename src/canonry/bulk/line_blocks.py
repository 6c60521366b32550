"""Cut a byte stream into blocks of whole lines, and a block into an Arrow column of lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow  # pyright: ignore[reportMissingTypeStubs]

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

pa: Any = pyarrow  # pyarrow has no type stubs
# A longer line is reported as invalid instead of being held in memory.
MAX_LINE_BYTES = 16 << 20
_BOM = b"\xef\xbb\xbf"
_SHOWN_LINE_BYTES = 1 << 14  # the start of a line that is too long


@dataclass(frozen=True, slots=True)
class LongLine:
    """A line longer than MAX_LINE_BYTES, of which only the start was kept."""

    start: bytes


@dataclass(frozen=True, slots=True)
class BlockLines:
    """The non-empty lines of a block, their numbers from 0, and the count of all lines."""

    texts: Any
    numbers: NDArray[np.int64]
    count: int


def read_line_blocks(stream: Any, size: int) -> Iterator[bytes | LongLine]:
    """Yield blocks of whole lines of about `size` bytes; a line that is too long comes on its own.

    A byte order mark at the start is skipped.
    """
    pending = b"" if (start := stream.read(len(_BOM))) == _BOM else bytes(start)
    while chunk := stream.read(size):
        cut = chunk.rfind(b"\n") + 1
        if cut:
            block, pending = pending + chunk[:cut], chunk[cut:]
            first = block.find(b"\n")
            if first > MAX_LINE_BYTES:
                yield LongLine(block[:_SHOWN_LINE_BYTES])
                block = block[first + 1 :]
            if block:
                yield block
        else:
            pending += chunk
        if len(pending) > MAX_LINE_BYTES:
            yield LongLine(pending[:_SHOWN_LINE_BYTES])
            pending = _skip_line(stream, size)
    if pending:
        yield pending


def _skip_line(stream: Any, size: int) -> bytes:
    """Read to the end of the current line; return the bytes read after it."""
    while chunk := stream.read(size):
        if cut := chunk.find(b"\n") + 1:
            return bytes(chunk[cut:])
    return b""


def split_lines(block: bytes, max_lines: int) -> Iterator[BlockLines]:
    """Yield the lines of a block, `max_lines` at most at once; they end in LF or CR LF, the last one may lack it."""
    data = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(data == 10)
    if not block.endswith(b"\n"):
        ends = np.append(ends, len(data))
    start = 0
    for first in range(0, len(ends), max_lines):
        some_ends = ends[first : first + max_lines]
        end = int(some_ends[-1]) + 1
        yield _make_lines(data[start:end], some_ends - start)
        start = end


def _make_lines(data: NDArray[np.uint8], ends: NDArray[np.int64]) -> BlockLines:
    starts = np.empty_like(ends)
    starts[0], starts[1:] = 0, ends[:-1] + 1
    lengths = ends - starts
    is_text = np.ones(len(data) + 1, np.bool_)
    is_text[ends] = False
    if (data == 13).any():
        has_return = (lengths > 0) & (data[np.maximum(ends - 1, 0)] == 13)
        is_text[ends[has_return] - 1] = False
        lengths = lengths - has_return
    numbers = np.flatnonzero(lengths)
    offsets = np.zeros(len(numbers) + 1, np.int32)
    np.cumsum(lengths[numbers], out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data[is_text[:-1]])]
    return BlockLines(pa.Array.from_buffers(pa.string(), len(numbers), buffers, 0), numbers, len(ends))


def make_unchecked_strings(texts: Sequence[bytes | None]) -> Any:
    """Return a string column of bytes that were not checked: `arrow.normalize` gives null where they are not UTF-8."""
    column = pa.array(texts, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(column), column.buffers(), column.null_count)
