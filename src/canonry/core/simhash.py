"""The simhash of a text: 64 bits, of which few differ between texts that differ in few words (contract E3).

docs/fingerprint.md defines it with test vectors, so that programs in other languages compute the same number.
"""

from __future__ import annotations

_SHINGLE_WORDS = 3
_MASK = 0xFFFF_FFFF_FFFF_FFFF
_FNV_OFFSET, _FNV_PRIME = 0xCBF2_9CE4_8422_2325, 0x0000_0100_0000_01B3


def simhash(text: str) -> int:
    """Return the simhash of a text whose words are separated by single spaces; 0 for an empty text.

    Every run of three words is hashed, spaces included. Bit n is set if more than half of the hashes have it set.
    """
    if not text:
        return 0
    data = text.encode()
    starts = [0, *(place + 1 for place, byte in enumerate(data) if byte == 32)]
    ends = [*(start - 1 for start in starts[1:]), len(data)]
    first_end = min(_SHINGLE_WORDS, len(starts)) - 1  # a text of one or two words is one shingle
    shingles = [data[start:end] for start, end in zip(starts, ends[first_end:], strict=False)]
    hashes = b"".join([_hash(shingle).to_bytes(8, "little") for shingle in shingles])
    answer = 0
    for place in range(8):
        answer |= _find_majority(hashes[place::8]) << (8 * place)
    return answer


def _find_majority(column: bytes) -> int:
    """Return the byte whose bits are those that more than half of the bytes have set."""
    counts = [column.count(byte) for byte in range(256)]
    totals = [sum(count for byte, count in enumerate(counts) if byte >> bit & 1) for bit in range(8)]
    return sum(1 << bit for bit, total in enumerate(totals) if 2 * total > len(column))


def _hash(shingle: bytes) -> int:
    """Return FNV-1a (64 bits) of the bytes, then mixed so that every bit depends on every byte.

    The mixing is fmix64 of MurmurHash3: without it the high bits of short texts are hardly ever set.
    """
    value = _FNV_OFFSET
    for byte in shingle:
        value = (value ^ byte) * _FNV_PRIME & _MASK
    value = (value ^ value >> 33) * 0xFF51_AFD7_ED55_8CCD & _MASK
    value = (value ^ value >> 33) * 0xC4CE_B9FE_1A85_EC53 & _MASK
    return value ^ value >> 33
