"""canonry policies, policy show and policy diff: list, show and compare policies."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, BinaryIO, cast

import click

from canonry.cli import render
from canonry.cli.lines import read_lines
from canonry.cli.options import (
    complete_policy,
    db_option,
    json_option,
    load_chosen_policy,
    overrides_option,
    overrides_setting_option,
)
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
    """List the policies that canonry ships.

    \b
    canonry policies
    """
    shipped = presets.policies()
    if not render.is_for_terminal(as_json=as_json):
        for policy in shipped:
            render.print_json(_make_record(policy))
        return
    render.print_table(("policy", "what it is for"), [(policy.id, policy.about) for policy in shipped])


@click.group()
def policy() -> None:
    """Show a policy, or compare two."""


@policy.command()
@click.argument("policy_name", metavar="POLICY", shell_complete=complete_policy)
@overrides_option
@json_option
def show(policy_name: str, *, overrides: str | None, as_json: bool) -> None:
    """Show every option of a policy.

    \b
    canonry policy show bookmark
    canonry policy show my-policy.toml
    """
    policy = load_chosen_policy(policy_name, overrides)
    if not render.is_for_terminal(as_json=as_json):
        render.print_json(_make_record(policy))
        return
    click.echo(f"{render.make_bold(policy.id)}  {policy.about}")
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
@click.option("--store", "use_entries", is_flag=True, help="Use the feed entries of the store instead of a FILE.")
@click.option("--bookmarks", "use_bookmarks", is_flag=True, help="Use the bookmarks of the store instead of a FILE.")
@db_option
@overrides_setting_option
@click.option(
    "--examples",
    metavar="N",
    default=5,
    show_default=True,
    type=click.IntRange(0),
    help="How many examples of each kind to show.",
)
@json_option
def diff(
    before: str,
    after: str,
    file: BinaryIO | None,
    *,
    use_entries: bool,
    use_bookmarks: bool,
    database_url: str,
    examples: int,
    as_json: bool,
) -> None:
    """Show what changes for the URLs of a FILE (or standard input, or a store) when policy B replaces A.

    Changed: URLs that get another key. Merged: keys of B that several keys of A become. Split: keys of A
    that become several. Memory grows with the number of distinct URLs.

    \b
    canonry policy diff bookmark feed-aggressive urls.txt
    canonry policy diff entry bookmark --store
    canonry policy diff bookmark crawl --bookmarks
    """
    if use_entries or use_bookmarks:
        _load_stored_overrides(database_url, before, after)
    policies = load_chosen_policy(before), load_chosen_policy(after)
    if (file is not None) + use_entries + use_bookmarks > 1:
        raise click.UsageError("Use only one of a FILE, --store and --bookmarks.")
    if use_entries or use_bookmarks:
        found = _diff_stored_urls(*policies, database_url, examples=examples, use_bookmarks=use_bookmarks)
    else:
        urls = _UrlFilter()
        lines = read_lines(cast("BinaryIO", click.open_file("-", "rb")) if file is None else file)
        found = diff_policies(*policies, urls.run(lines), examples=examples)
        found.urls += urls.refused
        found.refused += urls.refused
    if not render.is_for_terminal(as_json=as_json):
        render.print_json(found)
    else:
        _print_diff(found)
    sys.exit(1 if found.refused else 0)


def _load_stored_overrides(database_url: str, *policy_ids: str) -> None:
    """Make the overrides that a store has for these policies known, also if their file has changed since."""
    if any("+" in policy_id for policy_id in policy_ids):
        from canonry.cli.stores import open_store
        from canonry.store.pinned_policies import remember_stored_overrides

        with open_store(database_url) as database:
            database.read_now(lambda connection: remember_stored_overrides(connection, *policy_ids))


def _diff_stored_urls(
    before: Policy, after: Policy, database_url: str, *, examples: int, use_bookmarks: bool
) -> PolicyDiff:
    from canonry.cli.stores import open_store
    from canonry.rekey.bookmark_rekey_store import stream_bookmarked_urls
    from canonry.rekey.entry_rekey_store import stream_entry_urls

    urls = stream_bookmarked_urls if use_bookmarks else stream_entry_urls
    with open_store(database_url) as database:
        return database.read_now(lambda connection: diff_policies(before, after, urls(connection), examples=examples))


class _UrlFilter:
    """Passes URLs on and counts the lines that are not URLs."""

    def __init__(self) -> None:
        self.refused = 0

    def run(self, texts: Iterator[str | InvalidUrl]) -> Iterator[str]:
        for text in texts:
            try:
                if isinstance(text, InvalidUrl):
                    raise text
                url = read_url(text)
            except InvalidUrl:
                self.refused += 1
            else:
                yield url


def _make_record(policy: Policy) -> dict[str, object]:
    overrides = policy.overrides.digest if policy.overrides else None
    about = {"id": policy.id, "about": policy.about, "digest": policy.digest}
    return {**about, **policy.options(), "overrides": overrides}


def _print_diff(found: PolicyDiff) -> None:
    click.echo(f"{found.before} → {found.after}")
    counts = [(name, str(getattr(found, name))) for name in ("urls", "refused", "changed", "merged", "split")]
    render.print_table(("what", "count"), counts)
    print_examples(found)


def print_examples(found: PolicyDiff | RekeySummary) -> None:
    """Print the examples: URLs that change, keys that merge, and keys that split."""
    for change in found.changes:
        click.echo(f"{render.style_rule('changed')}  {render.format_diff(change.before, change.after)}")
    _print_groups("merged", found.merges)
    _print_groups("split", found.splits)


def _print_groups(kind: str, groups: list[KeyGroup]) -> None:
    for group in groups:
        arrow = "→" if kind == "split" else "←"
        click.echo(f"{render.style_rule(kind)}  {group.key} {arrow}")
        for other in group.others:
            click.echo(f"    {other}")
