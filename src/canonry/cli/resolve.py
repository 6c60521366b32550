"""canonry resolve: find the URL that stands for a page, and show every candidate with its evidence."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from canonry.cli import render
from canonry.cli.canonicalize import ProgressLine, print_masked_json
from canonry.cli.options import json_option, load_chosen_policy, policy_option
from canonry.errors import FetchFailed, InvalidUrl, UnsafeUrl, mask_credentials

if TYPE_CHECKING:
    from canonry.evidence.resolved import PageCandidate, Resolved


@click.command()
@click.argument("url")
@policy_option
@click.option(
    "--max-requests",
    metavar="N",
    type=click.IntRange(min=0),
    default=3,
    show_default=True,
    help="Limit of requests after the first.",
)
@json_option
def resolve(url: str, *, policy_name: str, max_requests: int, as_json: bool) -> None:
    """Find the URL that stands for a page.

    Fetches the page, then tests the canonical URL that it declares and cleaner forms of its URL. The
    printed URL was fetched and shows the same page; every candidate is listed below it with what was
    found. Exit code 1 if the page cannot be fetched.

    \b
    canonry resolve 'http://www.example.com/article/?utm_source=mail'
    canonry resolve --json example.com/index.html
    """
    from canonry.evidence.resolve import resolve as search

    policy = load_chosen_policy(policy_name, None)
    progress = ProgressLine()
    try:
        found = asyncio.run(search(url, policy, max_requests=max_requests, on_event=progress.show))
    except (FetchFailed, InvalidUrl, UnsafeUrl) as error:
        progress.clear()
        tried: tuple[PageCandidate, ...] = getattr(error, "tried", ())
        if render.is_for_terminal(as_json=as_json):
            _print_candidates(tried)
        else:
            record = {"input_url": url, "url": None, "error": str(error), "candidates": tried}
            print_masked_json(record, canonical_url=None)
        raise
    progress.clear()
    if render.is_for_terminal(as_json=as_json):
        _print_result(found)
    else:
        print_masked_json(found, canonical_url=found.url)


def _print_result(found: Resolved) -> None:
    click.echo(render.make_bold(found.url))
    title = render.escape_control(found.title) or "untitled"
    words, requests = render.count(found.fingerprint.words, "word"), render.count(found.requests + 1, "request")
    click.echo(f"{found.reason}, {title}, {words}, {requests}")
    _print_candidates(found.candidates)
    for alias in found.aliases:
        click.echo(f"Alias: {mask_credentials(alias)}")


def _print_candidates(candidates: tuple[PageCandidate, ...]) -> None:
    if candidates:
        render.print_table(
            ("verdict", "source", "evidence", "url", "reason"),
            [
                (each.verdict, each.source, each.evidence or "", mask_credentials(each.url), each.reason)
                for each in candidates
            ],
        )
