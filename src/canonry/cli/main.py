"""The entry point of the `canonry` command.

`canonry normalize URL…` runs without click, in about twice the time of a bare interpreter; all other
commands go to click in group.py.
"""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        urls = _find_plain_urls(sys.argv[1:])
        if urls:
            from canonry.cli.lines import LineOptions, print_normalized

            sys.exit(print_normalized(urls, LineOptions()))
        gc.set_threshold(20_000)  # searching imported modules for garbage takes a seventh of the start-up time
        from canonry.cli.group import run

        run()
    except OSError as error:
        if "--debug" in sys.argv:
            raise
        _discard_output()
        if not isinstance(error, BrokenPipeError):  # the reader (head, less) has closed the pipe
            place = error.filename
            message = error if place is None else f"{os.fsdecode(place)}: {error.strerror}"
            sys.stderr.write(f"canonry: {message}\n")
        sys.exit(1)


def _discard_output() -> None:
    """Discard buffered output, so that Python does not try to write it again at exit."""
    if sys.__stdout__ is None:
        return
    try:
        sys.__stdout__.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno())


def _find_plain_urls(arguments: list[str]) -> list[str]:
    """Return the URLs of `canonry normalize URL…`; an empty list where options or other commands are given."""
    if arguments[:1] != ["normalize"] or any(argument.startswith("-") for argument in arguments):
        return []
    return arguments[1:]
