"""Measure the time of `canonry normalize URL` from start to end, compared with a bare interpreter.

    python -m benchmarks.startup [--json FILE]

User and system time of the child process, best of thirty; the commands take turns, so that noise
affects all of them. Bytecode is compiled first; otherwise every start would compile the modules.
"""

from __future__ import annotations

import argparse
import compileall
import os
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import canonry
from benchmarks.machine import describe_machine, find_versions, format_table, write_json

if TYPE_CHECKING:
    from collections.abc import Mapping

Command = list[str]

RUNS = 30
BAR = 2.5  # the highest allowed ratio to bare Python, for a plain URL
BARE = "python -c pass"
PLAIN = "canonry normalize, plain URL"
PLAIN_URL = "https://www.example.com/a/b/?utm_source=feed&id=2"
PARSER_URL = "https://www.Example.com:443/a/../b?id=2"  # needs ada-url, which takes time to import


@dataclass(frozen=True, slots=True)
class Times:
    """The best CPU and wall time of one command, in milliseconds, and how they compare with bare Python."""

    name: str
    cpu_ms: float
    wall_ms: float
    cpu_ratio: float
    wall_ratio: float


def main(arguments: list[str]) -> None:
    """Measure, print the table, and write the JSON file if one is given."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.startup", description=__doc__)
    parser.add_argument("--json", metavar="FILE", help="also write the result to this file")
    options = parser.parse_args(arguments)

    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    commands = list_commands()
    compile_canonry()
    for command in commands.values():
        warm(command, environment)
    times = measure(commands, environment)

    print(format_text(times))
    if options.json:
        result = {
            "machine": describe_machine(),
            "versions": {"canonry": canonry.__version__, **find_versions(("ada-url", "click"))},
            "canonry_is": describe_canonry(),
            "runs": RUNS,
            "bar": BAR,
            "times": [asdict(row) for row in times],
        }
        write_json(options.json, result)


def list_commands() -> dict[str, Command]:
    """Return the commands to measure by name; the bare interpreter first."""
    script = find_console_script()
    normalize = [script, "normalize"] if script else [sys.executable, "-m", "canonry", "normalize"]
    return {
        BARE: [sys.executable, "-c", "pass"],
        "python -c 'import canonry'": [sys.executable, "-c", "import canonry"],
        PLAIN: [*normalize, PLAIN_URL],
        "canonry normalize, URL that needs ada-url": [*normalize, PARSER_URL],
    }


def find_console_script() -> str | None:
    """Return the path of the `canonry` script that is installed with this interpreter, or None."""
    return shutil.which("canonry", path=str(Path(sys.executable).parent))


def describe_canonry() -> str:
    """Describe which `canonry` is measured."""
    return "the console script" if find_console_script() else "python -m canonry"


def compile_canonry() -> None:
    """Compile the bytecode of the canonry that this interpreter imports."""
    spec = find_spec("canonry")
    folders = spec.submodule_search_locations if spec else None
    for folder in folders or ():
        compileall.compile_dir(folder, quiet=1)


def warm(command: Command, environment: Mapping[str, str]) -> None:
    """Run a command once to warm the caches; exit with its error output if it fails."""
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        output = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()[-1]
        raise SystemExit(f"Cannot measure: `{shlex.join(command)}` failed with exit code {done.returncode}: {output}")


def measure(commands: Mapping[str, Command], environment: Mapping[str, str]) -> list[Times]:
    """Return the best times of each command; the commands take turns."""
    cpu = dict.fromkeys(commands, float("inf"))
    wall = dict.fromkeys(commands, float("inf"))
    for _ in range(RUNS):
        for name, command in commands.items():
            cpu_seconds, wall_seconds = run_once(command, environment)
            cpu[name] = min(cpu[name], cpu_seconds)
            wall[name] = min(wall[name], wall_seconds)
    return [
        Times(name, cpu[name] * 1000, wall[name] * 1000, cpu[name] / cpu[BARE], wall[name] / wall[BARE])
        for name in commands
    ]


def run_once(command: Command, environment: Mapping[str, str]) -> tuple[float, float]:
    """Return the CPU and wall seconds of one run; its output is discarded."""
    quiet = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
    ]
    start = time.perf_counter()
    child = os.posix_spawn(command[0], command, environment, file_actions=quiet)
    _, status, usage = os.wait4(child, 0)
    wall = time.perf_counter() - start
    if status != 0:
        raise SystemExit(f"Cannot measure: `{shlex.join(command)}` failed after it had worked once")
    return usage.ru_utime + usage.ru_stime, wall


def format_text(times: list[Times]) -> str:
    """Format the result as Markdown."""
    rows = [
        (row.name, f"{row.cpu_ms:.1f}", f"{row.cpu_ratio:.2f}", f"{row.wall_ms:.1f}", f"{row.wall_ratio:.2f}")
        for row in times
    ]
    plain = next(row for row in times if row.name == PLAIN)
    verdict = "holds" if plain.cpu_ratio <= BAR else "does not hold"
    return "\n\n".join(
        [
            f"Start to end, best of {RUNS}; `canonry` is {describe_canonry()}",
            format_table(("command", "CPU ms", "x bare", "wall ms", "x bare"), rows),
            f"Claim: at most {BAR} times bare Python (CPU, plain URL): {plain.cpu_ratio:.2f}, {verdict}",
        ]
    )


if __name__ == "__main__":
    main(sys.argv[1:])
