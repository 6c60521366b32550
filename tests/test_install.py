"""The release installs into a clean environment, with and without a compiler, and gives the same results."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from importlib.metadata import distributions
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

import canonry

ROOT = Path(__file__).parent.parent


def make_clean_environ(extra: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("CANONRY_")} | extra


@pytest.fixture(scope="module")
def source_distribution(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of the release, made from a copy of the files that git knows, like a fresh clone."""
    folder = tmp_path_factory.mktemp("clone")
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"], cwd=ROOT, stdout=-1, check=False
    )
    names = [name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]
    if not names:  # these tests run in an unpacked archive
        built = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info", ".venv", ".*_cache")
        shutil.copytree(ROOT, folder, ignore=built, dirs_exist_ok=True)
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    build = [sys.executable, "-m", "build", "--no-isolation", "--sdist", "--outdir", "dist"]
    subprocess.run(build, cwd=folder, env=make_clean_environ({}), check=True, stdout=subprocess.DEVNULL)
    (archive,) = (folder / "dist").iterdir()
    return archive


def build_wheel(archive: Path, folder: Path, extra: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Build a wheel in a folder; without build isolation, because that downloads setuptools each time."""
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w"]
    environ = make_clean_environ(extra)
    return subprocess.run(
        [*command, str(folder), str(archive)], env=environ, capture_output=True, text=True, check=False, cwd=folder
    )


def check_install(folder: Path, core: str) -> Path:
    """Install the wheel of a folder into a new environment, use it, and return the environment."""
    where = folder / "environment"
    (wheel,) = folder.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", where], check=True)
    install = [*make_pip_command(where), "install", "-q", "--constraint", str(ROOT / "constraints.txt"), str(wheel)]
    subprocess.run(install, cwd=folder, env=make_clean_environ({}), check=True)
    check = [str(where / "bin" / "python"), str(ROOT / "tools" / "check_install.py"), core]
    subprocess.run(check, check=True, env={"PATH": os.environ["PATH"]})
    return where


def make_pip_command(where: Path) -> list[str]:
    """Return the command of our pip for another environment; installing pip there takes longer than the test."""
    return [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(where)]


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which((sysconfig.get_config_var("CC") or "cc").split()[0]) is None,
    reason="no C compiler (Debian: apt-get install gcc libc6-dev)",
)
def test_a_wheel_built_with_a_compiler_has_the_native_core(source_distribution: Path, tmp_path: Path) -> None:
    done = build_wheel(source_distribution, tmp_path, {"CANONRY_REQUIRE_NATIVE": "1"})
    assert done.returncode == 0, done.stderr
    where = check_install(tmp_path, "native")
    subprocess.run([*make_pip_command(where), "uninstall", "-y", "-q", "canonry"], check=True)
    assert not [*where.rglob("*canonry*")]


def test_a_wheel_built_without_a_compiler_has_the_core_in_python(source_distribution: Path, tmp_path: Path) -> None:
    done = build_wheel(source_distribution, tmp_path, {"CC": "/bin/false"})
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = ZipFile(wheel).namelist()
    assert "canonry/core/native/shortcut.py" in names
    assert not [name for name in names if name.endswith(".so")]


def test_a_failed_compilation_fails_the_build_where_the_native_core_is_required(
    source_distribution: Path, tmp_path: Path
) -> None:
    done = build_wheel(source_distribution, tmp_path, {"CC": "/bin/false", "CANONRY_REQUIRE_NATIVE": "1"})
    assert done.returncode != 0
    assert "_fast" in done.stdout + done.stderr


@pytest.mark.slow
def test_a_wheel_without_the_native_core_fits_every_system(source_distribution: Path, tmp_path: Path) -> None:
    done = build_wheel(source_distribution, tmp_path, {"CANONRY_PURE": "1"})
    assert done.returncode == 0, done.stderr
    assert [file.name for file in tmp_path.iterdir()] == [f"canonry-{canonry.__version__}-py3-none-any.whl"]
    check_install(tmp_path, "pure")


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
