"""`canonry normalize`: one URL in, one line out."""

from __future__ import annotations

import sys

import click

from canonry.cli.lines import LineOptions, print_normalized, read_lines
from canonry.cli.options import json_only_option, load_chosen_policy, overrides_option, policy_option


@click.command()
@click.argument("urls", nargs=-1, metavar="[URL]...")
@policy_option
@overrides_option
@click.option("--hash", "with_hash", is_flag=True, help="Add the SHA-256 of each result: URL, tab, hash.")
@json_only_option
def normalize(
    urls: tuple[str, ...], *, policy_name: str, overrides: str | None, with_hash: bool, as_json: bool
) -> None:
    """Print each URL in the form that a policy gives it.

    Without URLs it reads standard input: one line in, one line out, in constant memory. An invalid URL
    gives an empty line, a message and exit code 1.

    \b
    canonry normalize 'HTTPS://Example.com:443/?utm_source=mail&id=1'
    canonry normalize --policy feed-aggressive --json < urls.txt > normalized.jsonl
    """
    if not urls and sys.stdin.isatty():
        raise click.UsageError("give a URL, or pipe URLs into standard input, one on a line")
    texts = urls or read_lines(sys.stdin.buffer)
    sys.exit(
        print_normalized(
            texts, LineOptions(load_chosen_policy(policy_name, overrides), with_hash=with_hash, as_json=as_json)
        )
    )
