"""canonry canonicalize: the URL that stands for a feed, with every attempt."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sys
from typing import TYPE_CHECKING, Any

import click

from canonry.cli import render
from canonry.cli.options import json_option
from canonry.errors import FetchFailed, InvalidUrl, NotAFeed, UnsafeUrl, mask_credentials

if TYPE_CHECKING:
    from canonry.feeds.canonicalize.result import Candidate, Canonical, Event

_URL_IN_JSON = re.compile(r'"(?:https?|feed):(?:[^"\\]|\\.)*"', re.IGNORECASE)


@click.command()
@click.argument("url")
@click.option("--discover", is_flag=True, help="Given a web page, take the first feed it names.")
@click.option(
    "--max-requests",
    metavar="N",
    type=click.IntRange(min=0),
    default=3,
    show_default=True,
    help="Requests after the first fetch.",
)
@json_option
def canonicalize(url: str, *, discover: bool, max_requests: int, as_json: bool) -> None:
    """The URL that stands for a feed, with every attempt.

    Fetches the feed, then tests its self link and cleaner forms of the URL; what is printed was
    fetched and served the same feed. Exit 1 where there is no feed.

    \b
    canonry canonicalize 'http://www.example.com/feed/?utm_source=mail'
    canonry canonicalize --discover https://example.com/
    """
    from canonry.feeds.canonicalize import canonicalize as search

    progress = _Progress()
    try:
        found = asyncio.run(search(url, discover=discover, max_requests=max_requests, on_event=progress.show))
    except (FetchFailed, InvalidUrl, NotAFeed, UnsafeUrl) as error:
        progress.clear()
        tried: tuple[Candidate, ...] = getattr(error, "tried", ())
        if render.on_terminal(as_json=as_json):
            _print_candidates(tried)
        else:
            _print_record({"input_url": url, "url": None, "error": str(error), "candidates": tried}, answer=None)
        raise
    progress.clear()
    if render.on_terminal(as_json=as_json):
        _print(found)
    else:
        _print_record(found, answer=found.url)


class _Progress:
    """One line on standard error that says what is going on, gone when it is over."""

    def __init__(self) -> None:
        self._is_shown = False

    def show(self, event: Event) -> None:
        if sys.stderr.isatty():
            self._is_shown = True
            line = f"{event.kind} {mask_credentials(event.url)}"[: shutil.get_terminal_size().columns - 1]
            click.echo(f"\r\033[K{line}", nl=False, err=True)

    def clear(self) -> None:
        if self._is_shown:
            click.echo("\r\033[K", nl=False, err=True)


def _print_record(record: object, *, answer: str | None) -> None:
    """A line of JSON in which no URL but the answer has a password."""
    line = _URL_IN_JSON.sub(lambda found: mask_credentials(found[0]), render.json_line(record))
    told: dict[str, Any] = json.loads(line)
    render.print_json({**told, "url": answer})


def _print(found: Canonical) -> None:
    click.echo(render.bold(found.url))
    told = [str(found.reason), f"from {found.source}"]
    if found.feed is not None:
        count = found.feed.item_count
        title = render.visible(found.feed.title) or "untitled"
        told.append(f"{title} ({found.feed.format}, {count} {'item' if count == 1 else 'items'})")
    told.append(f"{found.total_requests} {'request' if found.total_requests == 1 else 'requests'}")
    click.echo(", ".join(told))
    for link in found.discovered[1:]:
        click.echo(f"the page also names {link.url} {render.visible(link.title)}".rstrip())
    _print_candidates(found.candidates)
    for alias in found.aliases:
        click.echo(f"the same feed: {mask_credentials(alias)}")


def _print_candidates(candidates: tuple[Candidate, ...]) -> None:
    if candidates:
        render.print_table(
            ("verdict", "ms", "score", "url", "reason"),
            [
                (each.verdict, str(each.milliseconds), f"{each.score:.0f}", mask_credentials(each.url), each.reason)
                for each in candidates
            ],
        )
