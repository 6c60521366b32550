"""The files of `deploy/` keep the store private (contract O)."""

from __future__ import annotations

from configparser import ConfigParser
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_the_unit_closes_the_store_to_other_accounts() -> None:
    unit = ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string((ROOT / "deploy" / "canonry.service").read_text())
    service = unit["Service"]
    assert (service["UMask"], service["StateDirectoryMode"]) == ("0077", "0700")
    assert service["NoNewPrivileges"] == "true" and service["ProtectSystem"] == "strict"


@pytest.mark.parametrize(
    "file",
    [".git", ".venv", ".env", "canonry.toml", "x/canonry.db", "x/canonry.db-wal", "canonry.db.jobs", "b.jsonl.gz"],
)
def test_secrets_stay_out_of_the_image(file: str) -> None:
    patterns = (ROOT / ".dockerignore").read_text().splitlines()
    assert any(fnmatch(file, each) or fnmatch(f"x/{file}", each) for each in patterns if not each.startswith("#"))


@pytest.mark.parametrize("file", ["pyproject.toml", "setup.py", "constraints.txt", "README.md", "LICENSE", "NOTICE"])
def test_the_image_has_what_the_build_needs(file: str) -> None:
    patterns = (ROOT / ".dockerignore").read_text().splitlines()
    assert (ROOT / file).exists()
    assert not any(fnmatch(file, each) for each in patterns if not each.startswith("#"))
