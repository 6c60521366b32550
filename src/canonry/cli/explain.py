"""canonry explain: what each rule did to a URL, and why."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING

import click

from canonry.cli import render
from canonry.cli.lines import input_lines
from canonry.cli.options import chosen, json_option, overrides_option, policy_option
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
    """What each rule did to a URL, and why.

    On a terminal it marks what went and what came; piped, it writes one JSON object a URL. Without
    URLs it reads standard input, one a line.

    \b
    canonry explain 'https://youtu.be/dQw4w9WgXcQ?si=abc&utm_source=mail'
    canonry explain --policy crawl --json 'https://example.com/%7Ejoe/#top'
    """
    if not urls and sys.stdin.isatty():
        raise click.UsageError("give a URL, or pipe URLs into standard input, one a line")
    policy = chosen(policy_name, overrides)
    refused = 0
    for number, text in enumerate(urls or input_lines(sys.stdin.buffer), 1):
        try:
            explanation = _explained(text, policy)
        except InvalidUrl as error:
            refused += 1
            click.echo(f"canonry: input {number}: {error}", err=True)
            if not render.on_terminal(as_json=as_json):
                render.print_json({"input": error.input, "url": None, "policy": policy.id, "reason": error.reason})
            continue
        if render.on_terminal(as_json=as_json):
            _print(str(text), explanation)
        else:
            render.print_json({"input": text, **dataclasses.asdict(explanation)})
    sys.exit(1 if refused else 0)


def _explained(text: str | InvalidUrl, policy: Policy) -> Explanation:
    if isinstance(text, InvalidUrl):
        raise text
    return explain_text(text, policy)


def _print(text: str, explanation: Explanation) -> None:
    click.echo(f"  {render.visible(text)}")
    for step in explanation.steps:
        for line in render.step_lines(step):
            click.echo(line)
    count = len(explanation.steps)
    click.echo(f"{explanation.policy}  {count} {'rule' if count == 1 else 'rules'} fired")
    click.echo(f"  {render.bold(explanation.url)}")
