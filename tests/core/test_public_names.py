"""The names that programs import from `canonry`: none is lost, and each one loads."""

from __future__ import annotations

import subprocess
import sys

import pytest

import canonry

PUBLIC_NAMES = """
    Candidate Canonical CanonryError Event Existing Explanation Feed FeedSignature FetchFailed Hop InvalidUrl Item Key
    LinkRule LinkVerdict NotAFeed Page PageLink Policy PolicyError Report Response Score StartMoved Step StoreError
    UnsafeUrl Validators Variant Verdict canonical_hash canonicalize canonicalize_sync content_hash crawl dedupe_key
    explain feed_signature find_overrides identity_keys ingest judge_link load_policy normalize normalize_many policies policy
    read_url score variants
""".split()
SUBMODULES = ("bulk.arrow", "net.guard")  # reached by `import canonry` alone


def test_dir_lists_the_public_names() -> None:
    assert [name for name in dir(canonry) if not name.startswith("_")] == PUBLIC_NAMES


@pytest.mark.parametrize("name", PUBLIC_NAMES)
def test_every_public_name_loads(name: str) -> None:
    assert getattr(canonry, name).__doc__


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
