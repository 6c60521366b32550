"""`canonry mcp`: an MCP server on standard input and output."""

from __future__ import annotations

import signal
import sys

import click

from canonry.cli.options import overrides_setting_option


@click.command()
@overrides_setting_option
def mcp() -> None:
    """Run an MCP server on standard input and output.

    It has the tools normalize, explain, canonicalize and resolve; none of them writes. The MCP client starts the
    server itself: configure this command there.

    \b
    canonry mcp
    """
    from canonry.integrations.mcp import server

    # End at once on Ctrl-C: a thread that waits for input would delay it, and there is nothing to clean up.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if sys.stdin.isatty():
        click.echo("canonry: waiting for an MCP client on standard input. Press Ctrl-C to end.", err=True)
    server().run()
