"""Kill parts of a running canonry at random for ten minutes, then check that nothing was lost.

PYTHONPATH=.:tests python -m chaos [--seconds 600] [--seed N] [--report FILE] [--keep]

As root it runs in its own Linux namespaces: with its own loopback, without any other network, and with the names of
shorteners resolving to its own web.
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
from chaos.run import ChaosRun, RunOptions
from chaos.traps import ADDRESS as TRAP_ADDRESS
from chaos.web import ADDRESS, BLOG, DECOY, SHORTENERS

_REPORT = Path(__file__).parents[2] / "benchmarks" / "results" / "chaos.md"
_UNSHARE = ["unshare", "--mount", "--net"]
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1  # ioctl numbers of Linux, see netdevice(7)


def main() -> int:
    """Run, write the report; return 0 if all checks pass, 1 if not, 2 if a program is missing."""
    parser = argparse.ArgumentParser(prog="chaos", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600, help="how long parts fail (default: %(default)s)")
    parser.add_argument(
        "--seed",
        type=int,
        default=None,
        help="determines what fails, in which order, and what is saved (default: random)",
    )
    parser.add_argument("--report", type=Path, default=_REPORT, help="file for the report (default: %(default)s)")
    parser.add_argument("--keep", action="store_true", help="keep the folder with the logs even if all checks pass")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.inside and _can_isolate():
        os.execvp(_UNSHARE[0], [*_UNSHARE, sys.executable, "-m", "chaos", "--inside", *sys.argv[1:]])
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    print(f"Chaos for {options.seconds:g} s, --seed {seed}", file=sys.stderr)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    folder = Path(tempfile.mkdtemp(prefix="chaos-", dir="/tmp"))  # the paths of sockets must be short
    outcome = None
    try:
        if options.inside:
            _isolate(folder)
        with ExitStack() as stack:
            outcome = ChaosRun(RunOptions(options.seconds, seed, options.inside), folder, stack).run()
    except pytest.skip.Exception as missing:
        print(missing, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Interrupted", file=sys.stderr)
        return 130
    except Exception:
        traceback.print_exc()
        return 1
    finally:
        if options.keep or outcome is None or not outcome.is_clean:
            print(f"Logs: {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    options.report.parent.mkdir(parents=True, exist_ok=True)
    options.report.write_text(report.format_report(outcome), encoding="utf-8")
    print(report.format_summary(outcome))
    print(f"Report: {options.report}", file=sys.stderr)
    return 0 if outcome.is_clean else 1


def _interrupt(*_: object) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # all processes are being stopped, which takes a few seconds
    raise KeyboardInterrupt


def _can_isolate() -> bool:
    """Return whether this process may make namespaces."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    return subprocess.run([*_UNSHARE, "true"], capture_output=True, check=False).returncode == 0


def _isolate(folder: Path) -> None:
    """Bring up the loopback of this namespace, and replace its /etc/hosts."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        _, flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request))
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))
    hosts = folder / "hosts"
    names = [f"{ADDRESS} {name}" for name in (BLOG, *SHORTENERS)] + [f"{TRAP_ADDRESS} {DECOY}"]
    hosts.write_text("\n".join([Path("/etc/hosts").read_text(), *names, ""]))
    subprocess.run(["mount", "--bind", str(hosts), "/etc/hosts"], check=True)


if __name__ == "__main__":
    sys.exit(main())
