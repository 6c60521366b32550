"""canonry bulk on a real cluster, a master and two workers: started as documented, executors killed, and its errors."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import canonry
from bulk_reference import make_mixed_lines, write_lines
from canonry import bulk
from java import FAST_JAVA, Cluster, get_spark_home, needs_java, run_cluster

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")
venv_pack: Any = pytest.importorskip("venv_pack", reason="no venv-pack (pip install venv-pack)")
pytestmark = [needs_java, pytest.mark.slow]

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

ROOT = Path(__file__).parents[2]
PACKAGES = ("canonry", "numpy", "numpy.libs", "pandas", "pyarrow", "ada_url", "click", "cffi", "dateutil", "six.py")
# canonry that waits for a worker as many seconds as its variable says.
WAITING = (
    "import os, canonry.bulk.spark as s; s._WORKER_SECONDS = int(os.environ['SECONDS']);"
    " from canonry.cli.main import main; main()"
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Generator[Cluster]:
    with run_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def inputs(tmp_path: Path) -> list[str]:
    """The names of files in the folder of the test, which is the current folder of the commands."""
    return [path.name for path in write_lines(tmp_path, make_mixed_lines(12_000), 8)]


@pytest.fixture
def expected(inputs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    monkeypatch.chdir(tmp_path)
    bulk.run(inputs, "alone.parquet")
    return Path("alone.parquet").read_bytes()


def _start(command: Sequence[str | Path], folder: Path, environ: dict[str, str] | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, **FAST_JAVA, **(environ or {})},
    )


def _finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    with process:
        printed, errors = process.communicate(timeout=500)
    return process.returncode, printed, errors


def _pack_environment(folder: Path) -> Path:
    """Pack an environment with the packages that workers need; installing them from wheels would take minutes."""
    venv.create(folder / "environment", symlinks=True)
    [packages] = (folder / "environment" / "lib").glob("python*/site-packages")
    installed = Path(pytest.__file__).parents[1]
    for name in PACKAGES:
        source = Path(canonry.__file__).parent if name == "canonry" else installed / name
        ignored = shutil.ignore_patterns("tests", "__pycache__", "include")
        if source.is_dir():
            shutil.copytree(source, packages / name, ignore=ignored)
        elif source.exists():
            shutil.copy(source, packages / name)
    for module in installed.glob("_cffi_backend*"):
        shutil.copy(module, packages)
    packed = folder / "environment.tar.gz"
    venv_pack.pack(prefix=str(folder / "environment"), output=str(packed), compress_level=1)
    return packed


def test_the_deployed_script_sends_its_environment_and_survives_a_killed_executor(
    cluster: Cluster, inputs: list[str], expected: bytes, tmp_path: Path
) -> None:
    settings = {
        "MASTER": cluster.master,
        "IN": "urls-*.txt",
        "OUT": "out.parquet",
        "PYTHON": sys.executable,
        "ENVIRONMENT": str(_pack_environment(tmp_path)),
        "EXECUTOR_CORES": "1",
        "EXECUTOR_MEMORY": "1g",
        "DRIVER_MEMORY": "1g",
    }
    process = _start([ROOT / "deploy" / "bulk-spark.sh", "--json"], tmp_path, settings)
    work, deadline = tmp_path / ".out.parquet.work", time.monotonic() + 400
    while not (cluster.get_executors() and any(path.name != "job.json" for path in work.glob("*.json"))):
        assert time.monotonic() < deadline and process.poll() is None, process.communicate()
        time.sleep(0.01)
    victim = cluster.get_executors()[0]
    os.kill(victim, signal.SIGKILL)
    code, printed, errors = _finish(process)
    assert (code, errors) == (0, "")
    assert victim not in cluster.get_executors()
    report = json.loads(printed)
    assert (report["files"], report["core"]) == (len(inputs), "native")
    assert (tmp_path / "out.parquet").read_bytes() == expected


def test_spark_submit_chooses_the_master(cluster: Cluster, inputs: list[str], expected: bytes, tmp_path: Path) -> None:
    before = cluster.count_applications()
    command: list[str | Path] = [
        get_spark_home() / "bin" / "spark-submit",
        "--master",
        cluster.master,
        "--executor-memory",
        "1g",
    ]
    program: list[str | Path] = [Path(canonry.__file__).with_name("__main__.py"), "bulk", *inputs, "-o", "out.parquet"]
    environ = {"PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(get_spark_home())}
    code, printed, errors = _finish(_start([*command, *program, "--engine", "spark"], tmp_path, environ))
    assert code == 0, errors
    assert json.loads(printed.splitlines()[-1])["files"] == len(inputs)
    assert cluster.count_applications() == before + 1
    assert (tmp_path / "out.parquet").read_bytes() == expected


@pytest.mark.parametrize(
    ("why", "environ"),
    [
        (
            "canonry cannot be imported on the worker",
            {"SECONDS": "120", "PYSPARK_PYTHON": f"{sys.base_prefix}/bin/python3"},
        ),
        (
            "No Spark worker took a task",
            {"SECONDS": "10", "PYSPARK_SUBMIT_ARGS": "--executor-memory 64g pyspark-shell"},
        ),
    ],
    ids=["canonry is missing", "too little memory"],
)
def test_workers_that_cannot_work_are_reported(
    why: str, environ: dict[str, str], cluster: Cluster, inputs: list[str], tmp_path: Path
) -> None:
    command = [sys.executable, "-c", WAITING, "bulk", inputs[0], "-o", "out.parquet"]
    process = _start([*command, "--engine", "spark", "--master", cluster.master], tmp_path, environ)
    code, printed, errors = _finish(process)
    assert (code, printed) == (1, "")
    assert errors.startswith(f"canonry: {why}") and errors.count("\n") == 1, errors
    assert not (tmp_path / "out.parquet").exists()
