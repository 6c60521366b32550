"""Test the native core inside Python under AddressSanitizer and UBSan: `make asan`.

Compiles the extension with gcc's sanitizers into a copy of the package, then runs the tests of the
native core and of Arrow columns on that copy. Python itself leaks at exit, so `make leaks` looks
for leaks instead.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[2]
COPY = ROOT / "build" / "asan"
FLAGS = "-std=c11 -g -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer"
TESTS = ["tests/core/test_native.py", "tests/bulk"]


def main() -> int:
    """Build the copy, run the tests on it; return the exit code of pytest."""
    gcc = shutil.which("gcc")
    if gcc is None:
        print("make asan needs gcc", file=sys.stderr)
        return 2
    shutil.rmtree(COPY, ignore_errors=True)
    shutil.copytree(ROOT / "src", COPY / "src", ignore=shutil.ignore_patterns("*.so", "*.egg-info"))
    libraries = [
        subprocess.run([gcc, f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    folder = COPY / "src" / "canonry" / "core" / "native"
    extension = folder / f"_fast{sysconfig.get_config_var('EXT_SUFFIX')}"
    sources = [str(source) for source in sorted(folder.glob("*.c"))]
    include = sysconfig.get_paths()["include"]
    subprocess.run([gcc, *FLAGS.split(), "-shared", "-fPIC", "-I", include, *sources, "-o", str(extension)], check=True)
    running = {
        **os.environ,
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": str(COPY / "src"),
    }
    code = "import canonry.core.native._fast as f, sys; sys.exit('build/asan' not in f.__file__)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=running, check=True)
    tests = [sys.executable, "-m", "pytest", "-q", "-s", "-m", "not slow", "-p", "no:cacheprovider", *TESTS]
    return subprocess.run(tests, cwd=ROOT, env=running, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
