"""canonry mcp: canonry as tools for a program that speaks MCP."""

from __future__ import annotations

import signal
import sys

import click


@click.command()
def mcp() -> None:
    """Answer a program that speaks MCP, on standard input and output.

    Its tools are normalize, explain and canonicalize; all only read. The program starts it by itself:
    give it this command.

    \b
    canonry mcp
    """
    from canonry.integrations.mcp import server

    # Ctrl-C at once: a thread that waits for input would hold it back, and there is nothing to tidy.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if sys.stdin.isatty():
        click.echo("canonry: waiting for an MCP client on standard input; Ctrl-C ends it", err=True)
    server().run()
