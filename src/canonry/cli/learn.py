"""`canonry learn`: rules about URLs from what was fetched."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

import click

from canonry.cli import render
from canonry.cli.options import (
    complete_policy,
    db_option,
    json_option,
    load_chosen_policy,
    require_files,
    require_folder,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from canonry.learner.check_policy import PolicyCheck
    from canonry.learner.values import Learned

_CRAWL_PREFIX = "crawl:"
_ALL_CRAWLS = "crawls"
_FACTS = "facts"
_DECISIONS = "decisions"
_MAX_ID_DIGITS = 18
_SHOWN_DIFFERENCES = 10
_SHOWN_FAILURES = 3


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option(
    "--min-confidence",
    metavar="SHARE",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.8,
    show_default=True,
    help="The lower bound of the confidence of a rule: 16 contents give 0.80, 73 give 0.95.",
)
@click.option(
    "--overrides",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    callback=require_folder,
    help="Write the rules to this overrides file.",
)
@click.option(
    "--check",
    metavar="POLICY",
    shell_complete=complete_policy,
    help="Report where a policy merges pages that differ, and where it keeps equal pages apart.",
)
@click.option(
    "--verify",
    metavar="N",
    type=click.IntRange(0, 100),
    default=0,
    help="Fetch N pairs of each rule before proposing it. URLs of the store reach public addresses only.",
)
@click.option("--propose", is_flag=True, help="Store the rules as proposals for review on the page /learned.")
@click.option(
    "--engine", type=click.Choice(["duckdb", "spark"]), default="duckdb", show_default=True,
    help="duckdb runs on one machine, spark on many. Both find the same rules.",
)  # fmt: skip
@click.option("--master", metavar="URL", help="With --engine spark: the cluster.  [default: local[*]]")
@click.option(
    "--memory",
    metavar="SIZE",
    default="1GB",
    show_default=True,
    help="Memory limit, at least 300MB; more data goes to disk.",
)
@db_option
@json_option
def learn(
    sources: tuple[str, ...],
    *,
    min_confidence: float,
    overrides: str | None,
    check: str | None,
    verify: int,
    propose: bool,
    engine: str,
    master: str | None,
    memory: str,
    database_url: str,
    as_json: bool,
) -> None:
    """Learn which parts of URLs do not change the page, for each host, from what was fetched.

    A SOURCE is a Parquet, CSV or JSONL file with the columns url and content_hash (or content_digest), and optionally
    simhash, canonical_url and fetched_at; a CDX or CDXJ file of a web archive; crawl:ID for a crawl of the store, or
    crawls for all of them; facts for the pages that were read for bookmarks; decisions for the bookmarks that people
    merged on the page of duplicates, or marked as not the same (no rule may merge these).

    \b
    canonry learn pages.parquet --overrides learned.json
    canonry normalize --overrides learned.json < urls.txt
    canonry learn crawl:3 --verify 3
    canonry learn facts decisions crawls --propose
    canonry learn index.cdxj.gz --check bookmark
    """
    from canonry.learner import learn_batches
    from canonry.sizes import parse_size

    if master is not None and engine != "spark":
        raise click.UsageError("--master needs --engine spark")
    require_files(filter(_is_file, sources), "SOURCE")
    # Fails now, not after an hour of learning.
    checked = None if check is None else load_chosen_policy(check)
    contents = _ContentWatch()
    learned = learn_batches(
        contents.watch(_read_sources(sources, database_url)),
        engine=engine,
        min_confidence=min_confidence,
        memory=parse_size(memory),
        master=master,
    )
    if _DECISIONS in sources:
        learned = _apply_decisions(learned, database_url)
    if verify:
        learned = asyncio.run(_verify(learned, verify, are_files=all(map(_is_file, sources))))
    _print_learned(learned, min_confidence, has_contents=contents.is_found, as_json=as_json)
    if checked is not None:
        from canonry.learner.check_policy import check_policy

        _print_check(check_policy(_read_sources(sources, database_url), learned, checked), as_json=as_json)
    if overrides is not None:
        _write_overrides(overrides, learned.overrides())
    if propose:
        _propose(learned, database_url)


class _ContentWatch:
    """Notes whether any row has a hash of the content of its page."""

    def __init__(self) -> None:
        self.is_found = False

    def watch(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield the batches of rows."""
        for batch in batches:
            columns = [batch.column(name) for name in ("content_hash", "simhash")]
            self.is_found |= any(column.null_count < len(column) for column in columns)
            yield batch


def _is_file(source: str) -> bool:
    return source not in {_ALL_CRAWLS, _FACTS, _DECISIONS} and not source.startswith(_CRAWL_PREFIX)


def _read_sources(sources: tuple[str, ...], database_url: str) -> Iterator[Any]:
    from canonry.learner.read_rows import read_rows

    for source in sources:
        if source == _ALL_CRAWLS or source.startswith(_CRAWL_PREFIX):
            from canonry.cli.stores import open_store
            from canonry.learner.read_crawls import read_crawl_rows

            number = source[len(_CRAWL_PREFIX) :] if source != _ALL_CRAWLS else ""
            if source != _ALL_CRAWLS and not (number.isdecimal() and len(number) <= _MAX_ID_DIGITS):
                raise click.UsageError(
                    f"{source!r} is not a crawl: write crawl:ID, with an id that `canonry crawls list` shows."
                )
            with open_store(database_url) as database:
                yield from read_crawl_rows(database, int(number) if number else None)
        elif source in {_FACTS, _DECISIONS}:
            from canonry.cli.stores import open_store
            from canonry.learner.read_facts import read_decision_rows, read_fact_rows

            with open_store(database_url) as database:
                yield from read_fact_rows(database) if source == _FACTS else read_decision_rows(database)
        else:
            yield from read_rows(source)


def _apply_decisions(learned: Learned, database_url: str) -> Learned:
    from canonry.cli.stores import open_store
    from canonry.learner.read_facts import read_vetoes
    from canonry.learner.refuse_rules import apply_vetoes

    with open_store(database_url) as database:
        return apply_vetoes(learned, read_vetoes(database))


async def _verify(learned: Learned, pairs: int, *, are_files: bool) -> Learned:
    from canonry.learner.verify import verify_rules
    from canonry.net.origin import Origin
    from canonry.settings import load_settings
    from canonry.wiring import make_client

    async with make_client(load_settings()) as client:
        # A person names a file of URLs, as with OPML; those in the store were named by servers.
        origin = Origin.PERSON if are_files else Origin.UNKNOWN
        fetch, failures = partial(client.fetch, origin=origin), list[tuple[str, str]]()
        verified = await verify_rules(
            learned, fetch, pairs=pairs, on_failure=lambda url, reason: failures.append((url, reason))
        )
    if failures:
        click.echo(f"canonry: --verify could not fetch {render.count(len(failures), 'URL')}:", err=True)
    for url, reason in failures[:_SHOWN_FAILURES]:
        click.echo(render.escape_control(f"  {reason}" if url in reason else f"  {url}: {reason}"), err=True)
    return verified


def _write_overrides(path: str, text: str) -> None:
    from pathlib import Path

    from canonry.atomic_files import replace_file

    with replace_file(Path(path)) as part:
        part.write_text(text, encoding="utf-8")
    click.echo(f"canonry: wrote {path}", err=True)


def _propose(learned: Learned, database_url: str) -> None:
    from datetime import UTC, datetime

    from canonry.cli.stores import open_store
    from canonry.learner.proposal_store import ProposalStore

    with open_store(database_url, must_exist=False) as database:
        added = asyncio.run(ProposalStore(database).propose(learned.rules, datetime.now(UTC)))
    click.echo(
        f"canonry: {render.count(added, 'new proposal')}. Review them on the page /learned of `canonry serve`.",
        err=True,
    )


def _print_learned(learned: Learned, min_confidence: float, *, has_contents: bool, as_json: bool) -> None:
    from canonry.learner.confidence import compute_confidence

    if render.is_for_terminal(as_json=as_json):
        _print_sentences(learned)
    else:
        for rule in learned.rules:
            render.print_json({"outcome": "rule", **_list_fields(rule)})
        for refused in learned.refused:
            render.print_json({"outcome": "refused", **_list_fields(refused)})
        if learned.invalid:
            click.echo(f"canonry: {learned.invalid:,} of {learned.rows:,} rows have no valid URL", err=True)
        if not learned.rules:
            click.echo(f"canonry: no rule was found in {render.count(learned.rows, 'row')}", err=True)
    if learned.rows and not has_contents:
        click.echo(
            "canonry: no row has a hash of its page, and declared canonical URLs alone prove nothing."
            " Add the column content_hash, with a hash of each page: pages with equal hashes are the same.",
            err=True,
        )
    elif not learned.rules and not learned.refused:
        pages = next(n for n in count(1) if compute_confidence(n, 0) >= min_confidence)
        click.echo(
            f"canonry: a rule needs {render.count(pages, 'page')} that were seen under several URLs each", err=True
        )


def _print_sentences(learned: Learned) -> None:
    for rule in learned.rules:
        click.echo(render.make_bold(render.escape_control(rule.text)))
        pages = render.count(rule.support, "page")
        click.echo(f"  {pages} for, {rule.against:,} against, confidence {rule.confidence:.2f}")
        for pair in rule.examples:
            click.echo(f"  {render.escape_control(pair.one)}\n  = {render.escape_control(pair.other)}")
    counts = [render.count(learned.rows, "row"), render.count(len(learned.rules), "rule")]
    if learned.invalid:
        counts.append(f"{render.count(learned.invalid, 'row')} without a valid URL")
    click.echo(", ".join(counts))
    if learned.refused:
        reasons = Counter(str(refused.reason).replace("_", " ") for refused in learned.refused)
        shown = ", ".join(f"{number:,} {reason}" for reason, number in reasons.most_common())
        click.echo(f"{render.count(len(learned.refused), 'candidate')} refused: {shown}. List them with --json.")


def _list_fields(value: Any) -> dict[str, object]:
    from dataclasses import asdict

    return {name: field for name, field in asdict(value).items() if name != "overrides"}


def _print_check(found: PolicyCheck, *, as_json: bool) -> None:
    if not render.is_for_terminal(as_json=as_json):
        render.print_json({"outcome": "check", **_list_fields(found)})
        return
    click.echo(f"\nPolicy {found.policy}: {found.urls:,} URLs")
    click.echo(f"  {found.merged_wrongly} normal forms that stand for pages with different contents")
    for pair in found.merged_examples[:_SHOWN_DIFFERENCES]:
        click.echo(f"    {render.escape_control(pair.one)}\n    ≠ {render.escape_control(pair.other)}")
    click.echo(f"  {found.kept_apart} pages under several normal forms that learned rules would merge")
    for pair in found.apart_examples[:_SHOWN_DIFFERENCES]:
        click.echo(f"    {render.escape_control(pair.one)}\n    = {render.escape_control(pair.other)}")
    sys.stdout.flush()
