"""Every command and every Python example in README and docs, run and compared.

`python tests/docs/test_examples.py` writes what the commands print today into the pages.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import terminal

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
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


CASES = [
    pytest.param(command, output, id=f"{name(page)}: {command[:40]}")
    for page in PAGES
    for command, output in commands(page)
]


@pytest.mark.parametrize(("command", "output"), CASES)
def test_command(command: str, output: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert shown(command, tmp_path_factory.mktemp("example")) == output


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_python(page: Path) -> None:
    code = "\n".join(_PYTHON.findall(page.read_text(encoding="utf-8")))
    test = doctest.DocTestParser().get_doctest(code, {}, name(page), str(page), 0)
    assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test).failed == 0


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in _LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_make_run() -> None:
    done = subprocess.run(["make", "run"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "https://www.youtube.com/watch?v=dQw4w9WgXcQ" in done.stdout


def test_the_readme_names_make_targets_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    targets = " ".join(re.findall(r"(?:^|`)make ([a-z ]+?)(?:`|  )", text, re.MULTILINE)).split()
    assert {"run", "test"} <= set(targets)
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def shown(command: str, folder: Path) -> str:
    """What a person sees who types this in an empty folder."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return terminal.run(["bash", "-c", command], cwd=folder, environment={"PATH": path})


def _rewrite(page: Path) -> None:
    import tempfile

    def command(match: re.Match[str]) -> str:
        with tempfile.TemporaryDirectory() as folder:
            return f"$ {match[1]}\n{shown(match[1], Path(folder))}"

    text = page.read_text(encoding="utf-8")
    text = _CONSOLE.sub(lambda block: f"```console\n{_COMMAND.sub(command, block[1])}```", text)
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for each in PAGES:
        _rewrite(each)
