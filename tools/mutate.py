"""Test the tests: break the core in small ways and list the changes that no test notices (make mutate).

Takes a quarter of an hour on two cores.

cosmic-ray makes the mutants; each half of the modules runs in its own copy of the tree. Survivors are
printed with their lines; docs/decisions/0005-mutants.md lists those that are accepted.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parent.parent
WORK = ROOT / "build" / "mutants"
CORE = "src/canonry/core"
# The modules to break, in two halves with about the same number of mutants.
HALVES = (("url", "sites"), ("rules", "normalize", "overrides", "rewrite_cycles", "scope"))
# The tests that find most mutants run first.
TESTS = "-m pytest -x -q -p no:cacheprovider -m 'not slow'"
FIRST = ("normalize", "sites", "rules", "overrides", "url", "law")
SLOW_TESTS = ("pure", "fuzz", "properties", "data")
# `int | None` in an annotation is not run; one way to break each operator is enough.
CONFIG = """
[cosmic-ray]
module-path = {modules}
timeout = 60.0
excluded-modules = []
test-command = "{command}"
[cosmic-ray.distributor]
name = "local"
[cosmic-ray.filters.operators-filter]
exclude-operators = [
  "core/ReplaceBinaryOperator_BitOr_.*",
  "core/ReplaceBinaryOperator_.*_(BitOr|BitAnd|BitXor|LShift|RShift|Pow|Div|FloorDiv|Mod|Mul)",
  "core/ReplaceComparisonOperator_(Eq|NotEq)_(Lt|LtE|Gt|GtE|Is|IsNot)",
  "core/ReplaceComparisonOperator_(Lt|LtE|Gt|GtE)_(Is|IsNot|Eq|NotEq)",
]
"""


def find_survivors(half: int) -> list[str]:
    """Run one half; return a line for each mutant that no test noticed."""
    copy = WORK / str(half)
    for folder in ("src", "tests", "tools", "benchmarks"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    chosen = [f"tests/core/test_{name}.py" for name in FIRST] + ["tests/core"]
    ignored = [f"--ignore=tests/core/test_{name}.py" for name in SLOW_TESTS]
    modules = [f"{CORE}/{name}.py" for name in HALVES[half]]
    config = CONFIG.format(modules=json.dumps(modules), command=" ".join([sys.executable, TESTS, *chosen, *ignored]))
    (copy / "config.toml").write_text(config)
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    tools = Path(sys.executable).parent
    for command in (
        "cosmic-ray init config.toml s.sqlite",
        "cr-filter-operators s.sqlite config.toml",
        "cosmic-ray exec config.toml s.sqlite",
    ):
        subprocess.run([tools / command.split()[0], *command.split()[1:]], cwd=copy, env=environment, check=True)
    dump = subprocess.run(
        [tools / "cosmic-ray", "dump", "s.sqlite"], cwd=copy, capture_output=True, text=True, check=True
    )
    rows = [json.loads(line) for line in dump.stdout.splitlines()]
    return [
        _describe(row[0]["mutations"][0], row[1]) for row in rows if row[1] and row[1]["test_outcome"] == "survived"
    ]


def _describe(mutation: dict[str, object], result: dict[str, str]) -> str:
    added = [line for line in result["diff"].splitlines() if line.startswith("+") and not line.startswith("+++")]
    return f"{mutation['module_path']}:{mutation['start_pos']} {mutation['operator_name']} {' '.join(added)}"


def main() -> None:
    shutil.rmtree(WORK, ignore_errors=True)
    with ThreadPoolExecutor(2) as pool:
        found = [line for lines in pool.map(find_survivors, range(2)) for line in lines]
    print("\n".join(found))
    print(f"{len(found)} survived")


if __name__ == "__main__":
    main()
