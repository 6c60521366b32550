"""Addresses that nobody may reach: they listen, count, and answer nothing."""

from __future__ import annotations

import selectors
import socket
import threading
from contextlib import suppress

ADDRESS = "127.0.0.9"  # loopback, but not what the settings allow


class Traps:
    """TCP at a port of 127.0.0.9, at its port 80 and at ::1 where that is to be had, and UDP; `hits` says what came."""

    def __init__(self) -> None:
        self.hits: list[str] = []
        self._selector = selectors.DefaultSelector()
        self._listen(socket.AF_INET, socket.SOCK_STREAM, ADDRESS, 0)
        self.port = int(self._sockets()[0].getsockname()[1])
        self._listen(socket.AF_INET, socket.SOCK_DGRAM, ADDRESS, self.port)
        for family, address, port in ((socket.AF_INET6, "::1", self.port), (socket.AF_INET, ADDRESS, 80)):
            with suppress(OSError):  # no IPv6, not root
                self._listen(family, socket.SOCK_STREAM, address, port)
        self._is_open = True
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Traps:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_open = False
        self._thread.join(5)
        for each in self._sockets():
            each.close()
        self._selector.close()

    @property
    def udp(self) -> str:
        return f"{ADDRESS}:{self.port}"

    def url(self, path: str) -> str:
        """A URL that leads here."""
        return f"http://{ADDRESS}:{self.port}{path}"

    def spellings(self, path: str) -> list[str]:
        """The same in disguise."""
        hosts = (ADDRESS, "0x7f000009", "2130706441", "127.9", "[::ffff:127.0.0.9]", "[::1]")
        return [f"http://{host}:{self.port}{path}" for host in hosts]

    def is_counting(self) -> bool:
        """Would they have noticed? One connection and one packet of our own, which are not kept as hits."""
        before = list(self.hits)
        with socket.create_connection((ADDRESS, self.port), timeout=5):
            pass
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"test", (ADDRESS, self.port))
        done = threading.Event()
        for _ in range(50):
            if len(self.hits) >= len(before) + 2:
                break
            done.wait(0.1)
        has_noticed = len(self.hits) == len(before) + 2
        self.hits[:] = before
        return has_noticed

    def _listen(self, family: socket.AddressFamily, kind: socket.SocketKind, address: str, port: int) -> None:
        listening = socket.socket(family, kind)
        try:
            listening.bind((address, port))
            if kind is socket.SOCK_STREAM:
                listening.listen(128)
        except OSError:
            listening.close()
            raise
        listening.setblocking(False)
        self._selector.register(listening, selectors.EVENT_READ)

    def _sockets(self) -> list[socket.socket]:
        found = [key.fileobj for key in self._selector.get_map().values()]
        return [each for each in found if isinstance(each, socket.socket)]

    def _watch(self) -> None:
        while self._is_open:
            for key, _ in self._selector.select(0.2):
                assert isinstance(key.fileobj, socket.socket)
                with suppress(OSError):
                    self.hits.append(_told(key.fileobj))


def _told(listening: socket.socket) -> str:
    """Who came, and the first line of what they said."""
    if listening.type == socket.SOCK_DGRAM:
        said, whence = listening.recvfrom(2048)
        return f"UDP from {whence[0]}: {said[:40]!r}"
    connection, whence = listening.accept()
    with connection:
        connection.settimeout(0.2)
        with suppress(OSError):
            said = connection.recv(2048)
            return f"TCP from {whence[0]}: {said.splitlines()[:1]!r}"
    return f"TCP from {whence[0]}"
