"""Bulk jobs on remote storage: an S3 server on loopback, and a file system of fsspec in memory."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from bulk_reference import dedupe, make_mixed_lines, write_lines
from canonry import bulk
from canonry.bulk import storage

pa: Any = pytest.importorskip("pyarrow")
pa_fs: Any = pytest.importorskip("pyarrow.fs")
pq: Any = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("duckdb")
moto_server: Any = pytest.importorskip("moto.server")

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

_SETTINGS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@pytest.fixture(scope="module")
def s3() -> Generator[Any]:
    """Run an S3 server; yield pyarrow's file system of it, and let `s3://` paths lead there."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as environment:
        for name, value in {**_SETTINGS, "AWS_ENDPOINT_URL": f"http://{host}:{port}"}.items():
            environment.setenv(name, value)
        storage._connect.cache_clear()
        files = pa_fs.S3FileSystem(endpoint_override=f"http://{host}:{port}", allow_bucket_creation=True)
        files.create_dir("bucket")
        yield files
        storage._connect.cache_clear()
    server.stop()


def upload(s3: Any, files: list[Path]) -> list[str]:
    for file in files:
        with s3.open_output_stream(f"bucket/in/{file.name}") as stream:
            stream.write(file.read_bytes())
    return [f"s3://bucket/in/{file.name}" for file in files]


def list_keys(s3: Any, prefix: str) -> list[str]:
    found = s3.get_file_info(pa_fs.FileSelector(prefix, recursive=True, allow_not_found=True))
    return sorted(info.path for info in found if info.type == pa_fs.FileType.File)


def test_inputs_and_output_on_s3(s3: Any, tmp_path: Path) -> None:
    files = write_lines(tmp_path, make_mixed_lines(2_000), 3)
    names = upload(s3, files)
    local = dedupe(files)
    wanted = [{**row, "first_file": f"s3://bucket/in/{row['first_file'].rpartition('/')[2]}"} for row in local]
    report = bulk.run(["s3://bucket/in/*.txt"], "s3://bucket/out/unique.parquet", work_folder=tmp_path / "work")
    assert (report.files, report.written) == (3, len(wanted))
    assert pq.read_table("bucket/out/unique.parquet", filesystem=s3).to_pylist() == wanted
    assert pq.read_table("bucket/out/unique.invalid.parquet", filesystem=s3).num_rows == report.invalid
    assert not list((tmp_path / "work").iterdir())
    with pytest.raises(bulk.BulkError, match="exists. To replace it"):
        bulk.run(names, "s3://bucket/out/unique.parquet")

    # A folder replaces one with more files; the work folder and the known keys are remote, too.
    for partitions, overwrite in ((5, False), (3, True)):
        bulk.run(
            names[:2],
            "s3://bucket/parts",
            partitions=partitions,
            overwrite=overwrite,
            work_folder="s3://bucket/work",
        )
    keys = [f"bucket/parts/{name}" for name in ("_SUCCESS", *(f"part-{number:05}.parquet" for number in range(3)))]
    assert list_keys(s3, "bucket/parts") == keys
    bulk.run(names[2:], "s3://bucket/all.parquet", known="s3://bucket/parts")
    assert pq.read_table("bucket/all.parquet", filesystem=s3).to_pylist() == wanted
    assert list_keys(s3, "bucket/work") == []


def test_a_failed_job_leaves_no_output_on_s3_that_looks_complete(
    s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = write_lines(tmp_path, make_mixed_lines(2_000), 1)
    shown: list[bytes] = []

    def keep_file(path: str) -> None:  # as if the connection broke before the file was deleted
        with s3.open_input_stream(path.removeprefix("s3://")) as stream:
            shown.append(stream.read())

    def report_written(progress: bulk.BulkProgress) -> None:
        if progress.stage == "writing":
            monkeypatch.setattr(storage, "delete_file", keep_file)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        bulk.run(files, "s3://bucket/broken.parquet", work_folder=tmp_path / "work", on_progress=report_written)
    [data] = shown
    with pytest.raises(pa.ArrowInvalid):
        pq.read_table(pa.BufferReader(data))


def test_known_keys_on_s3_are_not_replaced_while_they_are_read(s3: Any, tmp_path: Path) -> None:
    del s3
    files = write_lines(tmp_path, make_mixed_lines(100), 1)
    bulk.run(files, "s3://bucket/known.parquet")
    with pytest.raises(bulk.BulkError, match="would be replaced while it is read"):
        bulk.run(files, "s3://bucket/known.parquet", known="s3://bucket/known.parquet", overwrite=True)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("in/*.txt", ["in/a.txt"]),
        ("in/**/*.txt", ["in/a.txt", "in/x/b.txt", "in/x/y/c.txt"]),
        ("in/**", ["in/a.txt", "in/x/b.txt", "in/x/y/c.txt"]),
        ("in/?/[!c].txt", ["in/x/b.txt"]),
        ("in/*a*", ["in/a.txt"]),
    ],
)
def test_remote_patterns_match_as_local_ones_and_no_work_folders(
    pattern: str, found: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsspec: Any = pytest.importorskip("fsspec")
    for name in ("in/a.txt", "in/x/b.txt", "in/x/y/c.txt", "in/.a.txt", "in/.out.work/a.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("https://a.com/\n")
        fsspec.filesystem("memory").pipe(f"/patterns/{name}", b"https://a.com/\n")
    monkeypatch.chdir(tmp_path)
    assert storage.find_files(pattern) == found
    assert storage.find_files(f"memory://patterns/{pattern}") == [f"memory://patterns/{name}" for name in found]


def test_inputs_that_are_missing_on_s3_are_named(s3: Any, tmp_path: Path) -> None:
    del s3
    for name, message in (("s3://bucket/no.txt", "no such file"), ("s3://bucket/no/*", "no file matches")):
        with pytest.raises(bulk.BulkError, match=message):
            bulk.run([name], tmp_path / "x.parquet")
    with pytest.raises(bulk.BulkError, match="nothing:// is not known here"):
        bulk.run(["nothing://x/y"], tmp_path / "x.parquet")


def test_file_systems_of_fsspec_and_file_addresses(tmp_path: Path) -> None:
    fsspec: Any = pytest.importorskip("fsspec")
    fsspec.filesystem("memory").pipe("/in/a.txt", b"https://a.com/?utm_id=1\n")
    (tmp_path / "b c.txt").write_text("https://a.com/\n")
    address = (tmp_path / "b c.txt").as_uri()
    report = bulk.run(["memory://in/*.txt", address], tmp_path / "out.parquet")
    [row] = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert (report.files, row["count"]) == (2, 2)
    assert row["first_file"] == str(tmp_path / "b c.txt")


def test_storage_that_needs_options_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    with pytest.raises(bulk.BulkError):
        bulk.run(["github://x/y"], tmp_path / "out.parquet")


@pytest.mark.parametrize("out", ["", "s3://", "s3:///", "memory://"])
def test_an_output_without_a_name_is_refused_and_no_local_file_is_written(
    out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("fsspec")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.txt").write_text("https://a.com/\nnone\n")
    with pytest.raises(bulk.BulkError):
        bulk.run(["in.txt"], out)
    assert [each.name for each in tmp_path.iterdir()] == ["in.txt"]


@pytest.mark.parametrize("name", ["http://[", "http://[a]*", "http://*/x.txt", "memory://[", "s3://*/x.txt", "s3:///x"])
def test_a_pattern_or_nothing_instead_of_a_host_or_bucket_is_refused(name: str, tmp_path: Path, s3: Any) -> None:
    pytest.importorskip("fsspec")
    del s3
    with pytest.raises(bulk.BulkError):
        bulk.run([name], tmp_path / "out.parquet")


def test_storage_that_can_only_be_read_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    (tmp_path / "in.txt").write_text("https://a.com/\n")
    for partitions in (None, 2):
        with pytest.raises(bulk.BulkError, match="http://127.0.0.1:1 can only be read"):
            bulk.run(
                [tmp_path / "in.txt"],
                "http://127.0.0.1:1/out.parquet",
                partitions=partitions,
                work_folder=tmp_path,
                on_progress=lambda _: pytest.fail("nothing is read"),
            )
    assert [each.name for each in tmp_path.iterdir()] == ["in.txt"]


def test_the_check_of_the_output_leaves_no_file_behind(tmp_path: Path) -> None:
    fsspec: Any = pytest.importorskip("fsspec")
    (tmp_path / "in.txt").write_text("https://a.com/\n")
    bulk.run([tmp_path / "in.txt"], "memory://checked/out.parquet")
    assert fsspec.filesystem("memory").ls("/checked", detail=False) == ["/checked/out.parquet"]
