"""Where the `canonry` command begins.

`canonry normalize URL…` is answered here, without click, in about twice the time of a bare
interpreter; everything else goes to the click commands in app.py.
"""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        urls = _plain_urls(sys.argv[1:])
        if urls:
            from canonry.cli.lines import Options, answer

            sys.exit(answer(urls, Options()))
        gc.set_threshold(20_000)  # what is imported stays: to look for garbage in it takes a seventh of a start
        from canonry.cli.app import run

        run()
    except OSError as error:
        if "--debug" in sys.argv:
            raise
        _drop_what_cannot_be_written()
        if not isinstance(error, BrokenPipeError):  # the reader (head, less) has what it wanted
            sys.stderr.write(f"canonry: {error}\n")
        sys.exit(1)


def _drop_what_cannot_be_written() -> None:
    """So that it is not tried again at exit."""
    if sys.__stdout__ is None:
        return
    try:
        sys.__stdout__.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno())


def _plain_urls(arguments: list[str]) -> list[str]:
    """The URLs of `canonry normalize URL…` when nothing but URLs follows."""
    if arguments[:1] != ["normalize"] or any(argument.startswith("-") for argument in arguments):
        return []
    return arguments[1:]
