"""A command that misses a module names the extra that installs it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from canonry.cli.group import _EXTRAS  # pyright: ignore[reportPrivateUsage]

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
EXTRAS = ("feeds", "crawl", "serve", "bulk", "spark", "mcp")
OPTIONAL = {"uvloop"}  # used if it is there


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_modules_of_every_extra_are_known(extra: str) -> None:
    names = {re.split(r"[\[<>=; ]", requirement)[0] for requirement in PROJECT["optional-dependencies"][extra]}
    for name in names - OPTIONAL - {"canonry"}:
        modules = {
            module
            for module, found in packages_distributions().items()
            if canonicalize_name(name) in map(canonicalize_name, found)
        }
        assert any(_EXTRAS.get(module) == extra for module in modules), name


@pytest.mark.parametrize(
    ("command", "missing", "extra"),
    [
        ("feeds list", "sqlalchemy selectolax aiohttp", "feeds"),
        ("crawl https://example.com/", "protego selectolax sqlalchemy", "crawl"),
        ("crawl https://example.com/ --warc x.warc.gz", "warcio", "crawl"),
        ("crawl https://example.com/ --out x.parquet", "pyarrow", "bulk"),
        ("bulk a.txt -o x.parquet", "pyarrow duckdb", "bulk"),
        ("serve", "uvicorn fastapi", "serve"),
        ("mcp", "mcp", "mcp"),
    ],
)
def test_a_missing_module_is_one_line_with_its_extra(command: str, missing: str, extra: str, tmp_path: Path) -> None:
    code = f"""
import sys
sys.modules |= dict.fromkeys({missing.split()})
sys.argv = ["canonry", *{command.split()}]
from canonry.cli.main import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and f"'canonry[{extra}]'" in done.stderr
