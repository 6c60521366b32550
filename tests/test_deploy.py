"""The files for systemd, containers and workflows are valid, and keep the store private (contract O)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from configparser import ConfigParser
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

import canonry

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", ["canonry.service", "canonry-worker.service"])
def test_a_unit_closes_the_store_to_other_accounts(name: str) -> None:
    unit = ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string((ROOT / "deploy" / name).read_text())
    service = unit["Service"]
    assert (service["UMask"], service["StateDirectoryMode"]) == ("0077", "0700")
    assert service["NoNewPrivileges"] == "true" and service["ProtectSystem"] == "strict"


@pytest.mark.parametrize(
    "file",
    [
        ".git",
        ".venv",
        ".env",
        "canonry.toml",
        "x/canonry.db",
        "x/canonry.db-wal",
        "canonry.db.jobs",
        "b.jsonl.gz",
        "metrics-token",
    ],
)
def test_secrets_stay_out_of_the_image(file: str) -> None:
    patterns = (ROOT / ".dockerignore").read_text().splitlines()
    assert any(fnmatch(file, each) or fnmatch(f"x/{file}", each) for each in patterns if not each.startswith("#"))


@pytest.mark.parametrize("file", ["pyproject.toml", "setup.py", "constraints.txt", "README.md", "LICENSE", "NOTICE"])
def test_the_image_has_what_the_build_needs(file: str) -> None:
    patterns = (ROOT / ".dockerignore").read_text().splitlines()
    assert (ROOT / file).exists()
    assert not any(fnmatch(file, each) for each in patterns if not each.startswith("#"))


def test_containers_of_canonry_cannot_change_their_root_file_system() -> None:
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    for name in ("serve", "worker"):
        assert services[name]["read_only"] and services[name]["cap_drop"] == ["ALL"]
    published = [port for service in services.values() for port in service.get("ports", ())]
    assert published and all(port.startswith("127.0.0.1:") for port in published)
    assert re.search(r"^USER [1-9]\d*$", (ROOT / "deploy" / "Dockerfile").read_text(), re.MULTILINE)


def test_the_dashboard_shows_metrics_that_exist() -> None:
    board = json.loads((ROOT / "deploy" / "dashboard.json").read_text())
    shown = {
        name
        for panel in board["panels"]
        for target in panel.get("targets", ())
        for name in re.findall(r"canonry_\w+", target["expr"])
    }
    listed = set(re.findall(r"`(canonry_\w+)`", (ROOT / "docs" / "reference" / "metrics.md").read_text()))
    assert shown and not {re.sub(r"_(bucket|sum|count)$", "", name) for name in shown} - listed


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("vendor.compose-spec", "compose.yaml"),
        ("vendor.github-workflows", ".github/workflows/*.yml"),
        ("vendor.github-issue-forms", ".github/ISSUE_TEMPLATE/[!c]*.yml"),
        ("vendor.github-issue-config", ".github/ISSUE_TEMPLATE/config.yml"),
    ],
)
def test_files_for_other_programs_follow_their_schema(schema: str, files: str) -> None:
    pytest.importorskip("check_jsonschema", reason="no check-jsonschema (pip install check-jsonschema)")
    command = [
        sys.executable,
        "-m",
        "check_jsonschema",
        "--builtin-schema",
        schema,
        *sorted(map(str, ROOT.glob(files))),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_workflows_call_targets_of_the_makefile() -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    workflows = [file.read_text() for file in (ROOT / ".github" / "workflows").glob("*.yml")]
    called = {name for text in workflows for name in re.findall(r"run: make (\w+)", text)}
    assert {"test", "dist", "wheels", "docs"} <= called <= targets


def test_every_supported_python_is_tested_and_has_wheels() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    prefix = "Programming Language :: Python :: 3."
    minors = {text.removeprefix(prefix) for text in project["project"]["classifiers"] if text.startswith(prefix)}
    assert set(project["tool"]["cibuildwheel"]["build"]) == {f"cp3{minor}-*" for minor in minors}
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text()
    assert set(re.findall(r'"3\.(\d+)"', workflow)) == minors
    assert project["project"]["requires-python"] == f">=3.{min(map(int, minors))}"


def test_the_changelog_has_a_section_for_this_version() -> None:
    section = re.search(
        rf"^## {re.escape(canonry.__version__)} .*?(?=^## )", (ROOT / "CHANGELOG.md").read_text(), re.M | re.S
    )
    assert section and "\n### Policies\n" in section[0]
