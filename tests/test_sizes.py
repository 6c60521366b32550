"""Sizes are read in one way everywhere: settings of feeds, `--memory`, `--partition-size`."""

from __future__ import annotations

import pytest

from canonry.errors import InvalidSize
from canonry.sizes import parse_size

CASES = [
    # why                    given        bytes
    ("a number",             1000,        1000),
    ("digits",               "7",         7),
    ("bytes",                "7 B",       7),
    ("decimal",              "500kB",     500_000),
    ("decimal, letter only", "500k",      500_000),
    ("decimal mega",         "5MB",       5 * 10**6),
    ("decimal giga",         "1GB",       10**9),
    ("lower case",           "2g",        2 * 10**9),
    ("decimal tera",         "1T",        10**12),
    ("fraction",             "1.5 GB",    15 * 10**8),
    ("binary",               "512MiB",    512 * 2**20),
    ("binary kibi",          "1 KiB",     1024),
    ("binary, no B",         "2gi",       2 * 2**30),
    ("exact",                "999999999999999", 999_999_999_999_999),
    ("part of a byte",       "0.0015k",   1),
]  # fmt: skip


@pytest.mark.parametrize(("given", "size"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_size_is_read(given: int | str, size: int) -> None:
    assert parse_size(given) == size


@pytest.mark.parametrize(
    "given", ["", "GB", "MB", "1XB", "-1GB", -1, "1.2.3GB", ".", "5 megabytes", "1iB", "٣", "1e9", "9" * 400, True]
)
def test_a_text_that_is_no_size_is_refused(given: int | str) -> None:
    with pytest.raises(InvalidSize, match="is not a size"):
        parse_size(given)
