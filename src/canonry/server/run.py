"""Run the service: open its socket, start its processes, shut down cleanly."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import signal
import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import uvicorn
from uvicorn.config import STARTUP_FAILURE

from canonry.errors import CanonryError, StoreError
from canonry.server.app import make_app
from canonry.server.connections import DEFAULT_LIMITS, ConnectionLimits, fit_connections, make_protocol
from canonry.server.logs import configure_logging, wants_json
from canonry.server.peers import is_loopback as is_loopback  # noqa: PLC0414
from canonry.server.service import Service, ServiceOptions
from canonry.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from starlette.types import ASGIApp

_OPTIONS_VARIABLE, _PARENT_VARIABLE = "CANONRY_SERVE_OPTIONS", "CANONRY_SERVE_PARENT"  # from parent to workers
_BACKLOG = 2048
_SHUTDOWN_SECONDS = 10  # for running requests to finish
_PROBE_SECONDS = 60.0  # for the first process to answer, before it is asked again
_RESTART_DELAY_SECONDS = 1.0  # before a process that could not start is replaced
_log = logging.getLogger("canonry.service")


def serve(
    options: ServiceOptions, *, socket_path: str = "", workers: int = 1, announce: Callable[[], None] = lambda: None
) -> None:
    """Serve until SIGTERM or Ctrl-C, then let running requests finish; `announce` is called once it answers."""
    options = replace(options, socket_path=socket_path)
    with _open_socket(options, socket_path) as listening, _ignore_repeated_signals():
        settings = load_settings()
        configure_logging(as_json=wants_json(settings.log_format), level=settings.log_level, debug=options.debug)
        limits = fit_connections(DEFAULT_LIMITS)
        configure = partial(make_config, limits=limits, trusted_proxies=settings.trusted_proxies)
        if workers == 1:
            app = make_app(Service(settings, options), owns_process=True)
            _AnnouncingServer(configure(app), announce).run(sockets=[listening])
            return
        from uvicorn.supervisors import Multiprocess

        os.environ |= {_OPTIONS_VARIABLE: json.dumps(asdict(options)), _PARENT_VARIABLE: str(os.getpid())}
        config = configure("canonry.server.run:app_from_environment", workers=workers)
        supervisor = Multiprocess(config, [listening])
        threading.Thread(target=_announce_when_ready, args=(listening, announce), daemon=True).start()
        supervisor.run()
        if any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes):
            raise CanonryError("a process of the service did not start; its error is above")


class _AnnouncingServer(uvicorn.Server):
    """A server that calls `announce` once it accepts connections."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._announce()


def _announce_when_ready(listening: socket.socket, announce: Callable[[], None]) -> None:
    """Wait until the first of several processes answers: the socket alone accepts connections before that."""
    while True:
        try:
            with socket.socket(listening.family) as probe:
                probe.settimeout(_PROBE_SECONDS)
                probe.connect(listening.getsockname())
                probe.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                if probe.recv(1):
                    announce()
                    return
        except OSError:
            time.sleep(_RESTART_DELAY_SECONDS)


def app_from_environment() -> ASGIApp:
    """Return the application of one of several processes; uvicorn calls this in each."""
    given: dict[str, Any] = json.loads(os.environ[_OPTIONS_VARIABLE])
    given["allowed_hosts"] = tuple(given["allowed_hosts"])
    settings, options = load_settings(), ServiceOptions(**given)
    configure_logging(as_json=wants_json(settings.log_format), level=settings.log_level, debug=options.debug)
    service = _ReplaceableService(settings, options)
    threading.Thread(target=_exit_with_parent, args=(int(os.environ[_PARENT_VARIABLE]), service), daemon=True).start()
    return make_app(service, owns_process=True)


class _ReplaceableService(Service):
    """The service of one of several processes; if it cannot start, its process is replaced and the others continue."""

    async def __aenter__(self) -> Self:
        try:
            return await super().__aenter__()
        except StoreError as error:
            _log.error("process could not start, a new one will try again: %s", error)
            await asyncio.sleep(_RESTART_DELAY_SECONDS)
            os._exit(1)  # after a normal failure to start, uvicorn would stop all processes


def _exit_with_parent(parent: int, service: Service) -> None:
    """Exit when the parent is gone: the next service needs its port at once."""
    while os.getppid() == parent:
        time.sleep(1)
    if not service.is_open:  # on SIGTERM during start-up, uvicorn would first begin to serve
        os._exit(1)
    os.kill(os.getpid(), signal.SIGTERM)


def make_config(
    app: ASGIApp | str,
    *,
    workers: int = 1,
    limits: ConnectionLimits = DEFAULT_LIMITS,
    trusted_proxies: tuple[str, ...] = (),
    **options: Any,
) -> uvicorn.Config:
    """Return the configuration of uvicorn, with our limits for connections."""
    return uvicorn.Config(
        app,
        http=make_protocol(limits, trusted_proxies),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        ws="none",
        timeout_keep_alive=limits.keep_alive_seconds,
        factory=isinstance(app, str),
        workers=workers,
        log_config=None,
        access_log=False,  # request_log.py logs more, and no secrets
        server_header=False,
        proxy_headers=False,  # access.py trusts configured proxies only
        timeout_graceful_shutdown=options.pop("timeout_graceful_shutdown", _SHUTDOWN_SECONDS),
        **options,
    )


@contextmanager
def _open_socket(options: ServiceOptions, path: str) -> Generator[socket.socket]:
    if not path:
        with _listen_tcp(options.host, options.port) as listening:
            yield listening
        return
    listening = _listen_unix(Path(path))
    try:
        with listening:
            yield listening
    finally:
        Path(path).unlink(missing_ok=True)


def _listen_tcp(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host.strip("[]"), port), family=family, backlog=_BACKLOG)
    except OSError as error:
        # Without the address that Python appends: the message has it already.
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or error
        is_port = error.errno in {errno.EADDRINUSE, errno.EACCES}
        advice = "Choose another port with --port." if is_port else "Give --host an address of this machine."
        raise CanonryError(f"cannot listen on {host}:{port}: {reason}. {advice}") from None


def _listen_unix(path: Path) -> socket.socket:
    """Return a socket that only its owner can connect to, from the moment it exists."""
    if path.is_socket():
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(path))
            except OSError:
                path.unlink()  # left behind by a service that was killed
            else:
                advice = "Stop it, or choose another path with --socket."
                raise CanonryError(f"cannot listen on {path}: another service uses this socket. {advice}")
    listening = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        listening.bind(str(path))
    except OSError as error:
        listening.close()
        raise CanonryError(f"cannot listen on {path}: {error.strerror or error}") from None
    finally:
        os.umask(before)
    listening.listen(_BACKLOG)
    return listening


def _do_nothing(_number: int, _frame: object) -> None: ...


@contextmanager
def _ignore_repeated_signals() -> Generator[None]:
    """Ignore the signal that uvicorn raises again after its shutdown: a requested stop is not a failure."""
    before = {number: signal.signal(number, _do_nothing) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
