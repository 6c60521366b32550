"""Check the canonry that is installed beside this Python.

    python tools/check_install.py native
    python tools/check_install.py pure

It must have that core, normalize a URL, and show its demo. The wheels of a release are tested with it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DIRTY = "HTTPS://www.Example.com/a//b/?utm_source=x&b=2&a=1#top"
CLEAN = "https://example.com/a/b?a=1&b=2"
IN_DEMO = "https://www.youtube.com/watch?v=dQw4w9WgXcQ"
CORES = {"native": "(native core)", "pure": "(pure Python core)"}


def main(core: str) -> None:
    """Exit with a message if something is wrong."""
    version = run("--version")
    if not version.endswith(CORES[core]):
        sys.exit(f"wanted {CORES[core]}: {version}")
    if (found := run("normalize", "--policy", "feed-aggressive", DIRTY)) != CLEAN:
        sys.exit(f"wanted {CLEAN}: {found}")
    if IN_DEMO not in (shown := run("demo")):
        sys.exit(f"wanted {IN_DEMO}: {shown}")
    print(f"{version} works with Python {sys.version.split()[0]}")


def run(*arguments: str) -> str:
    """Run `canonry` and return what it prints."""
    command = [str(Path(sys.executable).with_name("canonry")), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=Path(sys.prefix))
    return done.stdout.strip()


if __name__ == "__main__":
    main(*sys.argv[1:])
