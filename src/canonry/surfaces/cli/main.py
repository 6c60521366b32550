"""Where the `canonry` command begins.

`canonry normalize URL…` is answered here, without click, in about twice the time of a bare
interpreter; everything else goes to the click commands in app.py.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        urls = _plain_urls(sys.argv[1:])
        if urls:
            from canonry.surfaces.cli.lines import Options, answer

            sys.exit(answer(urls, Options()))
        from canonry.surfaces.cli.app import run

        run()
    except BrokenPipeError:
        # The reader (head, less) has what it wanted; nothing may be flushed to it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _plain_urls(arguments: list[str]) -> list[str]:
    """The URLs of `canonry normalize URL…` when nothing but URLs follows."""
    if arguments[:1] != ["normalize"] or any(argument.startswith("-") for argument in arguments):
        return []
    return arguments[1:]
