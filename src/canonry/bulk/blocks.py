"""Streams cut into blocks of whole lines, and blocks into columns of lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow  # pyright: ignore[reportMissingTypeStubs]

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

pa: Any = pyarrow  # it has no types
# A line longer than this is refused instead of held in memory.
LONGEST_LINE = 16 << 20
_BOM = b"\xef\xbb\xbf"
_KEPT = 1 << 14  # bytes of a line that is too long


@dataclass(frozen=True, slots=True)
class LongLine:
    """A line that was skipped because of its length, by its start."""

    start: bytes


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of a block that are not empty, with their numbers from 0; and how many there were in all."""

    texts: Any
    numbers: NDArray[np.int64]
    count: int


def line_blocks(stream: Any, size: int) -> Iterator[bytes | LongLine]:
    """Whole lines, about `size` bytes together; a line that is too long by itself, without its end."""
    held = b"" if (start := stream.read(len(_BOM))) == _BOM else bytes(start)
    while chunk := stream.read(size):
        cut = chunk.rfind(b"\n") + 1
        if cut:
            block, held = held + chunk[:cut], chunk[cut:]
            first = block.find(b"\n")
            if first > LONGEST_LINE:
                yield LongLine(block[:_KEPT])
                block = block[first + 1 :]
            if block:
                yield block
        else:
            held += chunk
        if len(held) > LONGEST_LINE:
            yield LongLine(held[:_KEPT])
            held = _after_line(stream, size)
    if held:
        yield held


def _after_line(stream: Any, size: int) -> bytes:
    """What was read behind the end of the line we are in."""
    while chunk := stream.read(size):
        if cut := chunk.find(b"\n") + 1:
            return bytes(chunk[cut:])
    return b""


def split_lines(block: bytes) -> Lines:
    """Lines end in LF or CR LF, the last one perhaps in nothing."""
    data = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(data == 10)
    if not block.endswith(b"\n"):
        ends = np.append(ends, len(data))
    starts = np.empty_like(ends)
    starts[0], starts[1:] = 0, ends[:-1] + 1
    lengths = ends - starts
    is_kept = np.ones(len(data) + 1, np.bool_)
    is_kept[ends] = False
    if b"\r" in block:
        has_return = (lengths > 0) & (data[np.maximum(ends - 1, 0)] == 13)
        is_kept[ends[has_return] - 1] = False
        lengths = lengths - has_return
    numbers = np.flatnonzero(lengths)
    offsets = np.zeros(len(numbers) + 1, np.int32)
    np.cumsum(lengths[numbers], out=offsets[1:])
    return Lines(_strings(len(numbers), offsets, data[is_kept[:-1]]), numbers, len(ends))


def raw_strings(texts: Sequence[bytes | None]) -> Any:
    """A column of texts whose bytes nobody has looked at: what is no UTF-8 is no URL, and comes out as such."""
    made = pa.array(texts, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(made), made.buffers(), made.null_count)


def _strings(count: int, offsets: NDArray[np.int32], data: NDArray[np.uint8]) -> Any:
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)], 0)
