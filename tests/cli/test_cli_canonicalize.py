"""The command `canonry canonicalize`, in a process of its own, against a server on loopback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import pytest

import command
import terminal
from feed_texts import rss
from http_server import serve_http

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMAND = [sys.executable, "-m", "canonry", "canonicalize"]
ALLOWED = {"CANONRY_ALLOW_NETWORKS": "127.0.0.0/8", "CANONRY_ALLOW_PORTS": "1-65535"}
PAGE = '<html><link rel="alternate" type="application/rss+xml" title="Posts" href="/feed/?utm_source=page">'


class Handler(BaseHTTPRequestHandler):
    hang_requested = Event()
    leave = Event()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/hang":
            self.hang_requested.set()
            self.leave.wait(300)
        status, kind, body = {
            "/": (200, "text/html", PAGE),
            "/feed": (200, "text/xml", rss()),
            "/feed/": (200, "text/xml", rss()),
            "/title": (
                200,
                "text/xml",
                '{"version": "https://jsonfeed.org/version/1.1", "title": "\\u001b]0;pwned\\u0007", "items": []}',
            ),
            "/busy": (429, "text/plain", ""),
        }.get(path, (404, "text/plain", ""))
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Retry-After", "7")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with serve_http(Handler) as port:
        yield f"http://127.0.0.1:{port}"
        Handler.leave.set()


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return command.run("canonicalize", *arguments, cwd=Path.cwd(), environment={**os.environ, **ALLOWED})


def test_piped_output_is_the_result_as_json(site: str) -> None:
    done = run(f"{site}/feed/?utm_source=x")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["url"] == f"{site}/feed"
    assert found["reason"] == "content_verified"
    assert found["feed"] == {"title": "Blog", "format": "rss", "item_count": 3}
    assert [each["verdict"] for each in found["candidates"]] == ["fetched", "same", "failed"]
    assert found["aliases"] == [f"{site}/feed/?utm_source=x"]


def test_a_terminal_shows_every_attempt_and_progress(site: str) -> None:
    shown = terminal.run([*COMMAND, f"{site}/feed/"], environment=ALLOWED)
    progress, _, answer = shown.rpartition("\r\033[K")
    assert f"fetching {site}/feed/" in progress
    lines = answer.splitlines()
    assert lines[0] == f"{site}/feed"
    assert lines[1] == "content_verified, from response, Blog (rss, 3 items), 3 requests"
    assert lines[2].split() == ["verdict", "ms", "score", "url", "reason"]
    assert [line.split()[0] for line in lines[3:6]] == ["fetched", "same", "failed"]
    assert lines[6] == f"Alias: {site}/feed/"


def test_discover_uses_the_first_feed_of_a_web_page(site: str) -> None:
    refused = run(f"{site}/")
    assert refused.returncode == 1
    assert "links to 1 feed; to follow the first, turn on discover" in refused.stderr
    assert json.loads(refused.stdout)["url"] is None
    assert json.loads(run("--discover", f"{site}/").stdout)["url"] == f"{site}/feed"


def test_max_requests_limits_requests_after_the_first(site: str) -> None:
    found = json.loads(run("--max-requests", "0", f"{site}/feed/").stdout)
    assert (found["url"], found["requests"], found["total_requests"]) == (f"{site}/feed/", 0, 1)
    assert run("--max-requests", "-1", f"{site}/feed/").returncode == 2
    assert run().returncode == 2


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("{site}/busy", "answered 429, retry after 7 s"),
        ("{site}/none", "answered 404"),
        ("http://10.0.0.1/feed", "10.0.0.1 is a private address"),
        ("http://169.254.169.254/", "metadata"),
        ("http://127.0.0.1:1/feed", "no connection"),
        ("no url", "not a usable URL"),
    ],
)
def test_a_failure_is_one_line_and_exit_code_1(site: str, url: str, message: str) -> None:
    done = run(url.format(site=site))
    assert done.returncode == 1
    assert done.stderr.startswith("canonry: ")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr
    assert message in json.loads(done.stdout)["error"]


def test_credentials_are_masked_except_in_the_canonical_url(site: str) -> None:
    shown = terminal.run([*COMMAND, f"{site.replace('//', '//me:secret@')}/feed/"], environment=ALLOWED)
    assert shown.count("secret") == 1
    assert "***@" in shown
    printed = run(f"{site.replace('//', '//me:secret@')}/feed/").stdout
    assert json.loads(printed)["url"] == f"{site.replace('//', '//me:secret@')}/feed"
    assert printed.count("secret") == 1


def test_credentials_are_masked_in_an_error(site: str) -> None:
    done = run(f"{site.replace('//', '//me:secret@')}/none")
    assert done.returncode == 1
    assert "secret" not in done.stdout + done.stderr


def test_escape_sequences_in_a_title_are_not_printed(site: str) -> None:
    shown = terminal.run([*COMMAND, f"{site}/title"], environment=ALLOWED)
    assert "\x07" not in shown
    assert "\\x1b]0;pwned\\x07" in shown


@pytest.mark.parametrize(
    ("stdout", "stderr"), [("/dev/full", "canonry: [Errno 28] No space left on device\n"), ("&-", "")]
)
def test_a_full_or_closed_stdout_gives_no_traceback(site: str, stdout: str, stderr: str) -> None:
    command = f"{' '.join(COMMAND)} {site}/feed >{stdout}"
    done = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, check=False, env={**os.environ, **ALLOWED}
    )
    assert done.stderr == stderr


def test_an_invalid_setting_is_named() -> None:
    done = subprocess.run(
        [*COMMAND, "http://127.0.0.1/"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "CANONRY_ALLOW_PORTS": "99999"},
    )
    assert done.returncode == 1
    assert (
        done.stderr == "canonry: CANONRY_ALLOW_PORTS: '99999' is not a port or a range of ports between 1 and 65535\n"
    )


def test_a_missing_extra_is_named(site: str) -> None:
    code = "import sys; sys.modules['aiohttp'] = None; from canonry.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "canonicalize", f"{site}/feed"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.endswith("pip install 'canonry[feeds]'\n") and done.stderr.count("\n") == 1


def test_an_interrupt_ends_the_command(site: str) -> None:
    with subprocess.Popen(
        [*COMMAND, f"{site}/hang"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **ALLOWED}
    ) as process:
        assert Handler.hang_requested.wait(60)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=240)
    assert process.returncode == 1
    assert stderr.strip() == b"Aborted!"
