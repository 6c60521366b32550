"""Loopback ports that no other test gets by chance."""

from __future__ import annotations

import secrets
import socket


def free_port() -> int:
    """Return a port that is free on every address, for a process that is about to start.

    It is below the ephemeral ports, which the kernel gives to other tests all the time.
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
