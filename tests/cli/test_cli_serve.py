"""`canonry serve` and `canonry user` as processes: started, stopped, killed under load."""

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
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import command
import postgres
from canonry.store.database import Database
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
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
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
    with log.open("w") as err:  # a pipe that is not read would block the service
        process = subprocess.Popen(command, env=environ, cwd=folder, text=True, stderr=err)
    running = Served(process, log, port, path)
    try:
        until(running.is_up, 120)
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
def test_serve_prints_its_address_and_stops_on_a_signal(tmp_path: Path, number: int) -> None:
    with served(tmp_path) as service:
        assert service.ask("PUT", "/api/bookmarks", {"url": "https://e.com/"}).status == 201
        service.process.send_signal(number)
        assert service.process.wait(120) == 0
        log = service.log.read_text()
        assert log.count("canonry: serving") == 1
        assert (f"canonry: serving http://127.0.0.1:{service.port}/ in personal mode") in log
        assert "Traceback" not in log


@pytest.mark.slow
def test_other_addresses_than_loopback_need_a_user(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "192.0.2.1", "::", "example.com"):
        refused = canonry(tmp_path, "serve", "--host", host)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "Add one first: canonry user add NAME" in refused.stderr


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_service_whose_users_are_gone_answers_nobody(tmp_path: Path, workers: str) -> None:
    (tmp_path / "empty").mkdir()
    Database(f"sqlite:///{tmp_path / 'empty' / 'x.db'}").close()
    assert canonry(tmp_path / "empty", "backup", "empty.gz").returncode == 0
    assert canonry(tmp_path, "user", "add", "ada").returncode == 0
    with served(tmp_path, "--host", "0.0.0.0", "--workers", workers) as service:
        assert service.ask("GET", "/api/bookmarks").status == 401
        assert canonry(tmp_path, "restore", str(tmp_path / "empty" / "empty.gz"), "--replace").returncode == 0
        statuses = list[int]()

        def are_all_refused() -> bool:
            statuses.extend(service.ask("GET", "/api/bookmarks").status for _ in range(10))
            return statuses[-10:] == [403] * 10

        until(are_all_refused)
        assert set(statuses) <= {401, 403}
        assert service.ask("PUT", "/api/bookmarks", {"url": "https://e.com/"}).status == 403
        assert service.ask("GET", "/healthz").status == 200


@pytest.mark.slow
def test_hostile_connections_cost_little(tmp_path: Path) -> None:
    with served(tmp_path) as service, ExitStack() as stack:

        def connect() -> socket.socket:
            return stack.enter_context(socket.create_connection(("127.0.0.1", service.port), 60))

        silent = [connect() for _ in range(300)]
        for connection in silent[::2]:
            connection.sendall(b"GET / HTTP/1.1\r\nX: ")
        assert service.ask("GET", "/api/bookmarks").json() == []
        flood = connect()
        before = read_cpu_seconds(service.process.pid)
        with suppress(BrokenPipeError, ConnectionResetError):
            flood.sendall(b"GET / HTTP/1.1\r\nX: ")
            for _ in range(64):
                flood.sendall(b"a" * 1024 * 1024)
        assert flood.recv(12) == b"HTTP/1.1 431"
        assert read_cpu_seconds(service.process.pid) - before < 0.1
        assert service.ask("GET", "/api/bookmarks").json() == []
        slow = connect()
        slow.sendall(b"PUT /api/bookmarks HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n")
        slow.sendall(b"Content-Length: 100\r\n\r\n{")
        assert slow.recv(12) == b"HTTP/1.1 408"
        with connect() as leaving:
            leaving.sendall(b"PUT /api/bookmarks HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n")
            leaving.sendall(b"Content-Length: 100\r\n\r\n{")
        until(lambda: all(_is_closed(connection) for connection in silent))
        # Answered after the requests that were not completed, whose ends are logged by then.
        assert service.ask("GET", "/api/bookmarks").json() == []
        assert "Traceback" not in service.log.read_text()


def read_cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def _is_closed(connection: socket.socket) -> bool:
    """Whether the service ended the connection, after an answer or without one."""
    connection.setblocking(False)
    try:
        while connection.recv(1000):
            continue
    except BlockingIOError:
        return False
    except ConnectionResetError:
        pass
    return True


def test_a_port_in_use_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        refused = canonry(tmp_path, "serve", "--port", str(other.getsockname()[1]))
    assert refused.returncode == 1
    assert "Address already in use. Choose another port with --port." in refused.stderr.splitlines()[-1]


def test_an_address_of_another_machine_is_refused(tmp_path: Path) -> None:
    canonry(tmp_path, "user", "add", "ada")
    refused = canonry(tmp_path, "serve", "--host", "192.0.2.1")
    assert refused.returncode == 1
    assert "--host" in refused.stderr.splitlines()[-1] and "--port" not in refused.stderr


def test_a_wrong_setting_is_one_line_of_the_log_at_start(tmp_path: Path) -> None:
    environ = {**os.environ, "CANONRY_CA_FILE": str(tmp_path / "none.pem"), "CANONRY_LOG_FORMAT": "text"}
    refused = subprocess.run(
        [*CANONRY, "serve", "--port", str(free_port()), "--db", f"sqlite:///{tmp_path / 'x.db'}"],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode != 0
    assert "Traceback" not in refused.stderr and refused.stderr.count("none.pem") == 1


@pytest.mark.slow
def test_only_the_owner_can_use_the_socket(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with served(tmp_path, path=str(path)) as service:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert service.ask("GET", "/api/bookmarks").json() == []
        assert service.ask("GET", "/api/bookmarks", headers={"X-Forwarded-For": "127.0.0.1"}).status == 200
        assert service.ask("GET", "/api/bookmarks", headers={"X-Forwarded-For": "203.0.113.9"}).status == 403
        second = canonry(tmp_path, "serve", "--socket", str(path))
        assert (second.returncode, "another service uses this socket" in second.stderr) == (1, True)
        service.process.kill()
        service.process.wait()
        assert path.exists()
    with served(tmp_path, path=str(path)) as service:  # the socket of a killed service is replaced
        service.process.send_signal(signal.SIGTERM)
        service.process.wait(120)
    assert not path.exists()


@pytest.mark.slow
def test_several_processes_share_one_store(tmp_path: Path) -> None:
    with served(tmp_path, "--workers", "2") as service:
        statuses = [service.ask("PUT", "/api/bookmarks", {"url": "https://e.com/"}).status for _ in range(20)]
        assert sorted(statuses) == [200] * 19 + [201]
        service.process.kill()  # only the parent: its children must exit, too
        service.process.wait()
        until(lambda: not _answers(service.port))


@pytest.mark.slow
def test_a_process_without_a_database_does_not_stop_the_others(tmp_path: Path) -> None:
    with postgres.run_crashable_server() as server, served(tmp_path, "--workers", "2", "--db", server.url) as service:
        until(lambda: service.log.read_text().count("Application startup complete") == 2, 120)
        server.crash()
        children = Path(f"/proc/{service.process.pid}/task/{service.process.pid}/children").read_text().split()
        serving = [int(pid) for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        assert len(serving) == 2
        os.kill(serving[0], signal.SIGKILL)
        until(lambda: "process could not start" in service.log.read_text(), 120)
        assert service.ask("GET", "/healthz").status == 200
        server.start()
        until(lambda: service.log.read_text().count("Application startup complete") == 3, 120)
        assert service.ask("PUT", "/api/bookmarks", {"url": "https://e.com/"}).status == 201
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(120) == 0


@pytest.mark.slow
def test_processes_that_cannot_start_are_a_failure(tmp_path: Path) -> None:
    """So that `Restart=on-failure` of systemd starts the service again."""
    environ = {**os.environ, "XDG_DATA_HOME": str(tmp_path), "CANONRY_CA_FILE": str(tmp_path / "missing")}
    command = [*CANONRY, "serve", "--workers", "2", "--port", str(free_port())]
    ended = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].startswith("canonry: a process of the service did not start")


def test_a_process_whose_parent_is_killed_during_start_up_exits(tmp_path: Path) -> None:
    starting = """
import json, os, signal, time
from dataclasses import asdict
from canonry.server import run
from canonry.server import service
signal.signal(signal.SIGTERM, lambda *_: None)  # as uvicorn, which stops only once the service is open
parent = str(os.getpid())  # not the parent of this process
os.environ |= {run._OPTIONS_VARIABLE: json.dumps(asdict(service.ServiceOptions())), run._PARENT_VARIABLE: parent}
run.app_from_environment()
time.sleep(300)
"""
    environment = {**os.environ, "CANONRY_DATABASE_URL": f"sqlite:///{tmp_path / 'never.db'}"}
    ended = subprocess.run([sys.executable, "-c", starting], env=environment, check=False, timeout=200)
    assert ended.returncode == 1


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


@pytest.mark.slow
def test_users(tmp_path: Path) -> None:
    Database(f"sqlite:///{tmp_path / 'x.db'}").close()
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
    assert canonry(tmp_path, "user", "remove", "ada").returncode == 1  # no terminal to confirm


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
            wanted = len(acknowledged) + 50 * (round_number + 1)
            until(lambda wanted=wanted: len(acknowledged) >= wanted)  # type: ignore[misc]
            service.process.kill()
            stop.set()
            for sender in senders:
                sender.join(120)
    kept = sqlite3.connect(tmp_path / "x.db").execute("SELECT url FROM bookmarks").fetchall()
    assert len(acknowledged) > 100
    assert set(acknowledged) <= {url for (url,) in kept}
    assert len(kept) == len(set(kept))
    assert sqlite3.connect(tmp_path / "x.db").execute("PRAGMA integrity_check").fetchall() == [("ok",)]
