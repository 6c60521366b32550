"""Check for programs that tests need and no Python package installs: Chrome, curl, Java.

    python tools/parts.py

With CANONRY_REQUIRE_ALL set and as root on Debian, missing ones are installed. Otherwise the command that installs
them is printed, and the tests that need them are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess

# Names of the program, and the Debian package that contains it.
PARTS = {
    ("chromium-headless-shell", "chromium", "google-chrome"): "chromium",
    ("curl",): "curl",
    ("java",): "default-jre-headless",
}


def main() -> None:
    """Install missing programs, or print how to."""
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
        print(f"Missing: {', '.join(missing)}. Tests that need them are skipped.")
        print(f"To install them on Debian: apt-get install {' '.join(missing)}")


if __name__ == "__main__":
    main()
