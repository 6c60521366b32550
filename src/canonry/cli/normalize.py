"""canonry normalize: one URL in, one line out."""

from __future__ import annotations

import sys

import click

from canonry.cli.lines import Options, answer, input_lines
from canonry.cli.options import chosen, json_option, overrides_option, policy_option


@click.command()
@click.argument("urls", nargs=-1, metavar="[URL]...")
@policy_option
@overrides_option
@click.option("--hash", "with_hash", is_flag=True, help="Add the sha256 of each answer: URL, tab, hash.")
@json_option
def normalize(
    urls: tuple[str, ...], *, policy_name: str, overrides: str | None, with_hash: bool, as_json: bool
) -> None:
    """The one spelling of each URL under a policy.

    Without URLs it reads standard input: one line in, one line out, in constant memory. A line that
    is no URL gives an empty line, a message, and exit code 1.

    \b
    canonry normalize 'HTTPS://Example.com:443/?utm_source=mail&id=1'
    canonry normalize --policy feed-aggressive --json < urls.txt > answers.jsonl
    """
    if not urls and sys.stdin.isatty():
        raise click.UsageError("give a URL, or pipe URLs into standard input, one a line")
    texts = urls or input_lines(sys.stdin.buffer)
    sys.exit(answer(texts, Options(chosen(policy_name, overrides), with_hash=with_hash, as_json=as_json)))
