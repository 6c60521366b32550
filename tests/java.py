"""Java for tests of Spark: found or skipped, and a session of its own."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

PACKAGE = "default-jre-headless"
needs_java = pytest.mark.skipif(shutil.which("java") is None, reason=f"no Java: apt-get install {PACKAGE}")


@contextmanager
def spark_session() -> Generator[Any]:
    """A Spark on two threads of this machine, gone with its Java at the end."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    settings: dict[str, bool | float | int | str | None] = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    os.environ["PYSPARK_PYTHON"] = sys.executable  # for its workers
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
