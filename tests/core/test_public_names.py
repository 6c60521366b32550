"""The names that programs rely on: none is lost, and each one loads."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from typing import TYPE_CHECKING

import click
import pytest

import canonry
from canonry.cli.group import canonry as cli

if TYPE_CHECKING:
    from collections.abc import Callable

PUBLIC_NAMES = """
    Candidate Canonical CanonryError Event Existing Explanation Feed FeedSignature FetchFailed Hop InvalidUrl Item Key
    Learned LearnedRule LinkRule LinkVerdict NotAFeed Page PageLink Policy PolicyError RefusedRule Report Resolved Response Score StartMoved Step StoreError
    UnsafeUrl Validators Variant Verdict canonical_hash canonicalize canonicalize_sync content_hash crawl dedupe_key
    explain feed_signature find_overrides identity_keys ingest judge_link learn load_policy normalize normalize_many
    policies policy read_url resolve resolve_sync score variants
""".split()
# Arguments that programs pass by name, besides the first one.
ARGUMENTS: list[tuple[Callable[..., object], str]] = [
    (canonry.normalize, "policy"),
    (canonry.normalize_many, "policy"),
    (canonry.explain, "policy"),
    (canonry.canonical_hash, "policy"),
    (canonry.variants, "presets"),
    (canonry.identity_keys, "feed_url"),
    (canonry.dedupe_key, "feed_url"),
    (canonry.judge_link, "page_url seed_url"),
    (canonry.canonicalize, "fetch exists verify max_requests discover check_before_fetch"),
    (canonry.ingest, "store fetch seen_ttl_days"),
    (canonry.resolve, "policy fetch max_requests"),
    (canonry.learn, "engine min_confidence"),
    (canonry.crawl, "engine store resume max_pages depth"),
]
# Names that programs import from modules.
MODULE_NAMES = """
    net.guard.Guard.check_url net.guard.Guard.check_address store.database.Database bulk.arrow.normalize bulk.run
    bulk.functions.register_sqlite bulk.functions.register_duckdb bulk.functions.register_spark
    integrations.scrapy.Fingerprinter integrations.scrapy.link_filter integrations.reader.init_reader
    integrations.sqlalchemy.CanonicalUrl integrations.mcp.server
""".split()
COMMANDS = """
    normalize explain policies rules policy canonicalize ingest feeds crawl serve worker user rekey bulk demo mcp crawls
    config completion backup restore resolve learn
""".split()
SUBMODULES = ("bulk.arrow", "net.guard")  # reached by `import canonry` alone


def test_dir_lists_the_public_names() -> None:
    assert [name for name in dir(canonry) if not name.startswith("_")] == PUBLIC_NAMES


@pytest.mark.parametrize("name", PUBLIC_NAMES)
def test_every_public_name_loads(name: str) -> None:
    assert getattr(canonry, name).__doc__


@pytest.mark.parametrize(("function", "names"), ARGUMENTS, ids=[each.__name__ for each, _ in ARGUMENTS])
def test_the_arguments_of_a_function_keep_their_names(function: Callable[..., object], names: str) -> None:
    assert {*names.split()} <= {*inspect.signature(function).parameters}


@pytest.mark.parametrize("name", MODULE_NAMES)
def test_names_stay_in_their_modules(name: str) -> None:
    module, _, rest = name.partition(".")
    found: object = importlib.import_module(f"canonry.{module}")
    for part in rest.split("."):
        if not hasattr(found, part):
            found = importlib.import_module(f"{found.__name__}.{part}")  # type: ignore[attr-defined]
        else:
            found = getattr(found, part)
    assert found.__doc__


def test_every_command_is_there() -> None:
    assert {*COMMANDS} <= {*cli.list_commands(click.Context(cli))}


@pytest.mark.parametrize("name", SUBMODULES)
def test_submodules_are_reached_without_an_import_of_their_own(name: str) -> None:
    package, module = name.split(".")
    assert getattr(getattr(canonry, package), module).__name__ == f"canonry.{name}"


@pytest.mark.parametrize("first", ["canonry.Response", "canonry.bulk.Mode"])
def test_submodules_are_reached_after_another_module_of_their_package(first: str) -> None:
    code = f"import canonry; {first}; canonry.net.guard.Guard; canonry.bulk.arrow.normalize"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'canonry' has no attribute 'nope'"):
        _ = canonry.nope
