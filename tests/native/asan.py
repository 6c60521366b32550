"""Test the C code inside Python under AddressSanitizer and UBSan: `make asan`.

Compiles the extensions with gcc's sanitizers into a copy of the package, then runs the tests of the
native core, of Arrow columns and of the learner's columns on that copy. Python itself leaks at exit, so `make leaks` looks
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
EXTENSIONS = {"_fast": "core/native", "_features": "learner/native"}
TESTS = [
    "tests/core/test_native.py",
    "tests/core/test_native_overrides.py",
    "tests/bulk/test_arrow.py",
    "tests/learner/test_url_features.py",
]


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
    for name, place in EXTENSIONS.items():
        folder = COPY / "src" / "canonry" / place
        extension = folder / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
        sources = [str(source) for source in sorted(folder.glob("*.c"))]
        options = [*FLAGS.split(), "-shared", "-fPIC", "-I", sysconfig.get_paths()["include"]]
        subprocess.run([gcc, *options, *sources, "-o", str(extension)], check=True)
    running = {
        **os.environ,
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": str(COPY / "src"),
    }
    code = (
        "import canonry.core.native._fast as f, canonry.learner.native._features as g, sys;"
        "sys.exit(not all('build/asan' in each.__file__ for each in (f, g)))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=running, check=True)
    tests = [sys.executable, "-m", "pytest", "-q", "-s", "-m", "not slow", "-p", "no:cacheprovider", *TESTS]
    return subprocess.run(tests, cwd=ROOT, env=running, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
