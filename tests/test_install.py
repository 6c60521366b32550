"""`pip install .` in a clean virtual environment, with and without a compiler, gives the same results."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PARTS = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "NOTICE", "constraints.txt")
DIRTY = "HTTPS://www.Example.com/a//b/?utm_source=x&b=2&a=1#top"
ANSWER = "https://example.com/a/b?a=1&b=2"
NO_COMPILER = {"CC": "/bin/false"}


def copy_sources(folder: Path) -> Path:
    """Copy the repository without built files, like a fresh clone."""
    for part in PARTS:
        shutil.copy(ROOT / part, folder / part)
    built = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", folder / "src", ignore=built)
    return folder


def install(folder: Path, extra: dict[str, str]) -> tuple[subprocess.CompletedProcess[str], Path]:
    """Install the sources into a new environment; return the pip process and the path of `canonry`."""
    where = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", where], check=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CANONRY_")} | extra
    done = subprocess.run(
        [*make_pip_command(where), "install", "--constraint", "constraints.txt", "."],
        cwd=copy_sources(folder),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done, where / "bin" / "canonry"


def make_pip_command(where: Path) -> list[str]:
    """Return the command of our pip for another environment; installing pip there takes longer than the test."""
    return [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(where)]


def read_output(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"]})
    return done.stdout.strip()


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which((sysconfig.get_config_var("CC") or "cc").split()[0]) is None,
    reason="no C compiler (Debian: apt-get install gcc libc6-dev)",
)
def test_installing_with_a_compiler_builds_the_native_core(tmp_path: Path) -> None:
    done, canonry = install(tmp_path, {"CANONRY_REQUIRE_NATIVE": "1"})
    assert done.returncode == 0, done.stderr
    assert read_output(canonry, "--version").endswith("(native core)")
    assert read_output(canonry, "normalize", "--policy", "feed-aggressive", DIRTY) == ANSWER
    done = subprocess.run(
        [canonry, "demo"], capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"]}
    )
    assert "https://www.youtube.com/watch?v=dQw4w9WgXcQ" in done.stdout
    assert "pip install 'canonry[crawl]'" in done.stderr  # without extras, the demo shows what needs no network
    where = canonry.parent.parent
    subprocess.run([*make_pip_command(where), "uninstall", "-y", "-q", "canonry"], check=True)
    assert not [*where.rglob("*canonry*")]


@pytest.mark.slow
def test_installing_without_a_compiler_gives_the_same_results(tmp_path: Path) -> None:
    done, canonry = install(tmp_path, NO_COMPILER)
    assert done.returncode == 0, done.stderr
    assert read_output(canonry, "--version").endswith("(pure Python core)")
    assert read_output(canonry, "normalize", "--policy", "feed-aggressive", DIRTY) == ANSWER


@pytest.mark.slow
def test_a_failed_compile_fails_the_installation_where_the_native_core_is_required(tmp_path: Path) -> None:
    done, _ = install(tmp_path, NO_COMPILER | {"CANONRY_REQUIRE_NATIVE": "1"})
    assert done.returncode != 0
    assert "_fast" in done.stdout + done.stderr


def test_pinned_packages_support_the_oldest_python() -> None:
    """Debian 12 has Python 3.11.2: a package that needs 3.11.5 cannot be installed there."""
    oldest = "3.11.0"
    pinned = {canonicalize_name(line.partition("==")[0]) for line in (ROOT / "constraints.txt").read_text().split()}
    found = [package for package in distributions() if canonicalize_name(package.name) in pinned]
    assert len(found) > 100
    refused = {
        package.name: wanted
        for package in found
        if (wanted := package.metadata["Requires-Python"]) and not SpecifierSet(wanted).contains(oldest)
    }
    assert refused == {}
