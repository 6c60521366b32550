"""`canonry serve` and `canonry user`, run as operators run them: started, stopped, killed under load."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import command
import postgres
from ports import free_port
from service import Answer, until

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

CANONRY = [sys.executable, "-m", "canonry"]


@dataclass(slots=True)
class Served:
    """A service in a process of its own."""

    process: subprocess.Popen[str]
    log: Path
    port: int
    path: str = ""

    def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            if self.path:
                connection.sock = socket.socket(socket.AF_UNIX)
                connection.sock.connect(self.path)
            data = None if body is None else json.dumps(body)
            kind = {} if body is None else {"Content-Type": "application/json"}
            connection.request(method, path, data, {**kind, **(headers or {})})
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def is_up(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            return self.ask("GET", "/readyz").status == 200
        except OSError:
            return False


@contextmanager
def served(folder: Path, *options: str, path: str = "", **variables: str) -> Generator[Served]:
    port = free_port()
    where = ["--socket", path] if path else ["--port", str(port)]
    command = [*CANONRY, "serve", *where, "--db", f"sqlite:///{folder / 'x.db'}", *options]
    environ = {**os.environ, "XDG_DATA_HOME": str(folder), **variables}
    log = folder / "log"
    with log.open("w") as err:  # a pipe that nobody reads would hold it up
        process = subprocess.Popen(command, env=environ, cwd=folder, text=True, stderr=err)
    running = Served(process, log, port, path)
    try:
        until(running.is_up, 60)
        yield running
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def canonry(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "CANONRY_DATABASE_URL": f"sqlite:///{folder / 'x.db'}", "XDG_DATA_HOME": str(folder)}
    return command.run(*arguments, cwd=folder, environment=environ)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_it_says_where_it_is_and_stops_when_asked(tmp_path: Path, number: int) -> None:
    with served(tmp_path) as service:
        assert service.ask("PUT", "/api/bookmarks", {"url": "https://e.com/"}).status == 201
        service.process.send_signal(number)
        assert service.process.wait(30) == 0
        told = service.log.read_text()
        assert told.startswith(
            f"canonry: serving http://127.0.0.1:{service.port}/ for you alone: no user yet; sqlite:///"
        )
        assert "Traceback" not in told


@pytest.mark.slow
def test_elsewhere_only_with_a_user(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "192.0.2.1", "::", "example.com"):
        refused = canonry(tmp_path, "serve", "--host", host)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "there is no user yet; first `canonry user add NAME`" in refused.stderr


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        refused = canonry(tmp_path, "serve", "--port", str(other.getsockname()[1]))
    assert refused.returncode == 1
    assert "Address already in use; --port takes another" in refused.stderr.splitlines()[-1]


@pytest.mark.slow
def test_a_socket_only_its_owner_opens(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with served(tmp_path, path=str(path)) as service:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert service.ask("GET", "/api/bookmarks").json() == []
        second = canonry(tmp_path, "serve", "--socket", str(path))
        assert (second.returncode, "another service listens there" in second.stderr) == (1, True)
        service.process.kill()
        service.process.wait()
        assert path.exists()
    with served(tmp_path, path=str(path)) as service:  # what a killed one has left is in nobody's way
        service.process.send_signal(signal.SIGTERM)
        service.process.wait(30)
    assert not path.exists()


@pytest.mark.slow
def test_several_processes_one_store(tmp_path: Path) -> None:
    with served(tmp_path, "--workers", "2") as service:
        statuses = [service.ask("PUT", "/api/bookmarks", {"url": "https://e.com/"}).status for _ in range(20)]
        assert sorted(statuses) == [200] * 19 + [201]
        service.process.kill()  # the parent alone: its children go, too
        service.process.wait()
        until(lambda: not _answers(service.port), 20)


@pytest.mark.slow
def test_a_process_that_finds_no_database_costs_no_other_one(tmp_path: Path) -> None:
    with postgres.crashing() as server, served(tmp_path, "--workers", "2", "--db", server.url) as service:
        until(lambda: service.log.read_text().count("Application startup complete") == 2, 60)
        server.crash()
        children = Path(f"/proc/{service.process.pid}/task/{service.process.pid}/children").read_text().split()
        serving = [int(pid) for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        assert len(serving) == 2
        os.kill(serving[0], signal.SIGKILL)
        until(lambda: "this process does not start, another one tries again" in service.log.read_text(), 60)
        assert service.ask("GET", "/healthz").status == 200
        server.start()
        until(lambda: service.log.read_text().count("Application startup complete") == 3, 60)
        assert service.ask("PUT", "/api/bookmarks", {"url": "https://e.com/"}).status == 201
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(30) == 0


@pytest.mark.slow
def test_processes_that_cannot_start_are_a_failure(tmp_path: Path) -> None:
    """For those who start it again on a failure only."""
    environ = {**os.environ, "XDG_DATA_HOME": str(tmp_path), "CANONRY_CA_FILE": str(tmp_path / "missing")}
    command = [*CANONRY, "serve", "--workers", "2", "--port", str(free_port())]
    ended = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == "canonry: a process of the service does not start; what it said is above"


def test_process_whose_parent_was_killed_while_it_starts_ends_at_once(tmp_path: Path) -> None:
    starting = """
import json, os, signal, time
from dataclasses import asdict
from canonry.server import run
from canonry.server import service
signal.signal(signal.SIGTERM, lambda *_: None)  # as uvicorn does, which ends when all is open
parent = str(os.getpid())  # nobody is their own
os.environ |= {run._OPTIONS: json.dumps(asdict(service.Options())), run._PARENT: parent}
run.app_from_environment()
time.sleep(30)
"""
    environment = {**os.environ, "CANONRY_DATABASE_URL": f"sqlite:///{tmp_path / 'never.db'}"}
    ended = subprocess.run([sys.executable, "-c", starting], env=environment, check=False, timeout=25)
    assert ended.returncode == 1


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


@pytest.mark.slow
def test_users(tmp_path: Path) -> None:
    none = canonry(tmp_path, "user", "list")
    assert (none.returncode, none.stdout) == (0, "")
    added = canonry(tmp_path, "user", "add", "ada")
    assert added.returncode == 0 and added.stderr == "canonry: added admin ada, with this token:\n"
    token = added.stdout.strip()
    assert canonry(tmp_path, "user", "add", "bob").returncode == 0
    assert canonry(tmp_path, "user", "add", "bob").returncode == 1
    assert canonry(tmp_path, "user", "add", "no one").returncode == 1
    listed = [json.loads(line) for line in canonry(tmp_path, "user", "list").stdout.splitlines()]
    assert [(each["name"], each["is_admin"]) for each in listed] == [("ada", True), ("bob", False)]
    with served(tmp_path) as service:
        assert service.ask("GET", "/api/bookmarks").status == 401
        assert service.ask("GET", "/api/bookmarks", headers={"Authorization": f"Bearer {token}"}).status == 200
        newer = canonry(tmp_path, "user", "token", "ada", "--revoke").stdout.strip()
        assert service.ask("GET", "/api/bookmarks", headers={"Authorization": f"Bearer {token}"}).status == 401
        assert service.ask("GET", "/api/bookmarks", headers={"Authorization": f"Bearer {newer}"}).status == 200
    removed = canonry(tmp_path, "user", "remove", "bob", "--yes")
    assert (removed.returncode, removed.stdout) == (0, "Removed bob and 0 bookmarks.\n")
    assert canonry(tmp_path, "user", "remove", "bob", "--yes").returncode == 1
    assert canonry(tmp_path, "user", "remove", "ada", "--yes").returncode == 1
    assert canonry(tmp_path, "user", "remove", "ada").returncode == 1  # nobody there to say yes


@pytest.mark.slow
def test_killed_under_load_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    acknowledged: list[str] = []
    for round_number in range(5):
        with served(tmp_path) as service:
            stop = threading.Event()

            def put_on(
                sender: int, service: Served = service, stop: threading.Event = stop, n: int = round_number
            ) -> None:
                for number in range(100_000):
                    url = f"https://e.com/{n}/{sender}/{number}"
                    try:
                        answer = service.ask("PUT", "/api/bookmarks", {"url": url})
                    except (OSError, http.client.HTTPException):
                        return
                    if answer.status == 201:
                        acknowledged.append(url)
                    if stop.is_set():
                        return

            senders = [threading.Thread(target=put_on, args=(sender,)) for sender in range(8)]
            for sender in senders:
                sender.start()
            time.sleep(0.5 + 0.2 * round_number)
            service.process.kill()
            stop.set()
            for sender in senders:
                sender.join(30)
    kept = sqlite3.connect(tmp_path / "x.db").execute("SELECT url FROM bookmarks").fetchall()
    assert len(acknowledged) > 100
    assert set(acknowledged) <= {url for (url,) in kept}
    assert len(kept) == len(set(kept))
    assert sqlite3.connect(tmp_path / "x.db").execute("PRAGMA integrity_check").fetchall() == [("ok",)]
