"""Run `canonry`, or a script, in a process that is forked from one with everything imported.

Importing takes longer than most commands. Variables that are read during import (CANONRY_PURE) have no effect
here; tests that set them start Python themselves.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_FORKSERVER = multiprocessing.get_context("forkserver")
_FORKSERVER.set_forkserver_preload(
    [
        "canonry.jobs.crawl_jobs",
        "canonry.jobs.kinds",
        "canonry.jobs.worker",
        "canonry.feeds.opml",
        "canonry.store.backup",
        "canonry.accounts",
        "canonry.cli.group",
        "canonry.crawler.crawl",
        "canonry.feeds.ingest",
    ]
)


class Forked:
    """A forked process with the methods of subprocess.Popen that tests use.

    The first argument is `canonry` or the path of a script. Output goes to the files `out` and `err`.
    """

    def __init__(self, *arguments: str, cwd: Path, environment: Mapping[str, str], out: Path, err: Path) -> None:
        self._arguments = arguments
        self._process = _FORKSERVER.Process(target=_run_in_fork, args=(arguments, cwd, dict(environment), out, err))
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self._arguments, timeout or 0)
        return self._process.exitcode

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()


def run(*arguments: str, cwd: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder with exactly these variables; return its exit code and output."""
    with TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        code = Forked("canonry", *arguments, cwd=cwd, environment=environment, out=out, err=err).wait()
        return subprocess.CompletedProcess(arguments, code, out.read_text(), err.read_text())


def _run_in_fork(arguments: tuple[str, ...], cwd: Path, environment: dict[str, str], *files: Path) -> None:
    for number, file in enumerate(files, start=1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = list(arguments)
    if arguments[0] != "canonry":
        runpy.run_path(arguments[0], run_name="__main__")
        return
    from canonry.cli.main import main

    main()
