"""canonry bulk when things go wrong: killed, interrupted, disk full, unreadable input, wrong usage."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from bulk_reference import dedupe, make_mixed_lines, write_lines
from canonry import bulk

pa: Any = pytest.importorskip("pyarrow")
pq: Any = pytest.importorskip("pyarrow.parquet")

if TYPE_CHECKING:
    from pathlib import Path

CANONRY = [sys.executable, "-m", "canonry", "bulk"]
KILL_SCRIPT = """
import os, signal, sys
from canonry import bulk
def kill_at(progress):
    if progress.stage == sys.argv[2] and progress.files >= int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
bulk.run(sys.argv[4:], sys.argv[1], on_progress=kill_at, overwrite=True)
"""

MEMORY_SCRIPT = """
import pathlib, re, sys
from canonry import bulk
bulk.run(sys.argv[2:], sys.argv[1], memory="512MB")
print(re.search(r"VmHWM:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1])
"""


def run_command(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*CANONRY, *map(str, arguments)], capture_output=True, text=True, check=False, **options)


def run_and_kill(out: Path, files: list[Path], stage: str, done: int) -> None:
    process = subprocess.run(
        [sys.executable, "-c", KILL_SCRIPT, str(out), stage, str(done), *map(str, files)], check=False
    )
    assert process.returncode == -signal.SIGKILL
    assert not out.exists()


@pytest.mark.parametrize(("stage", "done"), [("reading", 2), ("writing", 3)])
def test_the_same_command_resumes_a_killed_run(stage: str, done: int, tmp_path: Path) -> None:
    files, out = write_lines(tmp_path, make_mixed_lines(3000), 3), tmp_path / "out.parquet"
    run_and_kill(out, files, stage, done)
    report = bulk.run(files, out)
    assert report.kept == done
    assert pq.read_table(out).to_pylist() == dedupe(files)
    assert not list(tmp_path.glob(".*"))


def test_changed_inputs_are_read_again_and_other_options_start_over(tmp_path: Path) -> None:
    files, out = write_lines(tmp_path, make_mixed_lines(3000), 3), tmp_path / "out.parquet"
    run_and_kill(out, files, "reading", 2)
    files[0].write_bytes(files[0].read_bytes() + b"https://new.example/\n")
    assert bulk.run(files, out).kept == 1
    assert pq.read_table(out).to_pylist() == dedupe(files)
    out.unlink()
    run_and_kill(out, files, "reading", 2)
    assert bulk.run(files, out, policy="exact", overwrite=True).kept == 0
    assert pq.read_table(out).to_pylist() == dedupe(files, "exact")
    out.unlink()
    run_and_kill(out, files, "reading", 2)
    record = min(path for path in (tmp_path / ".out.parquet.work").glob("*.json") if path.name != "job.json")
    record.write_text('{"file": 0')  # the machine died, too
    assert bulk.run(files, out, overwrite=True).kept == 1


def test_added_and_removed_inputs_keep_the_parts_of_the_others(tmp_path: Path) -> None:
    files, out = write_lines(tmp_path, make_mixed_lines(3000), 4), tmp_path / "out.parquet"
    run_and_kill(out, files[1:], "reading", 3)
    assert bulk.run(files[:3], out).kept == 2
    assert pq.read_table(out).to_pylist() == dedupe(files[:3])


def test_more_inputs_keep_the_parts_though_they_would_be_divided_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, out = write_lines(tmp_path, make_mixed_lines(3000), 4), tmp_path / "out.parquet"
    run_and_kill(out, files[:3], "reading", 3)
    monkeypatch.setattr("canonry.bulk.job._RUN_BYTES_PER_INPUT_BYTE", 10**6)
    assert bulk.run(files, out).kept == 3
    assert pq.read_table(out).to_pylist() == dedupe(files)


def test_a_given_work_folder_keeps_its_other_files(tmp_path: Path) -> None:
    (file,), given = write_lines(tmp_path, make_mixed_lines(100), 1), tmp_path / "given"
    (given / "sub").mkdir(parents=True)
    (given / "sub" / "a").write_text("mine")
    bulk.run([file], tmp_path / "out.parquet", work_folder=given)
    with pytest.raises(bulk.BulkError, match="no column"):
        bulk.run([file], tmp_path / "x.parquet", work_folder=given, format="csv", column="none")
    assert [path.name for path in given.iterdir()] == ["sub"]
    assert (given / "sub" / "a").read_text() == "mine"


def test_a_job_that_finished_nothing_leaves_no_work_folder(tmp_path: Path) -> None:
    files = write_lines(tmp_path, make_mixed_lines(100), 2)
    with pytest.raises(bulk.BulkError, match="no column"):
        bulk.run(files[:1], tmp_path / "x.parquet", format="csv", column="none")
    assert not list(tmp_path.glob(".*"))
    (tmp_path / "zzz.txt.gz").write_bytes(b"not gzip")
    with pytest.raises(bulk.BulkError, match="cannot be read"):
        bulk.run([*files, tmp_path / "zzz.txt.gz"], tmp_path / "x.parquet")
    assert [path.name for path in tmp_path.glob(".*")] == [".x.parquet.work"]
    assert bulk.run(files, tmp_path / "x.parquet").kept == 2


def test_names_that_the_output_cannot_have_and_files_that_are_none_are_refused(tmp_path: Path) -> None:
    file = tmp_path / os.fsdecode(b"bad\xff.txt")
    file.write_text("https://a.com/\n")
    with pytest.raises(bulk.BulkError, match=r"bad\\xff.txt: the name is not UTF-8"):
        bulk.run([file], tmp_path / "x.parquet")
    (tmp_path / "a.txt").write_text("https://a.com/\n")
    with pytest.raises(bulk.BulkError, match="not a regular file"):
        bulk.run([tmp_path / "a.txt"], "/dev/null", overwrite=True)
    with (tmp_path / "b.txt").open("w") as opened, pytest.raises(bulk.BulkError, match="not a regular file"):
        bulk.run([tmp_path / "a.txt"], f"/dev/fd/{opened.fileno()}", overwrite=True)


def test_the_output_goes_where_a_symlink_points(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("https://a.com/\n")
    (tmp_path / "data").mkdir()
    link, target = tmp_path / "x.parquet", tmp_path / "data" / "y.parquet"
    link.symlink_to(target)
    target.touch()
    target.chmod(0o660)
    for _ in range(2):
        bulk.run([tmp_path / "a.txt"], link, overwrite=True)
        assert link.is_symlink()
        assert target.stat().st_mode & 0o777 == 0o660
        assert [path.name for path in target.parent.iterdir()] == ["y.parquet"]


def test_files_that_cannot_be_read_are_skipped_on_request_and_listed(tmp_path: Path) -> None:
    files, out = write_lines(tmp_path, make_mixed_lines(900), 2), tmp_path / "out.parquet"
    broken = tmp_path / "aaa.txt.gz"
    broken.write_bytes(b"\x1f\x8b not gzip")
    stopped = run_command(broken, *files, "-o", out)
    assert (stopped.returncode, stopped.stderr.count("\n")) == (1, 1)
    done = run_command(broken, *files, "-o", out, "--skip-bad-files")
    assert done.returncode == 1
    [skipped] = json.loads(done.stdout)["skipped"]
    assert skipped["file"] == str(broken) and skipped["reason"] in done.stderr
    assert pq.read_table(out).to_pylist() == dedupe(files)
    with pytest.raises(bulk.BulkError, match="cannot be read"):
        bulk.run([broken], tmp_path / "x.parquet", skip_bad_files=True)


def test_damaged_csv_exits_with_1(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('url,x\nhttps://a.com/1,"y\nhttps://a.com/2,y\nhttps://a.com/3,y\n')
    done = run_command("a.csv", "-o", "out.parquet", cwd=tmp_path)
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert (report["written"], report["malformed"]) == (2, 1)
    assert "out.invalid.parquet" in done.stderr


@pytest.mark.slow
def test_long_urls_stay_within_the_memory_limit(tmp_path: Path) -> None:
    """15,000 URLs of 48 kB, from text and from Parquet, within 512 MB and a page of the Parquet file, 49 MB."""
    urls = [f"https://example.com/{number}?{'x' * 48_000}" for number in range(3_000)]
    text, table = tmp_path / "a.txt", tmp_path / "b.parquet"
    with text.open("w") as file:
        file.writelines(f"{url}\n" for url in urls * 5)
    pq.write_table(pa.table({"url": urls}), table)
    out = tmp_path / "out.parquet"
    command = [sys.executable, "-c", MEMORY_SCRIPT, str(out), str(text), str(table)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) * 1024 < 600 * 1000**2
    assert pq.read_metadata(out).num_rows == 3_000


def test_a_run_killed_between_side_file_and_output_resumes(tmp_path: Path) -> None:
    files, out = write_lines(tmp_path, make_mixed_lines(3000), 2), tmp_path / "out.parquet"
    run_and_kill(out, files, "writing", 2)
    (tmp_path / "out.invalid.parquet").write_text("the side file of the run that was killed")
    assert bulk.run(files, out).kept == 2
    assert pq.read_table(tmp_path / "out.invalid.parquet").num_rows > 100
    out.unlink()
    with pytest.raises(bulk.BulkError, match="out.invalid.parquet exists"):
        bulk.run(files, out)


def test_two_processes_cannot_write_the_same_output(tmp_path: Path) -> None:
    (file,), out = write_lines(tmp_path, make_mixed_lines(100), 1), tmp_path / "out.parquet"
    work = tmp_path / ".out.parquet.work"
    work.mkdir()
    with (work / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = run_command(file, "-o", out)
        assert (done.returncode, done.stderr) == (
            1,
            f"canonry: Another canonry process is writing {out}. Wait for it, or name another file.\n",
        )
    assert run_command(file, "-o", out, "--quiet").stdout == ""
    assert pq.read_table(out).to_pylist() == dedupe([file])


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_leaves_nothing_half_written(number: signal.Signals, tmp_path: Path) -> None:
    file, out = tmp_path / "a.txt", tmp_path / "out.parquet"
    file.write_text("".join(f"https://example.com/{each}\n" for each in range(600_000)))
    out.write_text("the old one")
    command = [*CANONRY, str(file), "-o", str(out), "--overwrite"]
    # Under nohup the tests themselves ignore SIGHUP, and what they start would, too.
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(number, signal.SIG_DFL)
    ) as process:
        deadline = time.monotonic() + 120
        while not list(tmp_path.glob(".out.parquet.work/making-*")):
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.005)
        process.send_signal(number)
        _, message = process.communicate(timeout=120)
    assert process.returncode == 128 + number
    assert message == "canonry: stopped. OUT was not written; run the same command again to continue.\n"
    assert out.read_text() == "the old one"
    assert run_command(file, "-o", out, "--overwrite").returncode == 0
    assert pq.read_table(out).num_rows == 600_000
    assert not list(tmp_path.glob(".*"))


def write_many_urls(file: Path) -> None:
    file.write_text("".join(f"https://example.com/{each}?utm_id={each * each}\n" for each in range(50_000)))


def run_with_file_limit(limit: int, file: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """Run the command with a limit on the size of files, which fails like a full disk."""

    def limit_file_size() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return run_command(file, "-o", out, preexec_fn=limit_file_size)


@pytest.mark.parametrize("limit", [1_000_000, 6_000_000])
def test_a_full_disk_is_reported_and_the_run_resumes(limit: int, tmp_path: Path) -> None:
    file, out = tmp_path / "a.txt", tmp_path / "out.parquet"
    write_many_urls(file)
    done = run_with_file_limit(limit, file, out)
    assert done.returncode == 1
    assert done.stderr.startswith("canonry: ") and done.stderr.count("\n") == 1
    assert "run the same command to resume" in done.stderr
    assert not out.exists()
    assert run_command(file, "-o", out).returncode == 0
    assert pq.read_table(out).num_rows == 50_000


def test_files_stay_below_a_limit_that_is_large_enough(tmp_path: Path) -> None:
    file, out = tmp_path / "a.txt", tmp_path / "out.parquet"
    write_many_urls(file)
    done = run_with_file_limit(11_000_000, file, out)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_input_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    broken = tmp_path / "broken.txt"
    broken.symlink_to("/proc/self/mem")  # it opens, and fails when it is read
    done = run_command(broken, "-o", out)
    assert done.returncode == 1
    assert done.stderr == f"canonry: {broken} cannot be read: Input/output error\n"
    assert not out.exists()


def test_an_input_that_changes_while_it_is_read_stops_the_run(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("https://a.com/\n")

    def change_input(_: object) -> None:
        file.write_text("https://a.com/\nhttps://b.com/\n")

    with pytest.raises(bulk.BulkError, match="changed while it was read"):
        bulk.run([file], tmp_path / "out.parquet", on_progress=change_input)
    assert bulk.run([file], tmp_path / "out.parquet").written == 2


def test_the_command_prints_the_counts(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("https://a.com/\nnope\n\nhttps://A.com\n")
    done = run_command("a.txt", "-o", "out.parquet", cwd=tmp_path)
    assert done.returncode == 0
    assert json.loads(done.stdout) == {
        "out": "out.parquet", "rows": 4, "written": 1, "invalid": 1, "empty": 1, "files": 1, "kept": 0,
        "invalid_file": "out.invalid.parquet", "policy": "bookmark@2", "malformed": 0, "skipped": [], "new": 1,
        "core": "native",
    }  # fmt: skip
    again = run_command("a.txt", "-o", "out.parquet", cwd=tmp_path)
    assert (again.returncode, again.stderr) == (1, "canonry: out.parquet exists. To replace it, use --overwrite.\n")
    hashed = run_command("a.txt", "-o", "out.parquet", "--overwrite", "--policy", "article", cwd=tmp_path)
    assert hashed.returncode == 0
    assert pq.read_table(tmp_path / "out.parquet").num_rows == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.txt", "-o", "x.parquet", "--mode", "diff"], "--mode diff needs --against"),
        (["a.txt", "-o", "x.parquet", "--against", "exact"], "--mode diff needs --against"),
        (["a.txt", "-o", "x.parquet", "--master", "local"], "--master needs --engine spark"),
        (["a.txt"], "Missing option '-o' / '--out'"),
        (["-o", "x.parquet"], "Missing argument 'IN...'"),
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("https://a.com/\n")
    done = run_command(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr


def test_spark_without_java_names_what_to_install(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    (tmp_path / "a.txt").write_text("https://a.com/\n")
    environ = {key: value for key, value in os.environ.items() if key != "JAVA_HOME"} | {"PATH": str(tmp_path)}
    done = run_command(tmp_path / "a.txt", "-o", tmp_path / "x.parquet", "--engine", "spark", env=environ)
    assert done.returncode == 1
    assert done.stderr.startswith("canonry: Spark needs Java 17") and done.stderr.count("\n") == 1


@pytest.mark.parametrize(("missing", "extra"), [("pyarrow", "bulk"), ("duckdb", "bulk"), ("pyspark", "spark")])
def test_a_missing_extra_is_named(missing: str, extra: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("https://a.com/\n")
    (tmp_path / "sitecustomize.py").write_text(f"import sys\nsys.modules[{missing!r}] = None\n")
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    engine = "spark" if extra == "spark" else "duckdb"
    done = run_command(tmp_path / "a.txt", "-o", tmp_path / "x.parquet", "--engine", engine, env=environ)
    assert done.returncode == 1
    assert f"pip install 'canonry[{extra}]'" in done.stderr and done.stderr.count("\n") == 1
