"""The Parquet writer of the output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pa: Any = pytest.importorskip("pyarrow")
pq: Any = pytest.importorskip("pyarrow.parquet")
from canonry.bulk import parquet_output  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path


def test_the_bytes_do_not_depend_on_the_sizes_of_the_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_output, "_ROW_GROUP_ROWS", 1000)
    schema = pa.schema([("url", pa.string())])
    table = pa.table({"url": [f"https://a.com/{number}" for number in range(5300)]})
    written = []
    for size in (1, 999, 1000, 2500, 9999):
        with parquet_output.open_parquet_writer(str(tmp_path / "x.parquet"), schema) as writer:
            for at in range(0, 5300, size):
                writer.add(table.slice(at, size))
        written.append((tmp_path / "x.parquet").read_bytes())
        assert writer.rows == 5300
    assert len(set(written)) == 1
    assert pq.read_table(tmp_path / "x.parquet").equals(table)
