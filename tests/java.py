"""Java and Spark for tests: a skip mark, a local session, and a cluster on loopback whose processes can be killed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

_HOST = "127.0.0.1"
# For short jobs on few cores: compile little, and do not verify classes.
_JAVA_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
_START_SECONDS = 300
_WORKERS = 2
FAST_JAVA = {"JDK_JAVA_JAVA_OPTIONS": _JAVA_OPTIONS, "SPARK_LOCAL_IP": _HOST}

needs_java = pytest.mark.skipif(
    shutil.which("java") is None, reason="no Java (Debian: apt-get install default-jre-headless)"
)


def get_spark_home() -> Path:
    """Return the folder of Spark inside the package pyspark."""
    import pyspark

    return Path(pyspark.__file__).parent


class Cluster:
    """A standalone master and two workers as processes of their own; the workers start executor processes."""

    def __init__(self, folder: Path) -> None:
        self._home = get_spark_home()
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self.master = ""

    def start(self) -> None:
        """Start master and workers, and wait until the workers are registered."""
        log = self._run("Master", "--host", _HOST, "--port", "0", "--webui-port", "0")
        self.master = _wait_for_log(log, rb"Starting Spark master at (spark://\S+)")
        options = ["--host", _HOST, "--webui-port", "0", "--cores", "1", "--memory", "1g"]
        logs = [
            self._run("Worker", *options, "--work-dir", str(self._folder / f"work-{number}"), self.master)
            for number in range(_WORKERS)
        ]
        for log in logs:
            _wait_for_log(log, rb"(Successfully registered with master)")

    def _run(self, kind: str, *options: str) -> Path:
        log = self._folder / f"{kind}-{len(self._processes)}.log"
        command = [str(self._home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind.lower()}.{kind}", *options]
        environ = {**os.environ, **FAST_JAVA, "SPARK_HOME": str(self._home), "PYSPARK_PYTHON": sys.executable}
        with log.open("wb") as out:
            self._processes.append(subprocess.Popen(command, stdout=out, stderr=out, env=environ))
        return log

    def get_executors(self) -> list[int]:
        """Return the ids of the live executor processes, which are children of the workers."""
        children: list[int] = []
        for worker in self._processes[1:]:
            for task in Path(f"/proc/{worker.pid}/task").glob("*/children"):
                with suppress(FileNotFoundError):  # the thread has ended
                    children += map(int, task.read_text().split())
        return [child for child in children if _is_executor(child)]

    def count_applications(self) -> int:
        """Return how many drivers have registered with the master so far."""
        return (self._folder / "Master-0.log").read_bytes().count(b"Registered app ")

    def stop(self) -> None:
        """End all processes."""
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _is_executor(process: int) -> bool:
    """Return whether the process is a live executor; a zombie has no command line."""
    try:
        return b"CoarseGrainedExecutorBackend" in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False


def _wait_for_log(log: Path, pattern: bytes) -> str:
    """Wait until a line of the log matches; return the first group."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if match := re.search(pattern, log.read_bytes()):
            return match[1].decode()
        time.sleep(0.1)
    raise AssertionError(f"{pattern!r} is not in the log after {_START_SECONDS} s: {log.read_text()[-2000:]}")


@contextmanager
def run_cluster(folder: Path) -> Generator[Cluster]:
    """Run a cluster on loopback."""
    cluster = Cluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@contextmanager
def run_spark_session() -> Generator[Any]:
    """Run a Spark session on two local threads; its Java process ends with it."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    settings: dict[str, bool | float | int | str | None] = {
        "spark.driver.bindAddress": _HOST,
        "spark.driver.host": _HOST,
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    os.environ.update(FAST_JAVA, PYSPARK_PYTHON=sys.executable)
    session = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    try:
        yield session
    finally:
        session.stop()
        gateway = SparkContext._gateway
        if gateway is not None:
            gateway.shutdown()
            gateway.proc.stdin.close()  # Java ends with its standard input
            gateway.proc.wait(60)
            SparkContext._gateway = SparkContext._jvm = None
