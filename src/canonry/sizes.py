"""Sizes in bytes, as people write them."""

from __future__ import annotations

import re
from decimal import Decimal

from canonry.errors import InvalidSize

_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*(?:([KMGT])(I?))?B?")
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


def parse_size(given: int | str) -> int:
    """Return the bytes of a number or a text: kB, MB, GB and TB (or k, M, G, T) are decimal, KiB, MiB … binary."""
    found = _SIZE.fullmatch(str(given).strip().upper())
    if found is None:
        raise InvalidSize(str(given))
    number, unit, binary = found.groups("")
    return int(Decimal(number) * (1024 if binary else 1000) ** _POWERS[unit])
