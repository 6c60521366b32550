"""canonry bulk when things go wrong: killed, interrupted, no room, nothing to read."""

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

from bulk_reference import deduped, mixed_lines, write_lines
from canonry import bulk

pq: Any = pytest.importorskip("pyarrow.parquet")

if TYPE_CHECKING:
    from pathlib import Path

CANONRY = [sys.executable, "-m", "canonry", "bulk"]
KILLED = """
import os, signal, sys
from canonry import bulk
def told(progress):
    if progress.stage == sys.argv[2] and progress.files >= int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
bulk.run(sys.argv[4:], sys.argv[1], on_progress=told, overwrite=True)
"""


def command(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*CANONRY, *map(str, arguments)], capture_output=True, text=True, check=False, **options)


def killed(out: Path, files: list[Path], stage: str, done: int) -> None:
    told = subprocess.run([sys.executable, "-c", KILLED, str(out), stage, str(done), *map(str, files)], check=False)
    assert told.returncode == -signal.SIGKILL
    assert not out.exists()


@pytest.mark.parametrize(("stage", "done"), [("reading", 2), ("writing", 3)])
def test_a_killed_run_goes_on(stage: str, done: int, tmp_path: Path) -> None:
    files, out = write_lines(tmp_path, mixed_lines(3000), 3), tmp_path / "out.parquet"
    killed(out, files, stage, done)
    report = bulk.run(files, out)
    assert report.kept == done
    assert pq.read_table(out).to_pylist() == deduped(files)
    assert not list(tmp_path.glob(".*"))


def test_other_inputs_or_options_begin_anew(tmp_path: Path) -> None:
    files, out = write_lines(tmp_path, mixed_lines(3000), 3), tmp_path / "out.parquet"
    killed(out, files, "reading", 2)
    files[0].write_bytes(files[0].read_bytes() + b"https://new.example/\n")
    assert bulk.run(files, out).kept == 1
    assert pq.read_table(out).to_pylist() == deduped(files)
    out.unlink()
    killed(out, files, "reading", 2)
    assert bulk.run(files, out, policy="exact", overwrite=True).kept == 0
    assert pq.read_table(out).to_pylist() == deduped(files, "exact")
    out.unlink()
    killed(out, files, "reading", 2)
    (tmp_path / ".out.parquet.work" / "0000000.json").write_text('{"file": 0')  # the machine died, too
    assert bulk.run(files, out, overwrite=True).kept == 1


def test_killed_between_side_file_and_output(tmp_path: Path) -> None:
    files, out = write_lines(tmp_path, mixed_lines(3000), 2), tmp_path / "out.parquet"
    killed(out, files, "writing", 2)
    (tmp_path / "out.invalid.parquet").write_text("the side file of the run that was killed")
    assert bulk.run(files, out).kept == 2
    assert pq.read_table(tmp_path / "out.invalid.parquet").num_rows > 100
    out.unlink()
    with pytest.raises(bulk.BulkError, match="out.invalid.parquet exists"):
        bulk.run(files, out)


def test_two_runs_do_not_write_one_file(tmp_path: Path) -> None:
    (file,), out = write_lines(tmp_path, mixed_lines(100), 1), tmp_path / "out.parquet"
    work = tmp_path / ".out.parquet.work"
    work.mkdir()
    with (work / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = command(file, "-o", out)
        assert (done.returncode, done.stderr) == (1, f"canonry: another canonry is writing {out}\n")
    assert command(file, "-o", out, "--quiet").stdout == ""
    assert pq.read_table(out).to_pylist() == deduped([file])


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing_half_written(number: signal.Signals, tmp_path: Path) -> None:
    file, out = tmp_path / "a.txt", tmp_path / "out.parquet"
    file.write_text("".join(f"https://example.com/{each}\n" for each in range(600_000)))
    out.write_text("the old one")
    with subprocess.Popen([*CANONRY, file, "-o", out, "--overwrite"], stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob(".out.parquet.work/making-*")):
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.005)
        process.send_signal(number)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert told == "canonry: stopped; nothing was written, and the same command goes on from here\n"
    assert out.read_text() == "the old one"
    assert command(file, "-o", out, "--overwrite").returncode == 0
    assert pq.read_table(out).num_rows == 600_000
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("limit", [1_000_000, 6_000_000, 11_000_000])
def test_no_room(limit: int, tmp_path: Path) -> None:
    file, out = tmp_path / "a.txt", tmp_path / "out.parquet"
    file.write_text("".join(f"https://example.com/{each}?utm_id={each * each}\n" for each in range(50_000)))

    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    done = command(file, "-o", out, preexec_fn=small)
    if limit > 10_000_000:
        assert done.returncode == 0, done.stderr
        return
    assert done.returncode == 1
    assert done.stderr.startswith("canonry: ") and done.stderr.count("\n") == 1
    assert "with more room the same command goes on" in done.stderr
    assert not out.exists()
    assert command(file, "-o", out).returncode == 0
    assert pq.read_table(out).num_rows == 50_000


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    broken = tmp_path / "broken.txt"
    broken.symlink_to("/proc/self/mem")  # it opens, and fails when it is read
    done = command(broken, "-o", out)
    assert done.returncode == 1
    assert done.stderr == f"canonry: {broken} cannot be read: Input/output error\n"
    assert not out.exists()


def test_an_input_that_changes_meanwhile(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("https://a.com/\n")

    def told(_: object) -> None:
        file.write_text("https://a.com/\nhttps://b.com/\n")

    with pytest.raises(bulk.BulkError, match="changed while it was read"):
        bulk.run([file], tmp_path / "out.parquet", on_progress=told)
    assert bulk.run([file], tmp_path / "out.parquet").written == 2


def test_the_command_says_what_came_of_it(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("https://a.com/\nnope\n\nhttps://A.com\n")
    done = command("a.txt", "-o", "out.parquet", cwd=tmp_path)
    assert done.returncode == 0
    assert json.loads(done.stdout) == {
        "out": "out.parquet", "rows": 4, "written": 1, "invalid": 1, "empty": 1, "files": 1, "kept": 0,
        "invalid_file": "out.invalid.parquet",
    }  # fmt: skip
    again = command("a.txt", "-o", "out.parquet", cwd=tmp_path)
    assert (again.returncode, again.stderr) == (1, "canonry: out.parquet exists; --overwrite replaces it\n")
    hashed = command("a.txt", "-o", "out.parquet", "--overwrite", "--policy", "article", cwd=tmp_path)
    assert hashed.returncode == 0
    assert pq.read_table(tmp_path / "out.parquet").num_rows == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a.txt", "-o", "x.parquet", "--mode", "diff"], "--mode diff and --against POLICY go together"),
        (["a.txt", "-o", "x.parquet", "--against", "exact"], "--mode diff and --against POLICY go together"),
        (["a.txt", "-o", "x.parquet", "--master", "local"], "--master goes with --engine spark"),
        (["a.txt"], "Missing option '-o' / '--out'"),
        (["-o", "x.parquet"], "Missing argument 'IN...'"),
    ],
)
def test_wrong_usage(arguments: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("https://a.com/\n")
    done = command(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr


def test_spark_without_java(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    (tmp_path / "a.txt").write_text("https://a.com/\n")
    environ = {key: value for key, value in os.environ.items() if key != "JAVA_HOME"} | {"PATH": str(tmp_path)}
    done = command(tmp_path / "a.txt", "-o", tmp_path / "x.parquet", "--engine", "spark", env=environ)
    assert done.returncode == 1
    assert done.stderr.startswith("canonry: Spark needs Java 17") and done.stderr.count("\n") == 1


@pytest.mark.parametrize(("missing", "extra"), [("pyarrow", "bulk"), ("duckdb", "bulk"), ("pyspark", "spark")])
def test_without_the_extra(missing: str, extra: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("https://a.com/\n")
    (tmp_path / "sitecustomize.py").write_text(f"import sys\nsys.modules[{missing!r}] = None\n")
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    engine = "spark" if extra == "spark" else "duckdb"
    done = command(tmp_path / "a.txt", "-o", tmp_path / "x.parquet", "--engine", engine, env=environ)
    assert done.returncode == 1
    assert done.stderr == f"canonry: this needs more than the base install: pip install 'canonry[{extra}]'\n"
