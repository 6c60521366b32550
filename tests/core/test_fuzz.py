"""contract N1: canonry accepts the URLs that ada accepts, raises InvalidUrl for all others, and nothing else."""

from __future__ import annotations

import random

import ada_url
import pytest

import canonry
import corpora
from canonry.core.policy import Policy

BARE = Policy("bare", 1)


def parse_with_ada(text: str) -> str | None:
    """Return the URL as ada writes it, None if ada refuses it."""
    try:
        href = ada_url.URL(text).href
    except (ValueError, UnicodeEncodeError):
        return None
    return href if href.startswith(("http://", "https://")) else None


def drop_empty_ends(href: str) -> str:
    """Drop an empty query and fragment, which ada keeps and rule 1 drops."""
    url, _, fragment = href.partition("#")
    path, _, query = url.partition("?")
    return path + (f"?{query}" if query else "") + (f"#{fragment}" if fragment else "")


def assert_agrees(text: str) -> None:
    wanted = parse_with_ada(text)
    try:
        answer = canonry.normalize(text, BARE)
    except canonry.InvalidUrl as error:
        assert wanted is None, text
        assert error.reason
    else:
        assert wanted is not None, text
        assert answer == drop_empty_ends(wanted)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_random_text_agrees_with_ada(seed: int) -> None:
    choose = random.Random(seed)
    for _ in range(250_000):
        assert_agrees(corpora.make_random_text(choose))


@pytest.mark.slow
def test_built_and_mutated_urls_agree_with_ada() -> None:
    choose = random.Random(5)
    real = corpora.get_real_or_generated_urls()
    for _ in range(100_000):
        assert_agrees(corpora.build_url(choose))
        assert_agrees(corpora.mutate_url(choose, choose.choice(real)))


def test_real_urls_agree_with_ada() -> None:
    for url in corpora.get_real_or_generated_urls():
        assert_agrees(url)


MEGABYTES = [
    "a" * 10_000_000,
    "https://a.com/" + "a" * 10_000_000,
    "https://" + "www." * 2_500_000 + "com/",
    "https://" + "a." * 5_000_000 + "com/",
    "https://a.com/" + "%" * 10_000_000,
    "https://a.com/" + "%41" * 3_000_000,
    "https://a.com/" + "%%34" * 2_500_000,
    "https://a.com" + "/" * 10_000_000,
    "https://a.com" + "/.." * 3_000_000,
    "https://a.com/?" + "&" * 3_000_000,
    "https://a.com/?" + "b&" * 1_000_000 + "a&" * 1_000_000,
    "https://a.com/?" + "utm_x=1&" * 1_000_000,
    "https://" + "@" * 10_000_000,
    "https://a.com/#" + ":~:" * 3_000_000,
    "https://a.com:" + "9" * 10_000_000,
    "https://www.youtube.com" + "/watch" * 1_500_000,
    "https://x.com/u/status/" + "1" * 10_000_000,
    "https://[" + ":" * 10_000_000,
    " " * 10_000_000,
    "\ud800" * 10_000_000,
    "é" * 5_000_000,
]


@pytest.mark.slow
@pytest.mark.parametrize("text", MEGABYTES, ids=range(len(MEGABYTES)))
def test_megabytes_take_linear_time(text: str) -> None:
    for policy, long in (("feed-aggressive", text), ("bookmark", text[:1_000_000])):
        try:
            once = canonry.normalize(long, policy)
        except canonry.InvalidUrl as error:
            assert len(str(error)) < 1_000
        else:
            assert canonry.normalize(once, policy) == once
    try:
        canonry.read_url(text)
    except canonry.InvalidUrl as error:
        assert error.reason
