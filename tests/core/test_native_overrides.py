"""contract L4: overrides of the format overrides.v1 run in C, with the answers of the reference."""

from __future__ import annotations

import json
import random

import pytest

import canonry
import fuzz_native
import random_overrides
from canonry.core import native as fast
from canonry.core import normalize as reference

pytestmark = [
    pytest.mark.native,
    pytest.mark.skipif(fast.CORE != "native", reason="the native core is not built, or CANONRY_PURE is set"),
]
POLICIES = ("exact", "crawl@2", "feed-aggressive@2", "feed-conservative@1", "bookmark@2")


@pytest.mark.parametrize("seed", range(20))
def test_random_overrides_give_the_answers_of_the_reference(seed: int) -> None:
    from canonry.core.native._fast import is_simple

    choose = random.Random(seed)
    policies = [policy for policy in map(canonry.policy, POLICIES) if policy.parse]
    policy = fuzz_native.add_random_overrides(choose, policies[seed % len(policies)])
    urls = [random_overrides.make_url(choose) for _ in range(200)]
    assert fuzz_native.differences(urls, policy, ["string"]) == []
    assert sum(is_simple(url, policy) for url in urls) > 0.8 * len(urls)  # hosts of sites that are code, other ports


def test_many_segments_params_and_rounds_give_the_answers_of_the_reference() -> None:
    rules = {
        "drop_segments": [{"place": "first", "segment": "amp"}],
        "drop_path_params": ["sid"],
        "rewrite_rules": [{"from_prefix": "https://a.com/x/", "to_prefix": "https://a.com/"}],
        "query_to_path": [{"path": "/", "param": "t", "to": "/x/amp/"}],
    }
    text = json.dumps({"format": "overrides.v1", "overrides": [{"match": {"host": "a.com"}, **rules}]})
    policy = canonry.policy("crawl@2").with_overrides(text)
    for path in (
        "/x" * 300,
        "/amp/x" * 150,
        "/a;sid=1" * 100,
        "/" + "y/" * 70,
        "/?t=1&t",
        "/?t=b&" + "c&" * 70,
        "/?t=amp",
        "/?" + "é" * 20,
    ):
        assert canonry.normalize(f"https://a.com{path}", policy) == reference.normalize(f"https://a.com{path}", policy)


@pytest.mark.parametrize("length", [1_900, 2_030, 2_048, 2_100, 5_000, 20_000, 65_000])
def test_long_prefixes_do_not_overflow_the_buffer(length: int) -> None:
    long = f"https://a.com/{'y' * length}/"
    rewrites = [
        {"from_prefix": "https://a.com/x/", "to_prefix": long},
        {"from_prefix": long, "to_prefix": "https://a.com/z/"},
    ]
    for rules in ({"rewrite_rules": rewrites[:1]}, {"rewrite_rules": rewrites[1:]}):
        text = json.dumps({"overrides": [{"match": {"host": "a.com"}, **rules}]})
        policy = canonry.policy("article@1").with_overrides(text)
        for url in ("https://a.com/x/1", "https://a.com/x/" + "b" * 1_990, f"{long}1"):
            assert canonry.normalize(url, policy) == reference.normalize(url, policy)
