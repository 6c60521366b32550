"""The log of DBOS while its database is away: short lines, none repeated within a minute."""

from __future__ import annotations

import logging
import traceback

import pytest

from canonry.jobs import dbos_log
from canonry.jobs.dbos_log import install_log_filter

AWAY = (
    "Exception listing queues: (psycopg.OperationalError) connection is bad\n\tIs the server running?\n(Background on"
)


@pytest.fixture
def dbos(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> logging.Logger:
    """DBOS's logger as a new process has it."""
    logger = logging.getLogger("dbos")
    monkeypatch.setattr(logger, "handlers", [])
    monkeypatch.setattr(logger, "filters", [])
    monkeypatch.setattr(logger, "propagate", True)
    install_log_filter()
    caplog.set_level(logging.WARNING)
    return logger


def test_a_message_is_one_line_and_is_logged_once(dbos: logging.Logger, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        dbos.warning(AWAY)
        dbos.warning("%s is waiting", "one")
        dbos.warning("%s is waiting", "another")
        dbos.error("Exception encountered in asynchronous workflow: logged by the worker, too")
    assert caplog.messages == [
        "Exception listing queues: (psycopg.OperationalError) connection is bad",
        "one is waiting",
        "another is waiting",
    ]


def test_a_message_is_logged_again_after_a_while(
    dbos: logging.Logger, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dbos_log, "_REPEAT_SECONDS", 0.0)
    dbos.warning(AWAY)
    dbos.warning(AWAY)
    assert len(caplog.messages) == 2


def test_a_traceback_becomes_the_exception_at_its_end(dbos: logging.Logger, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ConnectionError) as caught:
        raise ConnectionError("no answer\nfrom there")
    dbos.warning("Exception polling schedules: " + "".join(traceback.format_exception(caught.value)))
    dbos.warning("Traceback (most recent call last): cut off")
    dbos.warning("")
    assert caplog.messages == [
        "Exception polling schedules: ConnectionError: no answer",
        "Traceback (most recent call last): cut off",
        "",
    ]
