"""What goes wrong: each kind of failure is a function that makes it happen, to one process at a time."""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

    from chaos.parts import Part
    from chaos.watch import Process, Watch
    from postgres import PostgresServer
    from redis_server import RedisServer

_GAPS = (1.5, 4.0)  # seconds between two failures


@dataclass(frozen=True, slots=True)
class Failure:
    """One that has happened, and when it began."""

    kind: str
    at: float


@dataclass(frozen=True, slots=True)
class Targets:
    """What can fail."""

    service: Part
    workers: list[Part]
    crawl: Part
    postgres: PostgresServer
    redis: RedisServer
    watch: Watch
    chance: random.Random


def schedule(chance: random.Random, seconds: float) -> Iterator[tuple[str, float]]:
    """Kinds and the pauses before them: every kind once in each round, in an order of its own."""
    spent = 0.0
    while True:
        for kind in chance.sample(list(KINDS), len(KINDS)):
            gap = chance.uniform(*_GAPS)
            spent += gap
            if spent > seconds:  # at the latest: what failures themselves take is not counted here
                return
            yield kind, gap


def kill_service(targets: Targets) -> bool:
    return targets.service.kill()


def kill_service_worker(targets: Targets) -> bool:
    """One of the processes that answer; their parent stays."""
    parent = targets.service.process
    found = [each for each in targets.watch.alive() if parent is not None and each.parent == parent.pid]
    return _kill_one([each for each in found if each.kind == "service"], targets.chance)


def kill_worker(targets: Targets) -> bool:
    return targets.chance.choice(targets.workers).kill()


def kill_crawl(targets: Targets) -> bool:
    return targets.crawl.kill()


def kill_chrome(targets: Targets) -> bool:
    """The browser, or one of those that show its pages; a crawl that has just begun has none yet."""
    found: list[Process] = []
    for _ in range(50):
        found = [each for each in targets.watch.alive() if each.kind == "chrome"]
        if any("--type=renderer" in each.command for each in found):
            break
        time.sleep(0.1)
    browsers = [each for each in found if "--type=" not in each.command and "/bin/sh" not in each.command]
    return _kill_one(browsers if targets.chance.random() < 0.5 else found, targets.chance)


def crash_postgres(targets: Targets) -> bool:
    targets.postgres.crash()
    time.sleep(targets.chance.uniform(0.2, 1.5))
    targets.postgres.start()
    return True


def kill_redis(targets: Targets) -> bool:
    targets.redis.stop()
    time.sleep(targets.chance.uniform(0.2, 2.0))
    targets.redis.start()
    return True


def freeze_redis(targets: Targets) -> bool:
    targets.redis.freeze()
    try:
        time.sleep(targets.chance.uniform(0.5, 3.0))
    finally:
        targets.redis.thaw()
    return True


def flush_redis(targets: Targets) -> bool:
    with socket.create_connection(("127.0.0.1", targets.redis.port), timeout=5) as connection:
        connection.sendall(b"FLUSHALL\r\n")
        return connection.recv(16).startswith(b"+")


OF_THE_SERVICE = {"service killed", "one of its processes killed"}
KINDS: dict[str, Callable[[Targets], bool]] = {
    "service killed": kill_service,
    "one of its processes killed": kill_service_worker,
    "worker killed": kill_worker,
    "PostgreSQL crashed": crash_postgres,
    "Redis killed": kill_redis,
    "Redis frozen": freeze_redis,
    "Redis flushed": flush_redis,
    "Chrome killed": kill_chrome,
    "crawl killed": kill_crawl,
}


def _kill_one(found: list[Process], chance: random.Random) -> bool:
    if not found:
        return False
    with suppress(ProcessLookupError):
        os.kill(chance.choice(sorted(found, key=lambda each: each.pid)).pid, signal.SIGKILL)
        return True
    return False
