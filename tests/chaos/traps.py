"""Listeners at forbidden addresses: they count connections and packets, and answer nothing."""

from __future__ import annotations

import selectors
import socket
import threading
from contextlib import suppress

ADDRESS = "127.0.0.9"  # loopback, but not in the networks that the settings of the run allow
_RECEIVE_SECONDS = 5.0  # how long a trap waits for the first bytes of a connection
_COUNT_SECONDS = 60.0


class Traps:
    """TCP and UDP at a port of 127.0.0.9, and TCP at its port 80 and at ::1 where possible.

    `hits` has one line for each connection or packet.
    """

    def __init__(self) -> None:
        self.hits: list[str] = []
        self._changed = threading.Condition()
        self._selector = selectors.DefaultSelector()
        self._listen(socket.AF_INET, socket.SOCK_STREAM, ADDRESS, 0)
        self.port = int(self._get_sockets()[0].getsockname()[1])
        self._listen(socket.AF_INET, socket.SOCK_DGRAM, ADDRESS, self.port)
        for family, address, port in ((socket.AF_INET6, "::1", self.port), (socket.AF_INET, ADDRESS, 80)):
            with suppress(OSError):  # IPv6 is missing, or port 80 needs root
                self._listen(family, socket.SOCK_STREAM, address, port)
        self._is_open = True
        self._thread = threading.Thread(target=self._count, daemon=True)

    def __enter__(self) -> Traps:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_open = False
        self._thread.join(10)
        for each in self._get_sockets():
            each.close()
        self._selector.close()

    @property
    def udp_address(self) -> str:
        return f"{ADDRESS}:{self.port}"

    def make_url(self, path: str) -> str:
        """Return a URL of the traps."""
        return f"http://{ADDRESS}:{self.port}{path}"

    def make_spellings(self, path: str) -> list[str]:
        """Return URLs that write the address of the traps in different ways, for example as one number."""
        hosts = (ADDRESS, "0x7f000009", "2130706441", "127.9", "[::ffff:127.0.0.9]", "[::1]")
        return [f"http://{host}:{self.port}{path}" for host in hosts]

    def try_counting(self) -> bool:
        """Return whether one connection and one packet of our own are counted; they are removed from `hits`."""
        with self._changed:
            before = list(self.hits)
        with socket.create_connection((ADDRESS, self.port), timeout=_COUNT_SECONDS):
            pass
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"test", (ADDRESS, self.port))
        with self._changed:
            self._changed.wait_for(lambda: len(self.hits) >= len(before) + 2, _COUNT_SECONDS)
            are_counting = len(self.hits) == len(before) + 2
            self.hits[:] = before
        return are_counting

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

    def _get_sockets(self) -> list[socket.socket]:
        files = [key.fileobj for key in self._selector.get_map().values()]
        return [each for each in files if isinstance(each, socket.socket)]

    def _count(self) -> None:
        while self._is_open:
            for key, _ in self._selector.select(0.2):
                assert isinstance(key.fileobj, socket.socket)
                with suppress(OSError):
                    hit = _receive(key.fileobj)
                    with self._changed:
                        self.hits.append(hit)
                        self._changed.notify_all()


def _receive(listening: socket.socket) -> str:
    """Take one connection or packet; return its protocol, its sender and its first line."""
    if listening.type == socket.SOCK_DGRAM:
        data, sender = listening.recvfrom(2048)
        return f"UDP from {sender[0]}: {data[:40]!r}"
    connection, sender = listening.accept()
    with connection:
        connection.settimeout(_RECEIVE_SECONDS)
        with suppress(OSError):
            data = connection.recv(2048)
            return f"TCP from {sender[0]}: {data.splitlines()[:1]!r}"
    return f"TCP from {sender[0]}"
