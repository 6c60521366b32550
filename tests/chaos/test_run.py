"""A short run of `make chaos` passes all checks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from chrome import needs_chrome

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@needs_chrome
def test_a_short_run_passes_all_checks(tmp_path: Path) -> None:
    report = tmp_path / "chaos.md"
    command = [sys.executable, "-m", "chaos", "--seconds", "6", "--seed", "1", "--report", str(report)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=550, check=False)
    if run.returncode == 2:
        pytest.skip(run.stderr.splitlines()[-1])
    assert run.returncode == 0, run.stdout + run.stderr
    assert report.read_text().startswith("# Chaos: clean")
    assert run.stdout.count(" ok |") == 12 and "FAILED" not in run.stdout
