"""Group and compare columns of hex sha256 with numpy.

A column of hashes is seen as a matrix of bytes, 64 hex digits in each row. Sorting compares the first 16 digits as
one 64-bit number, which tells nearly all hashes apart; only equal numbers are compared in full.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

HASH_DIGITS = 64


def view_hash_bytes(hashes: Any) -> NDArray[np.uint8]:
    """Return the digits of an Arrow column without nulls as a matrix, without a copy."""
    _, _, data = hashes.buffers()
    if data is None or not len(hashes):
        return np.empty((0, HASH_DIGITS), np.uint8)
    start = hashes.offset * HASH_DIGITS
    return np.frombuffer(data, np.uint8)[start : start + len(hashes) * HASH_DIGITS].reshape(-1, HASH_DIGITS)


def sort_hashes(hashes: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return an order in which the hashes ascend, and where in it each distinct hash starts."""
    if not len(hashes):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    keys = parse_leading_digits(hashes)
    order = np.argsort(keys)
    keys = keys[order]
    is_same = keys[1:] == keys[:-1]
    index = np.flatnonzero(is_same)
    if not np.array_equal(hashes[order[index]], hashes[order[index + 1]]):
        # Different hashes with the same first 64 bits do not happen by chance, but can be constructed.
        whole = np.ascontiguousarray(hashes).view(f"S{HASH_DIGITS}").ravel()
        order = np.argsort(whole)
        is_same = whole[order[1:]] == whole[order[:-1]]
    return order, np.concatenate(([0], np.flatnonzero(~is_same) + 1))


def group_hashes(hashes: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return for each distinct hash, in ascending order, the index of its first row and the number of its rows."""
    order, starts = sort_hashes(hashes)
    if not len(order):
        return order, starts
    return np.minimum.reduceat(order, starts), np.diff(np.append(starts, len(order)))


def find_group_starts(hashes: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the index of the first row of each run of equal hashes; there must be at least one row."""
    words = np.ascontiguousarray(hashes).view(np.uint64)
    is_same: NDArray[np.bool_] = words[1:, 0] == words[:-1, 0]
    index = np.flatnonzero(is_same)
    is_same[index] = (words[index] == words[index + 1]).all(axis=1)
    return np.concatenate(([0], np.flatnonzero(~is_same) + 1))


def is_ascending(hashes: Any, after: str) -> bool:
    """Return whether each hash of an Arrow column is greater than the one before, and the first than `after`."""
    if not len(hashes):
        return True
    keys = parse_leading_digits(view_hash_bytes(hashes))
    unclear = np.flatnonzero(keys[1:] <= keys[:-1]).tolist()
    return hashes[0].as_py() > after and all(hashes[index].as_py() < hashes[index + 1].as_py() for index in unclear)


def parse_leading_digits(hashes: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return the first 16 hex digits of each hash as a number."""
    halves = np.ascontiguousarray(hashes[:, :16]).view(">u8").astype(np.uint64)
    # Eight ASCII digits at once: the low half of a letter is 9 less than its value, and bit 6 marks letters.
    letters = (halves >> np.uint64(6)) & np.uint64(0x0101010101010101)
    halves = (halves & np.uint64(0x0F0F0F0F0F0F0F0F)) + np.uint64(9) * letters
    for shift, mask in ((4, 0x00FF00FF00FF00FF), (8, 0x0000FFFF0000FFFF), (16, 0xFFFFFFFF)):
        halves = (halves | (halves >> np.uint64(shift))) & np.uint64(mask)
    leading: NDArray[np.uint64] = (halves[:, 0] << np.uint64(32)) | halves[:, 1]
    return leading
