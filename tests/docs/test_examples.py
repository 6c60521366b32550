"""Run every command and every Python example in README and docs, and compare the output.

`PYTHONPATH=.:tests python tests/docs/test_examples.py` writes the present output of the commands into the pages.
"""

from __future__ import annotations

import doctest
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import terminal
from canonry.server.service import ServiceOptions
from ports import free_port
from service import serving, until

ROOT = Path(__file__).parent.parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
_SERVICE = "127.0.0.1:8000"  # the address of the service in the pages; tests use a free port
_FILE = re.compile(r"`([\w.-]+(?:/[\w.-]+)+\.(?:py|c|h|toml))`")
_ERASED = re.compile(r"[^\n]*\r\x1b\[K")  # a progress line; only a slow machine shows one
_LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


def get_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def find_commands(page: Path) -> list[tuple[str, str]]:
    """Return each `$ command` of a page with the output printed below it."""
    return [
        (command[1], command[2])
        for block in _CONSOLE.finditer(page.read_text(encoding="utf-8"))
        for command in _COMMAND.finditer(block[1])
    ]


needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="no curl (Debian: apt-get install curl)")
CASES = [
    pytest.param(
        command,
        output,
        [earlier for earlier, _ in found[:number]],
        id=f"{get_name(page)}: {number} {command[:40]}",
        marks=[needs_curl] if "curl" in command else [],
    )
    for page in PAGES
    for found in [find_commands(page)]
    for number, (command, output) in enumerate(found)
]


@pytest.mark.parametrize(("command", "output", "earlier"), CASES)
def test_a_command_prints_what_the_page_shows(
    command: str, output: str, earlier: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert run_example(command, earlier, tmp_path_factory.mktemp("example")) == output


@pytest.mark.parametrize("page", PAGES, ids=get_name)
def test_python_examples_print_what_the_page_shows(page: Path) -> None:
    code = "\n".join(_PYTHON.findall(page.read_text(encoding="utf-8")))
    test = doctest.DocTestParser().get_doctest(code, {}, get_name(page), str(page), 0)
    assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test).failed == 0


@pytest.mark.parametrize("page", PAGES, ids=get_name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in _LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))], ids=get_name)
def test_the_files_that_pages_name_exist(page: Path) -> None:
    """Paths are relative to the root or to src/canonry."""
    files = _FILE.findall(page.read_text(encoding="utf-8"))
    assert not [file for file in files if not any((base / file).exists() for base in (ROOT, ROOT / "src" / "canonry"))]


@pytest.mark.slow
def test_make_run_starts_the_service(tmp_path: Path) -> None:
    port = free_port()
    options = f"SERVE=--port {port} --db sqlite:///{tmp_path / 'x.db'}"
    with subprocess.Popen(["make", "run", options], cwd=ROOT, start_new_session=True) as process:

        def is_running() -> bool:
            assert process.poll() is None
            try:
                with socket.create_connection(("127.0.0.1", port), 5) as connection:
                    connection.sendall(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")
                    return b"canonry" in connection.makefile("rb").read()
            except OSError:
                return False

        try:
            until(is_running, 120)
        finally:
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


def test_the_demo_shows_a_normalized_url() -> None:
    done = subprocess.run([sys.executable, "-m", "canonry", "demo"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "https://www.youtube.com/watch?v=dQw4w9WgXcQ" in done.stdout


def test_the_make_targets_that_pages_name_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    targets = " ".join(re.findall(r"(?:^|`)make ([a-z ]+?)(?:`|  )", text, re.MULTILINE)).split()
    assert {"run", "test"} <= set(targets)
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def run_example(command: str, earlier: list[str], folder: Path) -> str:
    """Run a command in an empty folder and return what the terminal shows.

    A command that calls the service gets a new one, after the page's earlier calls.
    """
    if _SERVICE not in command:
        return _run_in_terminal(command, folder)
    with serving(f"sqlite:///{folder / 'x.db'}", ServiceOptions(runs_jobs=False)) as running:
        here = f"127.0.0.1:{running.port}"
        calls = [each.replace(_SERVICE, here) for each in (*earlier, command) if _SERVICE in each]
        return [_run_in_terminal(each, folder) for each in calls][-1].replace(here, _SERVICE)


def _run_in_terminal(command: str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": path, "COLUMNS": "120"}  # as wide as the pages
    return _ERASED.sub("", terminal.run(["bash", "-c", command], cwd=folder, environment=environment))


def _rewrite(page: Path) -> None:
    """Write the present output of every command into a page."""
    import tempfile

    earlier: list[str] = []

    def run_again(match: re.Match[str]) -> str:
        with tempfile.TemporaryDirectory() as folder:
            printed = run_example(match[1], list(earlier), Path(folder))
        earlier.append(match[1])
        return f"$ {match[1]}\n{printed}"

    text = page.read_text(encoding="utf-8")
    text = _CONSOLE.sub(lambda block: f"```console\n{_COMMAND.sub(run_again, block[1])}```", text)
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for each in PAGES:
        _rewrite(each)
