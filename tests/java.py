"""Java and Spark for tests: found or skipped; a session, and a cluster on loopback with processes that can be killed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

_ADDRESS = "127.0.0.1"
# Short jobs on few cores: compile little, and believe that classes are sound.
_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
QUICK = {"JDK_JAVA_OPTIONS": _OPTIONS, "SPARK_LOCAL_IP": _ADDRESS}

needs_java = pytest.mark.skipif(
    shutil.which("java") is None, reason="no Java (Debian: apt-get install default-jre-headless)"
)


class Cluster:
    """A standalone master and a worker, each a process of its own, as are those the worker starts."""

    def __init__(self, folder: Path) -> None:
        import pyspark

        self._home = Path(pyspark.__file__).parent
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self.master = ""

    def start(self) -> None:
        log = self._run("Master", "--host", _ADDRESS, "--port", "0", "--webui-port", "0")
        self.master = _found(log, rb"Starting Spark master at (spark://\S+)")
        options = ["--host", _ADDRESS, "--webui-port", "0", "--cores", "2", "--memory", "1g"]
        log = self._run("Worker", *options, "--work-dir", str(self._folder / "work"), self.master)
        _found(log, rb"(Successfully registered with master)")

    def _run(self, kind: str, *options: str) -> Path:
        log = self._folder / f"{kind}-{len(self._processes)}.log"
        command = [str(self._home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind.lower()}.{kind}", *options]
        environ = {**os.environ, **QUICK, "SPARK_HOME": str(self._home), "PYSPARK_PYTHON": sys.executable}
        with log.open("wb") as out:
            self._processes.append(subprocess.Popen(command, stdout=out, stderr=out, env=environ))
        return log

    def executors(self) -> list[int]:
        """The processes that run tasks, by their ids: children of the worker that are alive."""
        tasks = Path(f"/proc/{self._processes[1].pid}/task").glob("*/children")
        children = [int(child) for task in tasks for child in task.read_text().split()]
        return [child for child in children if _is_executor(child)]

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _is_executor(process: int) -> bool:
    """A dead one that nobody has asked for has no command any more."""
    try:
        return b"CoarseGrainedExecutorBackend" in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False


def _found(log: Path, pattern: bytes) -> str:
    for _ in range(1200):
        if match := re.search(pattern, log.read_bytes()):
            return match[1].decode()
        time.sleep(0.1)
    raise AssertionError(f"not in time: {log.read_text()[-2000:]}")


@contextmanager
def cluster(folder: Path) -> Generator[Cluster]:
    """A cluster on loopback, gone at the end."""
    made = Cluster(folder)
    try:
        made.start()
        yield made
    finally:
        made.stop()


@contextmanager
def spark_session() -> Generator[Any]:
    """A Spark on two threads of this machine, gone with its Java at the end."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    settings: dict[str, bool | float | int | str | None] = {
        "spark.driver.bindAddress": _ADDRESS,
        "spark.driver.host": _ADDRESS,
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    os.environ.update(QUICK, PYSPARK_PYTHON=sys.executable)  # the latter for its workers
    session = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    try:
        yield session
    finally:
        session.stop()
        gateway = SparkContext._gateway
        if gateway is not None:
            gateway.shutdown()
            gateway.proc.stdin.close()  # it ends with its standard input
            gateway.proc.wait(60)
            SparkContext._gateway = SparkContext._jvm = None
