"""Every command and every Python example in README and docs, run and compared.

`python tests/docs/test_examples.py` writes what the commands print today into the pages.
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
]  # reference/ has no commands
_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
_SERVICE = "127.0.0.1:8000"  # where a service that was just started listens, in the pages
_LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def commands(page: Path) -> list[tuple[str, str]]:
    """Each `$ command` of a page and the output printed below it."""
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
        id=f"{name(page)}: {number} {command[:40]}",
        marks=[needs_curl] if "curl" in command else [],
    )
    for page in PAGES
    for found in [commands(page)]
    for number, (command, output) in enumerate(found)
]


@pytest.mark.parametrize(("command", "output", "earlier"), CASES)
def test_command(command: str, output: str, earlier: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    assert shown(command, earlier, tmp_path_factory.mktemp("example")) == output


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_python(page: Path) -> None:
    code = "\n".join(_PYTHON.findall(page.read_text(encoding="utf-8")))
    test = doctest.DocTestParser().get_doctest(code, {}, name(page), str(page), 0)
    assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test).failed == 0


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in _LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.slow
def test_make_run(tmp_path: Path) -> None:
    port = free_port()
    options = f"SERVE=--port {port} --db sqlite:///{tmp_path / 'x.db'}"
    with subprocess.Popen(["make", "run", options], cwd=ROOT, start_new_session=True) as made:

        def is_there() -> bool:
            assert made.poll() is None
            try:
                with socket.create_connection(("127.0.0.1", port), 5) as connection:
                    connection.sendall(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")
                    return b"canonry" in connection.makefile("rb").read()
            except OSError:
                return False

        try:
            until(is_there, 120)
        finally:
            os.killpg(made.pid, signal.SIGTERM)
        made.wait(30)


def test_the_demo() -> None:
    done = subprocess.run([sys.executable, "-m", "canonry", "demo"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "https://www.youtube.com/watch?v=dQw4w9WgXcQ" in done.stdout


def test_the_readme_names_make_targets_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    targets = " ".join(re.findall(r"(?:^|`)make ([a-z ]+?)(?:`|  )", text, re.MULTILINE)).split()
    assert {"run", "test"} <= set(targets)
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def shown(command: str, earlier: list[str], folder: Path) -> str:
    """What a person sees who types this in an empty folder; commands of a service come after the earlier ones."""
    if _SERVICE not in command:
        return _typed(command, folder)
    with serving(f"sqlite:///{folder / 'x.db'}", ServiceOptions(runs_jobs=False)) as running:
        here = f"127.0.0.1:{running.port}"
        typed = [each.replace(_SERVICE, here) for each in (*earlier, command) if _SERVICE in each]
        return [_typed(each, folder) for each in typed][-1].replace(here, _SERVICE)


def _typed(command: str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return terminal.run(["bash", "-c", command], cwd=folder, environment={"PATH": path})


def _rewrite(page: Path) -> None:
    import tempfile

    earlier: list[str] = []

    def command(match: re.Match[str]) -> str:
        with tempfile.TemporaryDirectory() as folder:
            printed = shown(match[1], list(earlier), Path(folder))
        earlier.append(match[1])
        return f"$ {match[1]}\n{printed}"

    text = page.read_text(encoding="utf-8")
    text = _CONSOLE.sub(lambda block: f"```console\n{_COMMAND.sub(command, block[1])}```", text)
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for each in PAGES:
        _rewrite(each)
