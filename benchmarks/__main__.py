"""Run every benchmark, or those that are named: `python -m benchmarks [SCRIPT …]` from the root of the repository.

Each script writes its JSON to benchmarks/results/. If all are run, what the scripts print is collected in summary.md
there, and docs/benchmarks.md is generated from the JSON. `python -m benchmarks.SCRIPT --help` lists the options of one.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from benchmarks import report
from benchmarks.machine import describe_machine

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results"


def main() -> int:
    """Run benchmarks, write the summary if all were run, and return 1 if a script failed."""
    scripts = find_scripts()
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("scripts", nargs="*", metavar="SCRIPT", help=f"one of {', '.join(scripts)}; all by default")
    chosen: list[str] = parser.parse_args().scripts
    if unknown := sorted(set(chosen) - set(scripts)):
        parser.error(f"no benchmark {', '.join(unknown)}; choose from {', '.join(scripts)}")
    RESULTS.mkdir(exist_ok=True)
    reports = {script: run_script(script) for script in chosen or scripts}
    if not chosen:
        write_summary(reports)
    return 0 if all(reports.values()) else 1


def write_summary(reports: dict[str, str | None]) -> None:
    """Write what the scripts printed to summary.md, and generate docs/benchmarks.md."""
    about = ", ".join(f"{key}: {value}" for key, value in describe_machine().items())
    sections = [f"## {script}\n\n{report or 'failed'}" for script, report in reports.items()]
    (RESULTS / "summary.md").write_text("\n\n".join(["# Benchmarks", about, *sections]) + "\n", encoding="utf-8")
    report.main()


def find_scripts() -> list[str]:
    """Return the modules of this folder that can be run as scripts."""
    modules = [path for path in sorted(FOLDER.glob("*.py")) if path.name != "__main__.py"]
    return [path.stem for path in modules if "\nif __name__ ==" in path.read_text(encoding="utf-8")]


def run_script(script: str) -> str | None:
    """Run a script in its own process and return what it printed; None if it failed."""
    print(f"benchmarks.{script} …", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", f"benchmarks.{script}", "--json", str(RESULTS / f"{script}.json")]
    done = subprocess.run(command, cwd=FOLDER.parent, stdout=subprocess.PIPE, text=True, encoding="utf-8", check=False)
    print(done.stdout, flush=True)
    return done.stdout.strip() if done.returncode == 0 else None


if __name__ == "__main__":
    sys.exit(main())
