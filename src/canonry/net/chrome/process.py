"""A Chrome of our own: found, started with nothing but a pipe and our proxy, and gone when we are (contract C7)."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from canonry.errors import CanonryError
from canonry.net.chrome.certificates import trust_in
from canonry.net.chrome.pipe import BrowserGone, Pipe, Refused
from canonry.net.chrome.proxy import HELLO, USER, Proxy
from canonry.net.chrome.tab import Tab

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from canonry.net.chrome.proxy import Door
    from canonry.settings import Settings

PACKAGE = "chromium-headless-shell"  # of Debian
_NAMES = (
    "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome",
    "chrome-headless-shell", "headless_shell",
)  # fmt: skip
_LOG = logging.getLogger("canonry.chrome")
_START_SECONDS = 30.0
_GONE_SECONDS = 2.0
_LONG = 36  # bytes of a folder; the socket needs the rest
_SAID = 2000  # bytes of what Chrome complained about that are kept
_HEAP_MB = 512  # of the scripts of one page; a page that wants more crashes
_PROCESS_KB = 4 * 1024 * 1024  # of the data of one process, whatever it is kept in
# The first command is the pipe's: what we write is its file 3, what it writes to file 4 we read. The shell
# stays to remove the profile, also where we are killed: Chrome ends when the pipe does.
_SHELL = """
ulimit -d "$1" 2>/dev/null; profile=$2; shift 2
"$@" 3<&0 4>&1 </dev/null >/dev/null
for attempt in 1 2 3 4 5; do rm -rf "$profile" 2>/dev/null && break; sleep 0.2; done  # its children may still write
"""
_NOT_WANTED = (
    "AutofillServerCommunication",
    "DialMediaRouteProvider",
    "MediaRouter",
    "OptimizationHints",
    "RenderDocument",
    "Translate",
)
# Why each is here: docs/decisions/0011-chrome.md
FLAGS = (
    "--headless",
    "--remote-debugging-pipe",
    "--proxy-bypass-list=<-loopback>",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--dns-prefetch-disable",
    "--disable-quic",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--block-new-web-contents",
    "--deny-permission-prompts",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-client-side-phishing-detection",
    "--disable-component-extensions-with-background-pages",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-sync",
    "--metrics-recording-only",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-pings",
    "--no-service-autorun",
    "--password-store=basic",
    "--use-mock-keychain",
    "--disable-back-forward-cache",
    "--disable-backgrounding-occluded-windows",
    "--disable-background-timer-throttling",
    "--disable-renderer-backgrounding",
    "--disable-hang-monitor",
    "--disable-gpu",
    "--num-raster-threads=1",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--mute-audio",
    f"--disable-features={','.join(_NOT_WANTED)}",
    f"--js-flags=--max-old-space-size={_HEAP_MB}",
)


def find_chrome(settings: Settings) -> str:
    """The program to start; CanonryError says how to get one."""
    if settings.chrome:
        if found := shutil.which(settings.chrome):
            return found
        raise CanonryError(f"no Chrome at {settings.chrome} (setting chrome, CANONRY_CHROME)")
    for name in _NAMES:
        if found := shutil.which(name):
            return found
    raise CanonryError(
        f"no Chrome is installed: on Debian, apt-get install {PACKAGE}; elsewhere name one in CANONRY_CHROME"
    )


class Browser:
    """A running Chrome with an empty profile; use it as an async context manager, or close it."""

    def __init__(self, proxy: Proxy, *, program: str) -> None:
        self._proxy = proxy
        self._program = program
        self._process: asyncio.subprocess.Process | None = None
        self._pipe: Pipe | None = None
        self._door: Door | None = None
        self._profile = ""
        self._tasks: list[asyncio.Task[None]] = []
        self._said = b""
        self._user_agent = ""
        self._ours: set[str] = set()
        self._strangers: list[str] = []
        self._creating = 0

    @property
    def is_gone(self) -> bool:
        return self._pipe is None or self._pipe.is_gone

    @property
    def group(self) -> int:
        """The process group of all that was started."""
        assert self._process is not None
        return self._process.pid

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """CanonryError where it does not come up."""
        self._profile = tempfile.mkdtemp(prefix="canonry-chrome-", dir=_short_folder())
        try:
            await self._trust()
            async with asyncio.timeout(_START_SECONDS):
                await self._launch()
        except (TimeoutError, OSError, Refused, BrowserGone) as error:
            await self.close()
            said = " ".join(self._said.decode(errors="replace").split())[-500:]
            raise CanonryError(f"{self._program} does not start: {said or str(error) or 'no answer'}") from None
        except BaseException:
            await self.close()
            raise

    async def _trust(self) -> None:
        """Also the CAs of our settings; without them it is still a browser."""
        if ca_file := self._proxy.settings.ca_file:
            try:
                await trust_in(self._profile, ca_file)
            except CanonryError as error:
                _LOG.warning("Chrome does not trust the CAs of CANONRY_CA_FILE: %s", error)

    async def _launch(self) -> None:
        self._door = await self._proxy.open_door()  # for what no tab asks for: Chrome has no password there
        flags = [
            *FLAGS,
            f"--proxy-server=http://127.0.0.1:{self._door.port}",
            f"--user-data-dir={self._profile}/profile",
        ]
        if os.name == "posix" and os.geteuid() == 0:
            _LOG.warning("Chrome runs without its sandbox because this is root; another user would be safer")
            flags.append("--no-sandbox")
        self._process = await asyncio.create_subprocess_exec(
            *("/bin/sh", "-c", _SHELL, "canonry-chrome", str(_PROCESS_KB), self._profile, self._program, *flags),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # a group of its own, to be ended as one
            env=self._environment(),
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._pipe = Pipe(self._process.stdout, self._process.stdin)
        self._tasks = [asyncio.create_task(self._pipe.run()), asyncio.create_task(self._hear_complaints())]
        self._user_agent = str((await self._pipe.ask("Browser.getVersion")).get("userAgent", ""))
        self._pipe.listen("", self._on_event)
        await self._pipe.ask("Target.setDiscoverTargets", discover=True)

    def _environment(self) -> dict[str, str]:
        """Nothing of ours: no proxies, no keys, a home that goes with the profile."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TZ") if name in os.environ}
        return {**kept, "HOME": self._profile, "TMPDIR": self._profile, "XDG_CONFIG_HOME": self._profile}

    async def _hear_complaints(self) -> None:
        assert self._process is not None
        assert self._process.stderr is not None
        with suppress(OSError):
            while piece := await self._process.stderr.read(2**16):
                self._said = (self._said + piece)[-_SAID:]

    def kill(self) -> None:
        """All processes end now; it is still to be closed."""
        if self._process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def close(self) -> None:
        """No process remains, no profile, no open door."""
        await to_its_end(self._close())

    async def _close(self) -> None:
        self.kill()
        if self._door is not None:
            await self._door.close()
        if self._process is not None:
            await self._process.wait()
            await _group_gone(self._process.pid)
        for task in self._tasks:
            await task  # they end with the process
        self._tasks = []
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            with suppress(OSError):
                await self._process.stdin.wait_closed()
        self._process = None
        await asyncio.to_thread(shutil.rmtree, self._profile, ignore_errors=True)

    async def new_tab(self) -> Tab:
        """A tab in a context of its own (cookies, cache) behind a door of its own; Refused or BrowserGone."""
        assert self._pipe is not None
        pipe, door = self._pipe, await self._proxy.open_door()
        context = target = ""
        try:
            made = await pipe.ask(
                "Target.createBrowserContext",
                disposeOnDetach=True,
                proxyServer=f"http://127.0.0.1:{door.port}",
                proxyBypassList="<-loopback>",
            )
            context = made["browserContextId"]
            pipe.tell("Browser.setDownloadBehavior", behavior="deny", browserContextId=context)
            target = await self._new_target(pipe, context)
            attached = await pipe.ask("Target.attachToTarget", targetId=target, flatten=True)
            tab = Tab(pipe, door, context=context, target=target, session=attached["sessionId"], mark=self._proxy.mark)
            await tab.prepare(
                hello=HELLO,
                credentials=(USER, self._proxy.password),
                user_agent=f"{self._user_agent} {self._proxy.settings.user_agent}",
            )
        except BaseException:
            if context:
                pipe.tell("Target.disposeBrowserContext", browserContextId=context)
            await door.close()
            raise
        return tab

    async def _new_target(self, pipe: Pipe, context: str) -> str:
        self._creating += 1
        try:
            made = await pipe.ask("Target.createTarget", url="about:blank", browserContextId=context)
            self._ours.add(made["targetId"])
            return str(made["targetId"])
        finally:
            self._creating -= 1
            if not self._creating:
                for stranger in self._strangers:
                    self._shut(stranger)
                self._strangers.clear()

    def _on_event(self, method: str, params: dict[str, Any]) -> None:
        if method == "Target.targetCreated" and params["targetInfo"]["type"] == "page":
            target = params["targetInfo"]["targetId"]
            if self._creating and not params["targetInfo"].get("openerId"):
                self._strangers.append(target)  # ours, or a window a page has opened
            else:
                self._shut(target)
        elif method == "Target.targetDestroyed":
            self._ours.discard(params["targetId"])

    def _shut(self, target: str) -> None:
        if target not in self._ours and self._pipe is not None:
            self._pipe.tell("Target.closeTarget", targetId=target)


async def to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Who cancels it has to wait until it is done."""
    task = asyncio.create_task(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def _short_folder() -> str | None:
    """Where temporary files go, unless Chrome's socket in there would have a name of more than 107 bytes."""
    return "/tmp" if len(tempfile.gettempdir()) > _LONG and os.path.isdir("/tmp") else None  # noqa: S108


async def _group_gone(group: int) -> None:
    """Until the last killed process has ended; a moment is enough, unless nobody collects the dead."""
    with suppress(ProcessLookupError, PermissionError, TimeoutError):
        async with asyncio.timeout(_GONE_SECONDS):
            while True:
                os.killpg(group, 0)
                await asyncio.sleep(0.005)
