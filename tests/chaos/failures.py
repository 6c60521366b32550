"""Faults to inject: each is a function that makes one part fail.

The pauses in these functions are how long a part stays down or frozen; they wait for nothing.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

    from chaos.parts import Part
    from chaos.watch import Process, Watch
    from postgres import PostgresServer
    from redis_server import RedisServer

_GAP_SECONDS = (1.5, 4.0)  # shortest and longest pause between two failures
_CHROME_START_SECONDS = 5.0


class Fault(StrEnum):
    """What can be made to fail; the value is its name in the report."""

    SERVICE = "service killed"
    SERVICE_PROCESS = "one process of the service killed"
    WORKER = "worker killed"
    POSTGRES = "PostgreSQL crashed"
    REDIS = "Redis killed"
    REDIS_FREEZE = "Redis frozen"
    REDIS_FLUSH = "Redis flushed"
    CHROME = "Chrome killed"
    CRAWL = "crawl killed"


@dataclass(frozen=True, slots=True)
class Failure:
    """A fault that was injected, and when (`time.monotonic`)."""

    fault: Fault
    at: float


@dataclass(frozen=True, slots=True)
class Targets:
    """The parts that can fail."""

    service: Part
    workers: list[Part]
    crawl: Part
    postgres: PostgresServer
    redis: RedisServer
    watch: Watch
    chance: random.Random


def plan_faults(chance: random.Random, seconds: float) -> Iterator[tuple[Fault, float]]:
    """Yield faults with the pause before each: rounds of all faults, each round in a random order."""
    spent = 0.0
    while True:
        for fault in chance.sample(list(FAULTS), len(FAULTS)):
            gap = chance.uniform(*_GAP_SECONDS)
            spent += gap
            if spent > seconds:  # the run may end earlier: the time that faults take is not counted here
                return
            yield fault, gap


def kill_service(targets: Targets) -> bool:
    return targets.service.kill()


def kill_service_process(targets: Targets) -> bool:
    """Kill one of the processes that answer requests; their parent stays alive."""
    parent = targets.service.process
    found = [each for each in targets.watch.find_processes() if parent is not None and each.parent == parent.pid]
    return _kill_one([each for each in found if each.kind == "service"], targets.chance)


def kill_worker(targets: Targets) -> bool:
    return targets.chance.choice(targets.workers).kill()


def kill_crawl(targets: Targets) -> bool:
    return targets.crawl.kill()


def kill_chrome(targets: Targets) -> bool:
    """Kill the browser or one of its child processes; wait for Chrome if the crawl has just started."""
    found: list[Process] = []
    deadline = time.monotonic() + _CHROME_START_SECONDS
    while time.monotonic() < deadline:
        found = [each for each in targets.watch.find_processes() if each.kind == "chrome"]
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


SERVICE_FAULTS = {Fault.SERVICE, Fault.SERVICE_PROCESS}
# Each function returns False if its part was not running, so that nothing could fail.
FAULTS: dict[Fault, Callable[[Targets], bool]] = {
    Fault.SERVICE: kill_service,
    Fault.SERVICE_PROCESS: kill_service_process,
    Fault.WORKER: kill_worker,
    Fault.POSTGRES: crash_postgres,
    Fault.REDIS: kill_redis,
    Fault.REDIS_FREEZE: freeze_redis,
    Fault.REDIS_FLUSH: flush_redis,
    Fault.CHROME: kill_chrome,
    Fault.CRAWL: kill_crawl,
}


def _kill_one(processes: list[Process], chance: random.Random) -> bool:
    if not processes:
        return False
    with suppress(ProcessLookupError):
        os.kill(chance.choice(sorted(processes, key=lambda each: each.pid)).pid, signal.SIGKILL)
        return True
    return False
