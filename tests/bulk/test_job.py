"""The options of a bulk job."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import canonry
from canonry.bulk import job
from canonry.sizes import parse_size

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("megabytes", "memory", "partitions", "bits"),
    [
        (100, "512MB", None, 8),
        (1_000, "1GB", None, 8),
        (1_500, "512MB", None, 10),  # 15 MB in each of 256 buckets, of which three do not fit into 212 MB
        (4_400, "512MB", None, 10),
        (10_000, "512MB", None, 12),
        (10_000, "4GB", None, 8),
        (1_000_000, "512MB", None, 12),
        (1, "1GB", 17, 12),
    ],
)
def test_a_bucket_of_runs_fits_into_memory(
    megabytes: int, memory: str, partitions: int | None, bits: int, tmp_path: Path
) -> None:
    file = tmp_path / "urls.txt"
    with file.open("wb") as sparse:
        sparse.truncate(megabytes * 1000**2)
    assert job.choose_bucket_bits([str(file)], parse_size(memory), partitions) == bits


def test_work_folder_and_side_file_are_beside_the_output() -> None:
    made = job.BulkJob(("a",), "x/out.parquet", canonry.policy("bookmark"), "/w/x/.out.parquet.work", "/w")
    assert (made.staging_folder, made.invalid_file) == ("/w/x/.out.parquet.work", "x/out.invalid.parquet")
    assert replace(made, out="x/out").invalid_file == "x/out.invalid.parquet"
    assert made.block_bytes < made.memory // 50
