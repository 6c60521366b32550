"""The parts tests use that no Python package brings: named where they are missing, installed where all are required.

    python tools/parts.py

With CANONRY_REQUIRE_ALL set and as root on Debian it installs them; otherwise it says what adds them, and
the tests that need them are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess

# What is looked for, and the Debian package that has it.
PARTS = {
    ("chromium-headless-shell", "chromium", "google-chrome"): "chromium",
    ("curl",): "curl",
    ("java",): "default-jre-headless",
}


def main() -> None:
    """Install what is missing, or say so."""
    missing = [package for commands, package in PARTS.items() if not any(map(shutil.which, commands))]
    if not missing:
        return
    if os.environ.get("CANONRY_REQUIRE_ALL") and os.geteuid() == 0 and shutil.which("apt-get"):
        environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "update", "-qq"], env=environ, check=True)
        subprocess.run(
            ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing], env=environ, check=True
        )
    else:
        print(f"missing: {', '.join(missing)}; their tests are skipped. On Debian: apt-get install {' '.join(missing)}")


if __name__ == "__main__":
    main()
