"""The options of a bulk job."""

from __future__ import annotations

from dataclasses import replace

import pytest

import canonry
from canonry import bulk
from canonry.bulk import job


@pytest.mark.parametrize(
    ("text", "size"), [("1GB", 10**9), ("512MiB", 512 << 20), ("2g", 2 * 10**9), ("1.5 GB", 15 * 10**8), ("7", 7)]
)
def test_sizes_with_decimal_and_binary_units(text: str, size: int) -> None:
    assert job.parse_size(text) == job.parse_size(size) == size


@pytest.mark.parametrize("text", ["", "GB", "1XB", "-1GB", "1.2.3GB"])
def test_a_wrong_size_is_refused(text: str) -> None:
    with pytest.raises(bulk.BulkError, match="not an amount of memory"):
        job.parse_size(text)


def test_work_folder_and_side_file_are_beside_the_output() -> None:
    made = job.BulkJob(("a",), "x/out.parquet", canonry.policy("bookmark"))
    assert (str(made.work_folder), made.invalid_file) == ("x/.out.parquet.work", "x/out.invalid.parquet")
    assert replace(made, out="x/out").invalid_file == "x/out.invalid.parquet"
    assert made.block_bytes < made.memory // 50
