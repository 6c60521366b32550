"""canonry policies, policy show, policy diff: which rules there are to choose from, and what changes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, BinaryIO, cast

import click

from canonry.cli import render
from canonry.cli.lines import input_lines
from canonry.cli.options import chosen, complete_policy, db_option, json_option, overrides_option
from canonry.core import presets
from canonry.core.policy import SWITCHES, Policy
from canonry.core.policy_diff import KeyGroup, PolicyDiff, diff_policies
from canonry.core.url import read_url
from canonry.errors import InvalidUrl

if TYPE_CHECKING:
    from collections.abc import Iterator

    from canonry.rekey.key_counts import RekeySummary


@click.command()
@json_option
def policies(*, as_json: bool) -> None:
    """The policies canonry ships.

    \b
    canonry policies
    """
    shipped = presets.policies()
    if not render.on_terminal(as_json=as_json):
        for policy in shipped:
            render.print_json(_record(policy))
        return
    render.print_table(("policy", "what it is for"), [(policy.id, policy.about) for policy in shipped])


@click.group()
def policy() -> None:
    """One policy, or two compared."""


@policy.command()
@click.argument("policy_name", metavar="POLICY", shell_complete=complete_policy)
@overrides_option
@json_option
def show(policy_name: str, *, overrides: str | None, as_json: bool) -> None:
    """Every option of a policy, by value.

    \b
    canonry policy show bookmark
    canonry policy show my-policy.toml
    """
    policy = chosen(policy_name, overrides)
    if not render.on_terminal(as_json=as_json):
        render.print_json(_record(policy))
        return
    click.echo(f"{render.bold(policy.id)}  {policy.about}")
    on = [switch for switch in SWITCHES if getattr(policy, switch)]
    rows = [
        ("digest", policy.digest),
        ("rules", ", ".join(on)),
        ("fragment", policy.fragment),
        ("sites", ", ".join(policy.sites)),
        ("strip_params", ", ".join(policy.strip_params)),
        *((f"  on {host}", ", ".join(names)) for host, names in policy.strip_params_on),
        ("overrides", policy.overrides.digest if policy.overrides else ""),
    ]
    render.print_table(("option", "value"), [(option, value or "–") for option, value in rows])


@policy.command()
@click.argument("before", metavar="POLICY_A", shell_complete=complete_policy)
@click.argument("after", metavar="POLICY_B", shell_complete=complete_policy)
@click.argument("file", type=click.File("rb"), required=False)
@click.option("--store", "is_stored", is_flag=True, help="Compare for the feed entries of the store instead of a FILE.")
@click.option("--bookmarks", "is_kept", is_flag=True, help="Compare for the bookmarks of the store.")
@db_option
@click.option("--examples", default=5, show_default=True, type=click.IntRange(0), help="How many of each kind to show.")
@json_option
def diff(
    before: str,
    after: str,
    file: BinaryIO | None,
    *,
    is_stored: bool,
    is_kept: bool,
    database_url: str,
    examples: int,
    as_json: bool,
) -> None:
    """What changes for the URLs of a FILE (or standard input, or a store) when policy B takes the place of A.

    Changed: the URL has another key. Merged: keys that were apart become one. Split: one key becomes
    several. Memory grows with the number of distinct URLs.

    \b
    canonry policy diff bookmark feed-aggressive urls.txt
    canonry policy diff entry bookmark --store
    canonry policy diff bookmark crawl --bookmarks
    """
    policies = chosen(before), chosen(after)
    if (file is not None) + is_stored + is_kept > 1:
        raise click.UsageError("a FILE, --store and --bookmarks exclude each other")
    if is_stored or is_kept:
        found = _stored_diff(*policies, database_url, examples=examples, is_kept=is_kept)
    else:
        refused = _Refused()
        lines = input_lines(cast("BinaryIO", click.open_file("-", "rb")) if file is None else file)
        found = diff_policies(*policies, refused.passing(lines), examples=examples)
        found.urls += refused.count
        found.refused += refused.count
    if not render.on_terminal(as_json=as_json):
        render.print_json(found)
    else:
        _print_diff(found)
    sys.exit(1 if found.refused else 0)


def _stored_diff(before: Policy, after: Policy, database_url: str, *, examples: int, is_kept: bool) -> PolicyDiff:
    from canonry.cli.stores import open_store
    from canonry.rekey.bookmark_rekey_store import stream_bookmarked_urls
    from canonry.rekey.entry_store import stored_urls

    urls = stream_bookmarked_urls if is_kept else stored_urls
    with open_store(database_url) as database:
        return database.read_now(lambda connection: diff_policies(before, after, urls(connection), examples=examples))


class _Refused:
    """Lines that are no URL, counted on the way."""

    def __init__(self) -> None:
        self.count = 0

    def passing(self, texts: Iterator[str | InvalidUrl]) -> Iterator[str]:
        for text in texts:
            try:
                if isinstance(text, InvalidUrl):
                    raise text
                url = read_url(text)
            except InvalidUrl:
                self.count += 1
            else:
                yield url


def _record(policy: Policy) -> dict[str, object]:
    overrides = policy.overrides.digest if policy.overrides else None
    about = {"id": policy.id, "about": policy.about, "digest": policy.digest}
    return {**about, **policy.options(), "overrides": overrides}


def _print_diff(found: PolicyDiff) -> None:
    click.echo(f"{found.before} → {found.after}")
    counts = [(name, str(getattr(found, name))) for name in ("urls", "refused", "changed", "merged", "split")]
    render.print_table(("what", "count"), counts)
    print_examples(found)


def print_examples(found: PolicyDiff | RekeySummary) -> None:
    """Some of the URLs that change, of the keys that merge and of those that split."""
    for change in found.changes:
        click.echo(f"{render.rule_label('changed')}  {render.token_diff(change.before, change.after)}")
    _print_groups("merged", found.merges)
    _print_groups("split", found.splits)


def _print_groups(kind: str, groups: list[KeyGroup]) -> None:
    for group in groups:
        arrow = "→" if kind == "split" else "←"
        click.echo(f"{render.rule_label(kind)}  {group.key} {arrow}")
        for other in group.others:
            click.echo(f"    {other}")
