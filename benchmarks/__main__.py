"""Run every benchmark: `python -m benchmarks` from the root of the repository.

Each script writes its JSON to benchmarks/results/; what they print is collected in summary.md, and
docs/benchmarks.md is generated from the JSON.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks import report
from benchmarks.machine import machine

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results"


def main() -> int:
    """Run all, write the summary; 1 if a script failed."""
    RESULTS.mkdir(exist_ok=True)
    reports = {script: report_of(script) for script in scripts_that_measure()}
    about = ", ".join(f"{key}: {value}" for key, value in machine().items())
    sections = [f"## {script}\n\n{report or 'failed'}" for script, report in reports.items()]
    (RESULTS / "summary.md").write_text("\n\n".join(["# Benchmarks", about, *sections]) + "\n", encoding="utf-8")
    report.main()
    return 0 if all(reports.values()) else 1


def scripts_that_measure() -> list[str]:
    """The modules of this folder that can be run by themselves."""
    modules = [path for path in sorted(FOLDER.glob("*.py")) if path.name != "__main__.py"]
    return [path.stem for path in modules if "\nif __name__ ==" in path.read_text(encoding="utf-8")]


def report_of(script: str) -> str | None:
    """What the script printed, in a process of its own; None if it failed."""
    print(f"benchmarks.{script} …", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", f"benchmarks.{script}", "--json", str(RESULTS / f"{script}.json")]
    done = subprocess.run(command, cwd=FOLDER.parent, stdout=subprocess.PIPE, text=True, encoding="utf-8", check=False)
    print(done.stdout, flush=True)
    return done.stdout.strip() if done.returncode == 0 else None


if __name__ == "__main__":
    sys.exit(main())
