"""Contract C7: a crash of Chrome loses no page, and none of its processes remains."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import loopback
from canonry.crawler.crawl import crawl
from canonry.errors import CanonryError
from canonry.net.chrome.process import DEBIAN_PACKAGE, find_chrome
from canonry.net.origin import Origin
from canonry.settings import Settings
from chrome import GOOD, PAGE, find_browser_process, list_processes, make_engine, make_page, needs_chrome, run_engine
from loopback import ADDRESS, LoopbackWeb, in_a_loop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from canonry.net.chrome.chrome_engine import ChromeEngine


pytestmark = pytest.mark.usefixtures("refused_connects", "profiles")


def kill_tabs(engine: ChromeEngine, number: int) -> None:
    assert engine.process_group is not None
    for pid, command in list_processes(engine.process_group).items():
        if "--type=renderer" in command:
            with suppress(ProcessLookupError):  # a spare one that has ended meanwhile
                os.kill(pid, number)


async def wait_for_request(web: LoopbackWeb, url: str) -> None:
    while ("GET", url) not in web.requests:
        await asyncio.sleep(0.01)


@pytest.mark.slow
@needs_chrome
@in_a_loop
async def test_a_page_whose_used_tab_crashed_is_opened_in_a_new_tab() -> None:
    slow = "http://site.example/slow"
    pages = {PAGE: make_page(GOOD + "<script src=/slow></script>"), slow: {"delay_ms": 3000, "status": 404}}
    pages |= {f"http://site.example/{n}": make_page(GOOD) for n in range(4)}
    async with LoopbackWeb(pages) as web, run_engine(web.lookup, tabs=2) as engine:
        await engine.open("http://site.example/0", origin=Origin.PERSON)  # only a tab that was used before is replaced
        opening = asyncio.create_task(engine.open(PAGE, origin=Origin.PERSON))
        await wait_for_request(web, slow)
        kill_tabs(engine, signal.SIGSEGV)
        good = await asyncio.gather(
            *(engine.open(f"http://site.example/{n}", origin=Origin.PERSON) for n in range(1, 4))
        )
        assert [(each.failure, len(each.links)) for each in [*good, await opening]] == [(None, 1)] * 4
        assert web.requests.count(("GET", PAGE)) == 2


@needs_chrome
@in_a_loop
async def test_a_page_whose_tab_crashed_is_crawled_again() -> None:
    slow = "http://site.example/slow"
    pages = {PAGE: make_page(GOOD + "<script src=/slow></script>"), slow: {"delay_ms": 1000, "status": 404}}
    async with LoopbackWeb(pages) as web, run_engine(web.lookup, tabs=1) as engine:

        async def kill_its_tab() -> None:
            await wait_for_request(web, slow)
            kill_tabs(engine, signal.SIGKILL)

        killing = asyncio.create_task(kill_its_tab())
        [found] = [
            each async for each in crawl(PAGE, engine=engine, store="sqlite://", depth=0, robots=False, backoff=0.01)
        ]
        await killing
        assert (found.status, found.error, len(found.links)) == (200, "", 1)
        assert web.requests.count(("GET", PAGE)) == 2


@pytest.mark.slow
@needs_chrome
@in_a_loop
async def test_a_killed_browser_is_started_again() -> None:
    pages = {f"http://site.example/{n}": make_page(GOOD) for n in range(40)}
    async with LoopbackWeb(pages) as web, run_engine(web.lookup, tabs=4) as engine:
        await engine.open("http://site.example/0", origin=Origin.PERSON)
        first = engine.process_group
        assert first is not None
        opening = asyncio.gather(*(engine.open(url, origin=Origin.PERSON) for url in pages))
        await wait_for_request(web, "http://site.example/5")
        os.kill(find_browser_process(first), signal.SIGKILL)
        opened = await opening
        assert [(each.failure, len(each.links)) for each in opened] == [(None, 1)] * 40
        assert engine.process_group not in {None, first}
        assert list_processes(first) == {}


@pytest.mark.slow
@needs_chrome
@in_a_loop
async def test_no_page_is_lost_if_the_network_process_of_chrome_is_killed() -> None:
    """Chrome starts a new network process, which does not know the password of the proxy."""
    pages = {f"http://site.example/{n}": make_page(GOOD) for n in range(40)}
    async with LoopbackWeb(pages) as web, run_engine(web.lookup, tabs=3) as engine:
        await engine.open("http://site.example/0", origin=Origin.PERSON)
        group = engine.process_group
        assert group is not None
        [network] = [pid for pid, command in list_processes(group).items() if "network.mojom" in command]
        os.kill(network, signal.SIGKILL)
        opened = [await engine.open("http://site.example/1", origin=Origin.PERSON)]
        opened += await asyncio.gather(*(engine.open(url, origin=Origin.PERSON) for url in pages))
        assert [(each.status, each.failure, len(each.links)) for each in opened] == [(200, None, 1)] * 41
        assert engine.process_group == group


@needs_chrome
@pytest.mark.parametrize("turns", [1, 5, 50])
@in_a_loop
async def test_a_cancelled_close_still_closes_everything(turns: int) -> None:
    """A worker that stops cancels its crawls, even one that is already closing its engine."""
    async with LoopbackWeb({PAGE: make_page(GOOD)}) as web, run_engine(web.lookup) as engine:
        await engine.open(PAGE, origin=Origin.PERSON)
        group = engine.process_group
        assert group is not None
        closing = asyncio.create_task(engine.close())
        for _ in range(turns):
            await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert (engine.proxy.endpoints, list_processes(group)) == (set(), {})


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder whose name leaves room for Chrome's socket, which has at most 107 bytes."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


@needs_chrome
def test_no_chrome_remains_when_its_parent_is_killed(tmp_path: Path, short_folder: Path) -> None:
    """After `kill -9` of the parent the pipe is closed, Chrome ends, and its profile is removed."""
    script = tmp_path / "opens.py"
    script.write_text(
        "import asyncio\n"
        "from chrome import make_engine\n"
        "from canonry.net.origin import Origin\n"
        "async def main():\n"
        "    async with make_engine() as engine:\n"
        "        await engine.open('http://127.0.0.2:9/', origin=Origin.PERSON)\n"
        "        print(engine.process_group, flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "TMPDIR": str(short_folder)}
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        group = int(process.stdout.readline())
        assert len(list_processes(group)) > 3
        process.kill()
    deadline = time.monotonic() + 60
    while list_processes(group) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert list_processes(group) == {}
    assert not list(short_folder.glob("canonry-chrome-*"))


@needs_chrome
@in_a_loop
async def test_other_programs_cannot_use_the_browser_or_the_proxy() -> None:
    """There is no debugging port, and the proxy needs the password."""
    async with LoopbackWeb({PAGE: make_page(GOOD)}) as web, run_engine(web.lookup) as engine:
        await engine.open(PAGE, origin=Origin.PERSON)
        assert engine.process_group is not None
        commands = " ".join(list_processes(engine.process_group).values())
        assert "--remote-debugging-pipe" in commands and "--remote-debugging-port" not in commands
        assert engine.proxy.password not in commands
        for endpoint in engine.proxy.endpoints:
            reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
            writer.write(f"GET {PAGE} HTTP/1.1\r\nHost: site.example\r\n\r\n".encode())
            assert (await reader.readline()).startswith(b"HTTP/1.1 407 ")
            writer.close()
            await writer.wait_closed()
    loopback.CONNECTS.clear()


def test_a_missing_chrome_names_the_package_and_the_setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CanonryError, match=f"apt-get install {DEBIAN_PACKAGE}"):
        find_chrome(Settings())
    with pytest.raises(CanonryError, match="no Chrome at /nowhere/chrome.*CANONRY_CHROME"):
        find_chrome(Settings(chrome="/nowhere/chrome"))
    for name in ("chromium", DEBIAN_PACKAGE):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
        assert find_chrome(Settings()) == str(tmp_path / name)


@in_a_loop
async def test_a_chrome_that_does_not_start_is_an_error_with_its_message() -> None:
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "chrome"
        program.write_text("#!/bin/sh\necho 'No usable sandbox!' >&2; exit 1\n")
        program.chmod(0o755)
        async with make_engine(settings=Settings(chrome=str(program))) as engine:
            with pytest.raises(CanonryError, match="does not start: No usable sandbox!"):
                await engine.open(f"http://{ADDRESS}:9/", origin=Origin.PERSON)
