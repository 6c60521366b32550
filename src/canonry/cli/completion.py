"""`canonry completion`: the script that lets a shell complete canonry's commands."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for a shell.

    \b
    eval "$(canonry completion bash)"
    """
    kind = get_completion_class(shell)
    assert kind is not None
    context = click.get_current_context().find_root()
    click.echo(kind(context.command, {}, "canonry", "_CANONRY_COMPLETE").source())
