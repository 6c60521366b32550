"""Kill parts of a running canonry at random, for ten minutes, and see whether it kept its promises.

PYTHONPATH=.:tests python -m chaos [--seconds 600] [--seed N] [--report FILE] [--keep]

As root it runs in namespaces of its own: a loopback that nobody shares, no other network, and names of
shorteners that lead to its own web.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import traceback
from contextlib import ExitStack
from pathlib import Path

import pytest

from chaos import report
from chaos.run import Options, Run
from chaos.traps import ADDRESS as TRAP
from chaos.web import ADDRESS, BLOG, DECOY, SHORTENERS

_REPORT = Path(__file__).parents[2] / "benchmarks" / "results" / "chaos.md"
_UNSHARE = ["unshare", "--mount", "--net"]
_GET_FLAGS, _SET_FLAGS, _IS_UP = 0x8913, 0x8914, 1  # of an interface


def main() -> int:
    parser = argparse.ArgumentParser(prog="chaos", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600, help="how long things fail (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=None, help="what fails when, and the load (default: a new one)")
    parser.add_argument("--report", type=Path, default=_REPORT, help="the file of the report (default: %(default)s)")
    parser.add_argument("--keep", action="store_true", help="keep the folder with the logs")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if not given.inside and _can_be_apart():
        os.execvp(_UNSHARE[0], [*_UNSHARE, sys.executable, "-m", "chaos", "--inside", *sys.argv[1:]])
    seed = random.SystemRandom().randrange(10**6) if given.seed is None else given.seed
    print(f"chaos for {given.seconds:g} s, --seed {seed}", file=sys.stderr)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    folder = Path(tempfile.mkdtemp(prefix="chaos-", dir="/tmp"))  # Chrome's socket wants a short name
    outcome = None
    try:
        if given.inside:
            _make_apart(folder)
        with ExitStack() as stack:
            outcome = Run(Options(given.seconds, seed, given.inside), folder, stack).go()
    except pytest.skip.Exception as missing:
        print(missing, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except Exception:
        traceback.print_exc()
        return 1
    finally:
        if given.keep or outcome is None or not outcome.is_clean:
            print(f"logs: {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    given.report.parent.mkdir(parents=True, exist_ok=True)
    given.report.write_text(report.full(outcome), encoding="utf-8")
    print(report.short(outcome))
    print(f"report: {given.report}", file=sys.stderr)
    return 0 if outcome.is_clean else 1


def _interrupt(*_: object) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # everything is ended now, in a few seconds
    raise KeyboardInterrupt


def _can_be_apart() -> bool:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    return subprocess.run([*_UNSHARE, "true"], capture_output=True, check=False).returncode == 0


def _make_apart(folder: Path) -> None:
    """Loopback up; a file of names that is ours alone."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        _, flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, _GET_FLAGS, request))
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh14x", b"lo", flags | _IS_UP))
    hosts = folder / "hosts"
    names = [f"{ADDRESS} {name}" for name in (BLOG, *SHORTENERS)] + [f"{TRAP} {DECOY}"]
    hosts.write_text("\n".join([Path("/etc/hosts").read_text(), *names, ""]))
    subprocess.run(["mount", "--bind", str(hosts), "/etc/hosts"], check=True)


if __name__ == "__main__":
    sys.exit(main())
