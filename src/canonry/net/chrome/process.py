"""A Chrome process: found, started with a pipe and the proxy, and ended with this process (contract C7)."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import signal
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from canonry.errors import CanonryError
from canonry.net.chrome.certificates import trust_ca_file
from canonry.net.chrome.flags import FLAGS, PREFERENCES
from canonry.net.chrome.pipe import BrowserClosed, CommandFailed, Pipe
from canonry.net.chrome.proxy import LOGIN_URL, USER, Proxy
from canonry.net.chrome.tab import Tab

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from canonry.net.chrome.proxy import ProxyEndpoint
    from canonry.settings import Settings

DEBIAN_PACKAGE = "chromium-headless-shell"
_PROGRAM_NAMES = (
    "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome",
    "chrome-headless-shell", "headless_shell",
)  # fmt: skip
_LOG = logging.getLogger("canonry.chrome")
_START_SECONDS = 30.0
_EXIT_SECONDS = 2.0
_EXIT_POLL_SECONDS = 0.005
_MAX_FOLDER_BYTES = 36  # Chrome adds the rest of its socket's name, which has at most 107 bytes
_MAX_STDERR_BYTES = 2000  # the last bytes are kept for the error message
_MAX_SHOWN_CHARACTERS = 500
_MAX_PROCESS_KB = 4 * 1024 * 1024  # data of one process, limited by `ulimit -d`
# Chrome reads commands from file descriptor 3 and writes to 4. The script removes the profile after Chrome has ended,
# even if this process was killed, because Chrome ends when the pipe is closed. It retries, because children of Chrome
# may still be writing to the profile.
_LAUNCH_SCRIPT = """
ulimit -d "$1" 2>/dev/null; profile=$2; shift 2
"$@" 3<&0 4>&1 </dev/null >/dev/null
for attempt in 1 2 3 4 5; do rm -rf "$profile" 2>/dev/null && break; sleep 0.2; done
"""


def find_chrome(settings: Settings) -> str:
    """Return the path of an installed Chrome; raise CanonryError with advice on how to install one."""
    if settings.chrome:
        if found := shutil.which(settings.chrome):
            return found
        raise CanonryError(f"There is no Chrome at {settings.chrome}. Correct the setting chrome (CANONRY_CHROME).")
    for name in _PROGRAM_NAMES:
        if found := shutil.which(name):
            return found
    raise CanonryError(
        f"Chrome is not installed. On Debian, run apt-get install {DEBIAN_PACKAGE};"
        " elsewhere set CANONRY_CHROME to its path."
    )


class Browser:
    """A running Chrome with an empty profile; an async context manager, or call `close`."""

    def __init__(self, proxy: Proxy, *, program: str) -> None:
        self._proxy = proxy
        self._program = program
        self._process: asyncio.subprocess.Process | None = None
        self._pipe: Pipe | None = None
        self._endpoint: ProxyEndpoint | None = None
        self._profile = ""
        self._tasks: list[asyncio.Task[None]] = []
        self._stderr = b""
        self._user_agent = ""
        self._own_targets: set[str] = set()
        self._unknown_targets: list[str] = []
        self._pending_targets = 0  # commands to create a target that have no result yet

    @property
    def is_closed(self) -> bool:
        return self._pipe is None or self._pipe.is_closed

    @property
    def group(self) -> int:
        """The process group of Chrome and all its children."""
        assert self._process is not None
        return self._process.pid

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Start Chrome; raise CanonryError if it does not answer."""
        self._profile = tempfile.mkdtemp(prefix="canonry-chrome-", dir=_choose_folder())
        try:
            await asyncio.to_thread(_write_preferences, Path(self._profile) / "profile")
            await self._trust_ca_file()
            async with asyncio.timeout(_START_SECONDS):
                await self._launch()
        except (TimeoutError, OSError, CommandFailed, BrowserClosed) as error:
            await self.close()
            stderr = " ".join(self._stderr.decode(errors="replace").split())[-_MAX_SHOWN_CHARACTERS:]
            reason = stderr or str(error) or f"no answer within {_START_SECONDS:g} s"
            raise CanonryError(f"{self._program} does not start: {reason}") from None
        except BaseException:
            await self.close()
            raise

    async def _trust_ca_file(self) -> None:
        """Make Chrome trust the CAs of the settings; a failure is logged, because Chrome works without them."""
        if ca_file := self._proxy.settings.ca_file:
            try:
                await trust_ca_file(self._profile, ca_file)
            except CanonryError as error:
                _LOG.warning("Chrome does not trust the CAs of CANONRY_CA_FILE: %s", error)

    async def _launch(self) -> None:
        # The default endpoint serves requests of Chrome itself. No tab sends its password, so they are refused.
        self._endpoint = await self._proxy.open_endpoint()
        flags = [
            *FLAGS,
            f"--proxy-server=http://127.0.0.1:{self._endpoint.port}",
            f"--user-data-dir={self._profile}/profile",
        ]
        if os.name == "posix" and os.geteuid() == 0:
            _LOG.warning("Chrome runs without its sandbox because the user is root. Run as another user to be safer.")
            flags.append("--no-sandbox")
        self._process = await asyncio.create_subprocess_exec(
            *(
                "/bin/sh",
                "-c",
                _LAUNCH_SCRIPT,
                "canonry-chrome",
                str(_MAX_PROCESS_KB),
                self._profile,
                self._program,
                *flags,
            ),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # a separate process group, which can be killed as a whole
            env=self._make_environment(),
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._pipe = Pipe(self._process.stdout, self._process.stdin)
        self._tasks = [asyncio.create_task(self._pipe.run()), asyncio.create_task(self._read_stderr())]
        self._user_agent = str((await self._pipe.call("Browser.getVersion")).get("userAgent", ""))
        self._pipe.add_listener("", self._on_event)
        await self._pipe.call("Target.setDiscoverTargets", discover=True)

    def _make_environment(self) -> dict[str, str]:
        """Return an environment without the proxies and secrets of this process; home is the profile folder."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TZ") if name in os.environ}
        return {**kept, "HOME": self._profile, "TMPDIR": self._profile, "XDG_CONFIG_HOME": self._profile}

    async def _read_stderr(self) -> None:
        assert self._process is not None
        assert self._process.stderr is not None
        with suppress(OSError):
            while chunk := await self._process.stderr.read(2**16):
                self._stderr = (self._stderr + chunk)[-_MAX_STDERR_BYTES:]

    def kill(self) -> None:
        """Kill all processes; `close` must still be called."""
        if self._process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def close(self) -> None:
        """End all processes, remove the profile and close the default endpoint."""
        await finish_despite_cancellation(self._close())

    async def _close(self) -> None:
        self.kill()
        if self._endpoint is not None:
            await self._endpoint.close()
        if self._process is not None:
            await self._process.wait()
            await _wait_for_group_exit(self._process.pid)
        for task in self._tasks:
            await task  # ends with the process
        self._tasks = []
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            with suppress(OSError):
                await self._process.stdin.wait_closed()
        self._process = None
        await asyncio.to_thread(shutil.rmtree, self._profile, ignore_errors=True)

    async def open_tab(self) -> Tab:
        """Open a tab with its own browser context (cookies, cache) and proxy endpoint.

        Raise CommandFailed or BrowserClosed if Chrome does not open it.
        """
        assert self._pipe is not None
        pipe, endpoint = self._pipe, await self._proxy.open_endpoint()
        context = target = ""
        try:
            created = await pipe.call(
                "Target.createBrowserContext",
                disposeOnDetach=True,
                proxyServer=f"http://127.0.0.1:{endpoint.port}",
                proxyBypassList="<-loopback>",
            )
            context = created["browserContextId"]
            pipe.send("Browser.setDownloadBehavior", behavior="deny", browserContextId=context)
            target = await self._create_target(pipe, context)
            attached = await pipe.call("Target.attachToTarget", targetId=target, flatten=True)
            tab = Tab(
                pipe,
                endpoint,
                context=context,
                target=target,
                session=attached["sessionId"],
                proxy_token=self._proxy.token,
            )
            await tab.prepare(
                login_url=LOGIN_URL,
                credentials=(USER, self._proxy.password),
                user_agent=f"{self._user_agent} {self._proxy.settings.user_agent}",
            )
        except BaseException:
            if context:
                pipe.send("Target.disposeBrowserContext", browserContextId=context)
            await endpoint.close()
            raise
        return tab

    async def _create_target(self, pipe: Pipe, context: str) -> str:
        self._pending_targets += 1
        try:
            created = await pipe.call("Target.createTarget", url="about:blank", browserContextId=context)
            self._own_targets.add(created["targetId"])
            return str(created["targetId"])
        finally:
            self._pending_targets -= 1
            if not self._pending_targets:
                for target in self._unknown_targets:
                    self._close_if_unknown(target)
                self._unknown_targets.clear()

    def _on_event(self, method: str, params: dict[str, Any]) -> None:
        """Close windows that pages open."""
        if method == "Target.targetCreated" and params["targetInfo"]["type"] == "page":
            target = params["targetInfo"]["targetId"]
            if self._pending_targets and not params["targetInfo"].get("openerId"):
                # The event comes before the result of createTarget: this may be the new tab.
                self._unknown_targets.append(target)
            else:
                self._close_if_unknown(target)
        elif method == "Target.targetDestroyed":
            self._own_targets.discard(params["targetId"])

    def _close_if_unknown(self, target: str) -> None:
        if target not in self._own_targets and self._pipe is not None:
            self._pipe.send("Target.closeTarget", targetId=target)


async def finish_despite_cancellation(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end even if the caller is cancelled; CancelledError is raised after that."""
    task = asyncio.create_task(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def _write_preferences(profile: Path) -> None:
    """Turn off what no flag turns off."""
    folder = profile / "Default"
    folder.mkdir(parents=True)
    (folder / "Preferences").write_text(json.dumps(PREFERENCES), encoding="utf-8")


def _choose_folder() -> str | None:
    """Return `/tmp` if the folder for temporary files is too long for Chrome's socket, else None."""
    is_long = len(tempfile.gettempdir()) > _MAX_FOLDER_BYTES
    return "/tmp" if is_long and os.path.isdir("/tmp") else None  # noqa: S108


async def _wait_for_group_exit(group: int) -> None:
    """Wait until the killed processes are gone; limited, because without an init process zombies stay."""
    with suppress(ProcessLookupError, PermissionError, TimeoutError):
        async with asyncio.timeout(_EXIT_SECONDS):
            while True:
                os.killpg(group, 0)
                await asyncio.sleep(_EXIT_POLL_SECONDS)
