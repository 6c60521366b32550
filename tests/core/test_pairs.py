"""The pairs of tests/cases/url_pairs.json: S are the same, D are different, P depend on the policy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import canonry
from corpora import POLICIES

PAIRS = json.loads((Path(__file__).parent.parent / "cases" / "url_pairs.json").read_text())
FEEDS = frozenset({"feed-aggressive", "feed-moderate", "feed-conservative"})
KNOW_SITES = frozenset({"entry", "article", "bookmark"})
DROPS_FRAGMENT = frozenset(POLICIES) - {"bookmark", "exact"}
# Pairs of kind D that a policy merges on purpose, by one of its rules.
DROPPED = {"spa route kept": DROPS_FRAGMENT}
# Pairs of kind P: the policies that merge them, or a text with the reason why no policy does.
MERGED_BY: dict[str, frozenset[str] | str] = {
    "+ vs %20 in query (form)": "+ is a space only to form decoders; bytes that no rule names stay (N3)",
    "invalid pct kept": "a stray % stays as it is; %25 is reserved (N3)",
    "trailing dot host": "a trailing dot is another name to DNS search lists; no rule names it",
    "double slash path": FEEDS | {"article"},
    "trailing slash": frozenset({"feed-aggressive", "feed-moderate", "crawl", "article"}),
    "fragment drop": DROPS_FRAGMENT,
    "blank value vs none": "servers tell ?a= from ?a; bytes that no rule names stay (N3)",
    "param order": FEEDS | {"article", "bookmark"},
    "utm": FEEDS | {"entry", "article", "bookmark", "crawl"},
    "utm mixed case": FEEDS | {"entry", "article", "bookmark", "crawl"},
    "utm unknown suffix": FEEDS | {"entry", "article", "bookmark", "crawl"},
    "fbclid gclid": FEEDS | {"entry", "article", "bookmark", "crawl"},
    "mc_eid ref ref_src cmpid icid ocid": frozenset({"article"}),
    "www": frozenset({"feed-aggressive"}),
    "http vs https": "which scheme answers is evidence from the network, not text",
    "feed://": "strict normalize takes http(s) only; read_url converts it (N7)",
    "feed:https://": "strict normalize takes http(s) only; read_url converts it (N7)",
    "rss:// pcast:// itpc://": "strict normalize takes http(s) only; read_url converts it (N7)",
    "double protocol": "repairing schemes turns https://pps.org/ into https://org/",
    "AMP path": "only the overrides file of a user knows which hosts have /amp/",
    "mobile host": "only the overrides file of a user knows which hosts have m.",
    "google redirect": KNOW_SITES,
    "yt shorts": KNOW_SITES,
    "twitter -> x": KNOW_SITES,
    "x mediaViewer": KNOW_SITES,
}


def normalize_or_mark_refused(url: str, policy: str) -> str:
    try:
        return canonry.normalize(url, policy)
    except canonry.InvalidUrl:
        return f"refused: {url}"


def find_merging_policies(pair: dict[str, str]) -> set[str]:
    return {
        policy
        for policy in POLICIES
        if normalize_or_mark_refused(pair["a"], policy) == normalize_or_mark_refused(pair["b"], policy)
    }


def select_pairs(kind: str) -> list[object]:
    return [pytest.param(pair, id=pair["why"]) for pair in PAIRS if pair["kind"] == kind]


@pytest.mark.parametrize("pair", select_pairs("S"))
def test_same_pairs_merge(pair: dict[str, str]) -> None:
    assert find_merging_policies(pair) >= {"feed-aggressive", "crawl"}


@pytest.mark.parametrize("pair", select_pairs("D"))
def test_different_pairs_stay_apart(pair: dict[str, str]) -> None:
    assert find_merging_policies(pair) == DROPPED.get(pair["why"], frozenset())


@pytest.mark.parametrize("pair", select_pairs("P"))
def test_pairs_that_depend_on_the_policy(pair: dict[str, str]) -> None:
    merged_by = MERGED_BY[pair["why"]]
    assert find_merging_policies(pair) == (set() if isinstance(merged_by, str) else merged_by)


def test_every_pair_has_a_kind() -> None:
    assert {pair["why"] for pair in PAIRS if pair["kind"] == "P"} == set(MERGED_BY)
    assert {pair["kind"] for pair in PAIRS} == {"S", "D", "P"}


def test_read_url_merges_feed_schemes() -> None:
    for pair in PAIRS:
        if pair["why"] in ("feed://", "feed:https://", "rss:// pcast:// itpc://"):
            assert canonry.read_url(pair["a"]) == canonry.read_url(pair["b"])
