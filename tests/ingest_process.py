"""Run ingests in their own processes: `ingest_process.py FD` reads orders as JSON lines and forks for each process.

Each process writes markers of two bytes to the descriptor FD: the number of a database connection and
`w` after a write inside a transaction, or `e` before the transaction ends. Standard output has one JSON
object per line: the ids of the processes, the report of each that finished, and the exit status of all.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Engine, event

from canonry.feeds.ingest import ingest
from canonry.net.fetch import Client
from canonry.net.guard import Guard
from canonry.settings import Settings
from canonry.store.statements import DriverCursor

ADDRESS = "127.0.0.2"
START = datetime(2026, 1, 1, tzinfo=UTC)
WROTE, ENDS = b"we"


@dataclass(frozen=True, slots=True)
class Order:
    """An ingest to run; every step is fifteen days later than the one before."""

    database_url: str
    port: int
    feeds: int
    step: int
    processes: int = 1


def main(markers: int) -> None:
    _mark_transactions(markers)
    for line in sys.stdin:
        order = Order(**json.loads(line))
        started = [_start(order) for _ in range(order.processes)]
        _print_json({"started": started})
        _print_json({"ended": [os.waitpid(process, 0)[1] for process in started]})


def _start(order: Order) -> int:
    process = os.fork()
    if process:
        return process
    try:
        asyncio.run(_ingest(order))
        os._exit(0)
    except BaseException:  # the fork must not go on with the loop of its parent
        traceback.print_exc()
    finally:
        os._exit(1)


async def _ingest(order: Order) -> None:
    async def lookup(_: str, __: int) -> list[tuple[str, int]]:
        return [(ADDRESS, order.port)]

    now = START + timedelta(days=15 * order.step)
    urls = [f"http://blog{number}.example.com:{order.port}/feed" for number in range(order.feeds)]
    guard = Guard([f"{ADDRESS}/32"], [order.port])
    async with Client(guard, settings=Settings(), lookup=lookup) as client:
        report = await ingest(urls, order.database_url, fetch=client.fetch, clock=lambda: now)
    unmet = [asdict(check) for check in report.checklist if not check.is_met]
    _print_json({"counts": report.counts, "warnings": report.warnings, "unmet": unmet})


def _mark_transactions(markers: int) -> None:
    numbers: dict[object, int] = {}

    def mark(connection: Connection, kind: int) -> None:
        name = id(connection.connection.dbapi_connection)
        os.write(markers, bytes((numbers.setdefault(name, len(numbers)), kind)))

    @event.listens_for(Engine, "after_cursor_execute")
    def executed(connection: Connection, _: Any, statement: str, *__: Any) -> None:
        if statement.startswith(("INSERT", "UPDATE", "DELETE", "CREATE")):
            mark(connection, WROTE)

    leave = DriverCursor.__exit__

    def left(cursor: DriverCursor, *raised: Any) -> None:
        leave(cursor, *raised)
        executed(cursor.connection, None, cursor.sql)

    DriverCursor.__exit__ = left  # type: ignore[method-assign]

    @event.listens_for(Engine, "commit")
    def committed(connection: Connection) -> None:
        mark(connection, ENDS)

    @event.listens_for(Engine, "rollback")
    def rolled_back(connection: Connection) -> None:
        mark(connection, ENDS)


def _print_json(record: dict[str, object]) -> None:
    os.write(1, f"{json.dumps(record)}\n".encode())


if __name__ == "__main__":
    main(int(sys.argv[1]))
