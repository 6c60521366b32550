"""Ports of loopback that nobody gets by chance."""

from __future__ import annotations

import secrets
import socket


def free_port() -> int:
    """A port where nobody listens, at no address, for something that is started in a moment.

    It lies below those the kernel hands out to whoever asks for any, as other tests do all the time.
    """
    for _ in range(100):
        port = 20_000 + secrets.randbelow(12_000)
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port
    raise AssertionError("no free port")
