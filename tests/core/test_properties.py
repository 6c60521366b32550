"""contract N2, N9 as properties: normalizing twice changes nothing, and explain agrees with normalize."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import canonry
import corpora
from canonry.core.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Callable

SHIPPED = [canonry.policy(name) for name in corpora.POLICIES]
BATCH = 100
EXAMPLES = 1_000  # batches for each of the three ways to make a URL: 300,000 inputs


def batches(make: Callable[[random.Random], str]) -> st.SearchStrategy[list[str]]:
    """Draw a hundred URLs as one example: drawing takes hypothesis longer than the check."""

    def batch(seed: int) -> list[str]:
        choose = random.Random(seed)
        return [make(choose) for _ in range(BATCH)]

    return st.integers(0, 2**64).map(batch)


def mutated(choose: random.Random) -> str:
    return corpora.mutate_url(choose, choose.choice(corpora.get_real_or_generated_urls()))


_raw = st.builds("{}{}".format, st.sampled_from(corpora.TEXT_STARTS), st.text())
_policies = st.builds(
    Policy,
    st.just("p"),
    st.just(1),
    strip_www=st.booleans(),
    strip_auth=st.booleans(),
    normalize_escapes=st.booleans(),
    collapse_slashes=st.booleans(),
    strip_trailing_slash=st.booleans(),
    sort_params=st.booleans(),
    fragment=st.sampled_from(["drop", "keep", "routes"]),
    sites=st.sets(st.sampled_from(["youtube", "x", "feedburner", "blogger"])),
    strip_params=st.sets(st.sampled_from(["utm_*", "v", "t", "start", "alt", "a", "list"])),
    strip_params_on=st.sampled_from([{}, {"example.com": ["a"]}, {"www.youtube.com": ["v"]}]),
)


def assert_fixed_point(url: str, policy: Policy, *, is_explained: bool = True) -> None:
    once: str | None = None
    with suppress(canonry.InvalidUrl):
        once = canonry.normalize(url, policy)
    if once is not None:
        assert canonry.normalize(once, policy) == once, policy.options()
        assert canonry.normalize(url, policy) == once
    if is_explained:
        explained: str | None = None
        with suppress(canonry.InvalidUrl):
            explained = canonry.explain(url, policy).url
        assert explained == once


@pytest.mark.slow
@pytest.mark.parametrize("make", [corpora.build_url, mutated, corpora.make_random_text])
def test_normalizing_generated_urls_twice_changes_nothing(make: Callable[[random.Random], str]) -> None:
    @settings(max_examples=EXAMPLES)
    @given(batches(make), _policies)
    def run(urls: list[str], composed: Policy) -> None:
        for number, url in enumerate(urls):
            policy = SHIPPED[number // 2 % len(SHIPPED)] if number % 2 else composed
            assert_fixed_point(url, policy, is_explained=number % 3 == 0)

    run()


@settings(max_examples=250)
@given(_raw, st.sampled_from(SHIPPED), _policies)
def test_normalizing_any_text_twice_changes_nothing(text: str, shipped: Policy, composed: Policy) -> None:
    assert_fixed_point(text, shipped)
    assert_fixed_point(text, composed)


@pytest.mark.parametrize("policy", SHIPPED, ids=corpora.POLICIES)
def test_normalizing_real_urls_twice_changes_nothing(policy: Policy) -> None:
    urls = corpora.get_real_or_generated_urls()
    once = canonry.normalize_many(urls, policy)
    kept = [url for url in once if url is not None]
    assert len(kept) > 0.99 * len(urls)
    assert canonry.normalize_many(kept, policy) == kept


@pytest.mark.parametrize("policy", SHIPPED, ids=corpora.POLICIES)
def test_explain_agrees_with_normalize_on_real_urls(policy: Policy) -> None:
    for url in corpora.get_real_or_generated_urls()[::20]:
        assert_fixed_point(url, policy)
