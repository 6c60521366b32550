"""Run the service: its socket, its processes, and its end."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import uvicorn
from uvicorn.config import STARTUP_FAILURE

from canonry.errors import CanonryError, StoreError
from canonry.server.app import make_app
from canonry.server.logs import configure_logging
from canonry.server.service import Options, Service
from canonry.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Generator

    from starlette.types import ASGIApp

_OPTIONS, _PARENT = "CANONRY_SERVE_OPTIONS", "CANONRY_SERVE_PARENT"  # how a parent tells its processes
_BACKLOG = 2048
_GRACE = 10  # seconds that running requests have to end
_PAUSE = 1.0  # seconds before a process is replaced that could not start
_log = logging.getLogger("canonry.service")


def serve(options: Options, *, socket_path: str = "", workers: int = 1) -> None:
    """Serve until SIGTERM or Ctrl-C, then let running requests end."""
    with _listening(options, socket_path) as listening, _calm_signals():
        configure_logging(as_json=not sys.stderr.isatty())
        if workers == 1:
            app = make_app(Service(load_settings(), options), owns_process=True)
            uvicorn.Server(_config(app)).run(sockets=[listening])
            return
        from uvicorn.supervisors import Multiprocess

        os.environ |= {_OPTIONS: json.dumps(asdict(options)), _PARENT: str(os.getpid())}
        config = _config("canonry.server.run:app_from_environment", workers=workers)
        supervisor = Multiprocess(config, [listening])
        supervisor.run()
        if any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes):
            raise CanonryError("a process of the service does not start; what it said is above")


def app_from_environment() -> ASGIApp:
    """The application in one of several processes."""
    configure_logging(as_json=not sys.stderr.isatty())
    given: dict[str, Any] = json.loads(os.environ[_OPTIONS])
    given["allowed_hosts"] = tuple(given["allowed_hosts"])
    service = _OneOfSeveral(load_settings(), Options(**given))
    threading.Thread(target=_end_with_parent, args=(int(os.environ[_PARENT]), service), daemon=True).start()
    return make_app(service, owns_process=True)


class _OneOfSeveral(Service):
    """Where it cannot start, another process is started for it, and the others go on."""

    async def __aenter__(self) -> Self:
        try:
            return await super().__aenter__()
        except StoreError as error:
            _log.error("this process does not start, another one tries again: %s", error)
            await asyncio.sleep(_PAUSE)
            os._exit(1)  # uvicorn would take an end of its own for a fault of the application, and end all


def _end_with_parent(parent: int, service: Service) -> None:
    """A parent that was killed leaves nobody behind who holds its port: the next one needs it at once."""
    while os.getppid() == parent:
        time.sleep(1)
    if not service.is_open:  # uvicorn would begin to serve before it ends, and nobody has been promised anything
        os._exit(1)
    os.kill(os.getpid(), signal.SIGTERM)


def is_loopback(host: str) -> bool:
    """Can only this machine reach it?"""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _config(app: ASGIApp | str, workers: int = 1) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        factory=isinstance(app, str),
        workers=workers,
        log_config=None,
        access_log=False,  # ours says more, and no secrets
        server_header=False,
        timeout_graceful_shutdown=_GRACE,
        h11_max_incomplete_event_size=128 * 1024,
    )


@contextmanager
def _listening(options: Options, path: str) -> Generator[socket.socket]:
    if not path:
        with _tcp(options.host, options.port) as listening:
            yield listening
        return
    listening = _unix(Path(path))
    try:
        with listening:
            yield listening
    finally:
        Path(path).unlink(missing_ok=True)


def _tcp(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host.strip("[]"), port), family=family, backlog=_BACKLOG)
    except OSError as error:
        # The system's own words; Python adds the address, which is there already.
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error
        raise CanonryError(f"{host}:{port}: {reason}; --port takes another") from None


def _unix(path: Path) -> socket.socket:
    """A socket that only its owner can open, from the moment it is there."""
    if path.is_socket():
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(path))
            except OSError:
                path.unlink()  # of a service that was killed
            else:
                raise CanonryError(f"{path}: another service listens there")
    listening = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        listening.bind(str(path))
    except OSError as error:
        listening.close()
        raise CanonryError(f"{path}: {error.strerror or error}") from None
    finally:
        os.umask(before)
    listening.listen(_BACKLOG)
    return listening


def _do_nothing(_number: int, _frame: object) -> None: ...


@contextmanager
def _calm_signals() -> Generator[None]:
    """uvicorn raises the signal that ended it once more when all is closed: an end that was asked for is no failure."""
    before = {number: signal.signal(number, _do_nothing) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
