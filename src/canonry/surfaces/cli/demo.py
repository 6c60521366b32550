"""canonry demo: what canonry does, shown on a small scale and offline."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from canonry.core.explain import Explanation, explain
from canonry.core.presets import policies
from canonry.surfaces.cli import render
from canonry.surfaces.cli.options import json_option

if TYPE_CHECKING:
    from canonry.work.canonical import Canonical
    from canonry.work.ingest_report import Report

MESSY_URLS = (
    "HTTPS://WWW.Example.com:443//blog/./feed/?utm_source=mail&b=2&a=1#latest",
    "https://m.youtube.com/shorts/dQw4w9WgXcQ?si=xyz&utm_medium=social",
    "https://mobile.twitter.com/jack/Status/20/photo/1?s=20",
    "http://blog.blogspot.co.uk/rss.xml?max-results=5",
    "https://münchen.example/%7ejoe/?ref=home&q=caf%E9+x",
)


FEED_URL = "http://old.blog.example/rss.xml"


@click.command()
@json_option
def demo(*, as_json: bool) -> None:
    """Messy URLs under every policy, and a feed on a small web of our own.

    \b
    canonry demo
    """
    if not as_json:  # a show for people, also where it is piped into a pager
        click.echo(render.bold("Five messy URLs under every policy, and the rules that fired"))
    for url in MESSY_URLS:
        explanations = [explain(url, policy) for policy in policies()]
        if not as_json:
            _print(url, explanations)
        else:
            for explanation in explanations:
                fired = [step.rule for step in explanation.steps]
                render.print_json({"input": url, "policy": explanation.policy, "url": explanation.url, "rules": fired})
    if not as_json:
        click.echo(f"\nWhy? Ask for any of them:\n  canonry explain '{MESSY_URLS[1]}'\n")
        click.echo(render.bold(f"Which URL stands for the feed at {FEED_URL}? (a small web on loopback)\n"))
    found, runs = asyncio.run(_shown())
    if as_json:
        render.print_json(found)
        for report in runs:
            render.print_json(report.counts)
        return
    render.print_table(
        ("verdict", "score", "url", "reason"),
        [(each.verdict, f"{each.score:.0f}", each.url, each.reason) for each in found.candidates],
    )
    click.echo(f"\n{render.bold(found.url)}  {found.reason}, {found.total_requests} requests\n")
    click.echo(render.bold("Ingested twice, each item kept once:\n"))
    names = list(runs[0].counts)
    render.print_table(("run", *names), [(str(n), *map(str, run.counts.values())) for n, run in enumerate(runs, 1)])
    click.echo("\nTry it with a feed of yours:\n  canonry canonicalize URL\n  canonry ingest URL")


async def _shown() -> tuple[Canonical, list[Report]]:
    """A feed's canonical URL on the demo's web, and two runs over it with a store in memory."""
    from canonry.store.database import Database
    from canonry.surfaces.demo.web import demo_web
    from canonry.work.canonicalize import canonicalize
    from canonry.work.ingest import ingest

    with demo_web() as client, Database("sqlite://") as store:
        async with client:
            found = await canonicalize(FEED_URL, fetch=client.fetch, guard=client.guard)
            return found, [await ingest([found.url], store, fetch=client.fetch) for _ in range(2)]


def _print(url: str, explanations: list[Explanation]) -> None:
    click.echo(f"\n{render.bold(url)}")
    rows = [(item.policy, item.url, ", ".join(step.rule for step in item.steps) or "–") for item in explanations]
    render.print_table(("policy", "becomes", "rules"), rows)
