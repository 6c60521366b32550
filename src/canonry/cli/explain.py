"""`canonry explain`: what each rule did to a URL, and why."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING

import click

from canonry.cli import render
from canonry.cli.lines import read_lines
from canonry.cli.options import json_option, load_chosen_policy, overrides_option, policy_option
from canonry.core.explain import Explanation, explain_text
from canonry.errors import InvalidUrl

if TYPE_CHECKING:
    from canonry.core.policy import Policy


@click.command()
@click.argument("urls", nargs=-1, metavar="[URL]...")
@policy_option
@overrides_option
@json_option
def explain(urls: tuple[str, ...], *, policy_name: str, overrides: str | None, as_json: bool) -> None:
    """Show what each rule did to a URL, and why.

    On a terminal, removed and added parts are marked; in a pipe, the output is one JSON object for each
    URL. Without URLs it reads standard input, one URL on a line.

    \b
    canonry explain 'https://youtu.be/dQw4w9WgXcQ?si=abc&utm_source=mail'
    canonry explain --policy crawl --json 'https://example.com/%7Ejoe/#top'
    """
    if not urls and sys.stdin.isatty():
        raise click.UsageError("give a URL, or pipe URLs into standard input, one on a line")
    policy = load_chosen_policy(policy_name, overrides)
    refused = 0
    for number, text in enumerate(urls or read_lines(sys.stdin.buffer), 1):
        try:
            explanation = _explain(text, policy)
        except InvalidUrl as error:
            refused += 1
            click.echo(f"canonry: input {number}: {error}", err=True)
            if not render.is_for_terminal(as_json=as_json):
                render.print_json({"input": error.input, "url": None, "policy": policy.id, "reason": error.reason})
            continue
        if render.is_for_terminal(as_json=as_json):
            _print_explanation(str(text), explanation)
        else:
            render.print_json({"input": text, **dataclasses.asdict(explanation)})
    sys.exit(1 if refused else 0)


def _explain(text: str | InvalidUrl, policy: Policy) -> Explanation:
    if isinstance(text, InvalidUrl):
        raise text
    return explain_text(text, policy)


def _print_explanation(text: str, explanation: Explanation) -> None:
    click.echo(f"  {render.escape_control(text)}")
    for step in explanation.steps:
        for line in render.format_step(step):
            click.echo(line)
    click.echo(f"{explanation.policy}  {render.count(len(explanation.steps), 'rule')} changed the URL")
    click.echo(f"  {render.make_bold(explanation.url)}")
