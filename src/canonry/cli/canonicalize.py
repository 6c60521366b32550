"""canonry canonicalize: find the URL that stands for a feed, and show every attempt."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sys
from typing import TYPE_CHECKING, cast

import click

from canonry.cli import render
from canonry.cli.options import json_option
from canonry.errors import FetchFailed, InvalidUrl, NotAFeed, UnsafeUrl, mask_credentials

if TYPE_CHECKING:
    from canonry.feeds.canonicalize.result import Candidate, Canonical
    from canonry.net.search_fetcher import Event

_URL = re.compile(r"(?:https?|feed):", re.IGNORECASE)


@click.command()
@click.argument("url")
@click.option("--discover", is_flag=True, help="If URL is a web page, use the first feed it links to.")
@click.option(
    "--max-requests",
    metavar="N",
    type=click.IntRange(min=0),
    default=3,
    show_default=True,
    help="Limit of requests after the first fetch.",
)
@json_option
def canonicalize(url: str, *, discover: bool, max_requests: int, as_json: bool) -> None:
    """Find the URL that stands for a feed.

    Fetches the feed, then tests its self link and cleaner forms of the URL. The printed URL was
    fetched and served the same feed; every attempt is listed below it. Exit code 1 if URL is not a feed.

    \b
    canonry canonicalize 'http://www.example.com/feed/?utm_source=mail'
    canonry canonicalize --discover https://example.com/
    """
    from canonry.feeds.canonicalize import canonicalize as search

    progress = ProgressLine()
    try:
        found = asyncio.run(search(url, discover=discover, max_requests=max_requests, on_event=progress.show))
    except (FetchFailed, InvalidUrl, NotAFeed, UnsafeUrl) as error:
        progress.clear()
        tried: tuple[Candidate, ...] = getattr(error, "tried", ())
        if render.is_for_terminal(as_json=as_json):
            _print_candidates(tried)
        else:
            print_masked_json(
                {"input_url": url, "url": None, "error": str(error), "candidates": tried}, canonical_url=None
            )
        raise
    progress.clear()
    if render.is_for_terminal(as_json=as_json):
        _print_result(found)
    else:
        print_masked_json(found, canonical_url=found.url)


class ProgressLine:
    """Shows the current request on one line of standard error, if it is a terminal."""

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


def print_masked_json(record: object, *, canonical_url: str | None) -> None:
    """Print a line of JSON in which only the canonical URL keeps its credentials."""
    fields = cast("dict[str, object]", _mask_urls(json.loads(render.format_json(record))))
    render.print_json({**fields, "url": canonical_url})


def _mask_urls(value: object) -> object:
    """Mask the credentials of all URLs in a JSON value."""
    if isinstance(value, str):
        return mask_credentials(value) if _URL.match(value) else value
    if isinstance(value, list):
        return [_mask_urls(each) for each in cast("list[object]", value)]
    if isinstance(value, dict):
        return {key: _mask_urls(each) for key, each in cast("dict[str, object]", value).items()}
    return value


def _print_result(found: Canonical) -> None:
    click.echo(render.make_bold(found.url))
    summary = [str(found.reason), f"from {found.source}"]
    if found.feed is not None:
        title = render.escape_control(found.feed.title) or "untitled"
        summary.append(f"{title} ({found.feed.format}, {render.count(found.feed.item_count, 'item')})")
    summary.append(render.count(found.total_requests, "request"))
    click.echo(", ".join(summary))
    for link in found.discovered[1:]:
        click.echo(f"Also linked from the page: {link.url} {render.escape_control(link.title)}".rstrip())
    _print_candidates(found.candidates)
    for alias in found.aliases:
        click.echo(f"Alias: {mask_credentials(alias)}")


def _print_candidates(candidates: tuple[Candidate, ...]) -> None:
    if candidates:
        render.print_table(
            ("verdict", "ms", "score", "url", "reason"),
            [
                (each.verdict, str(each.milliseconds), f"{each.score:.0f}", mask_credentials(each.url), each.reason)
                for each in candidates
            ],
        )
