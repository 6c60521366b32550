"""Rules of overrides.v1: what they change, that they end, and what a file must not say (contract L4)."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import canonry
from canonry.core.native.policy_tables import make_tables

RULES: dict[str, Any] = {
    "drop_query_values": ["page=1"],
    "drop_query_params_below": [{"folder": "/shop/", "params": ["view"]}],
    "drop_query_params_at": [{"path": "/item", "params": ["view"]}],
    "drop_path_params": ["sid"],
    "drop_segments": [{"place": "first", "segment": "amp"}, {"place": "last", "segment": "index.html"},
                      {"place": "last", "segment": "print"}, {"place": "mid", "segment": "m"}],
    "drop_segment_shapes": [{"place": "first", "shape": "s-#"}],
    "drop_extensions": ["php"],
    "drop_slugs": [{"kind": "after-id", "path": "/q/#"}, {"kind": "ends-with-id", "path": "/n"},
                   {"kind": "starts-with-id", "path": "/t"}, {"kind": "before-id", "path": "/dp/#"}],
    "query_to_path": [{"path": "/index.php", "param": "title", "to": "/wiki/"}],
    "lower_case": ["first"],
    "strip_trailing_slash": True,
    "sort_query_params": True,
    "scheme": "https",
}  # fmt: skip
CASES = [
    ("default value", "https://a.com/x?page=1&b=2", "https://a.com/x?b=2"),
    ("another value stays", "https://a.com/x?page=2", "https://a.com/x?page=2"),
    ("below a folder", "https://a.com/shop/x?view=a", "https://a.com/shop/x"),
    ("not elsewhere", "https://a.com/shopping?view=a", "https://a.com/shopping?view=a"),
    ("at a path", "https://a.com/item?view=a&b=1", "https://a.com/item?b=1"),
    ("not below the path", "https://a.com/item/x?view=a", "https://a.com/item/x?view=a"),
    ("path parameter", "https://a.com/x;sid=1;b=2/y", "https://a.com/x;b=2/y"),
    ("first segment", "https://a.com/amp/x", "https://a.com/x"),
    ("never the only segment", "https://a.com/amp", "https://a.com/amp"),
    ("last segment", "https://a.com/x/print", "https://a.com/x"),
    ("index file", "https://a.com/x/index.html", "https://a.com/x"),
    ("middle segment", "https://a.com/x/m/y", "https://a.com/x/y"),
    ("generated segment", "https://a.com/s-a1b2/x", "https://a.com/x"),
    ("another shape stays", "https://a.com/s-12/x", "https://a.com/s-12/x"),
    ("extension", "https://a.com/x.php", "https://a.com/x"),
    ("slug after id", "https://a.com/q/12/any-text", "https://a.com/q/12"),
    ("slug and id", "https://a.com/n/any-text-12.html", "https://a.com/n/12.html"),
    ("id and slug", "https://a.com/t/12-any-text", "https://a.com/t/12"),
    ("slug before id", "https://a.com/any-text/dp/B00X1", "https://a.com/dp/B00X1"),
    ("a path parameter is no slug", "https://a.com/t/12-any-text;page=2", "https://a.com/t/12-any-text;page=2"),
    ("nor is it beside one", "https://a.com/q/12/any-text;page=2", "https://a.com/q/12/any-text;page=2"),
    ("a dropped one does not matter", "https://a.com/t/12-any-text;sid=2", "https://a.com/t/12"),
    ("query to path", "https://a.com/index.php?title=Foo&x=1", "https://a.com/wiki/Foo?x=1"),
    ("a value that is no segment", "https://a.com/index.php?title=a/b", "https://a.com/index?title=a/b"),
    ("case", "https://a.com/ABC/Def", "https://a.com/abc/Def"),
    ("escapes keep their case", "https://a.com/%C3%89A/x", "https://a.com/%C3%89a/x"),
    ("slash", "https://a.com/x/", "https://a.com/x"),
    ("order", "https://a.com/x?b=1&a=2", "https://a.com/x?a=2&b=1"),
    ("scheme", "http://a.com/x", "https://a.com/x"),
    ("another port keeps its scheme", "http://a.com:8080/x", "http://a.com:8080/x"),
    ("another host", "http://b.com/amp/x/", "http://b.com/amp/x/"),
]


def make_policy(rules: dict[str, Any], name: str = "crawl@2", **others: dict[str, Any]) -> canonry.Policy:
    overrides = [{"match": {"host": "a.com"}, **rules}]
    overrides += [{"match": {"host": host.replace("_", ".")}, **each} for host, each in others.items()]
    return canonry.policy(name).with_overrides(json.dumps({"format": "overrides.v1", "overrides": overrides}))


@pytest.mark.parametrize(("given_url", "wanted"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_rules_change_what_they_name(given_url: str, wanted: str) -> None:
    policy = canonry.Policy("plain", 1, normalize_escapes=True).with_overrides(make_policy(RULES).overrides.text)  # type: ignore[union-attr]
    assert canonry.normalize(given_url, policy) == wanted
    assert canonry.explain(given_url, policy).url == wanted


_SEGMENTS = st.sampled_from(
    ["amp", "m", "q", "n", "t", "dp", "12", "s-a1", "s-b2;sid=1", "x-12.php", "12-y", "print", "index.html", "ABC", "",
     "index.php", "a.php.php", "shop", "item", "%C3%A9X", "wiki", "..", "s-a1.php"]
)  # fmt: skip
_PARAMS = st.sampled_from(
    ["page=1", "view=a", "title=Foo", "title=s-a1", "title=..", "title=%2e", "b=1", "a=2", "title=;sid=1"]
)
_NAMES = ["crawl@2", "bookmark@2", "article@1", "feed-aggressive@2"]


@settings(max_examples=400, deadline=None)
@given(
    st.lists(_SEGMENTS, max_size=6),
    st.lists(_PARAMS, max_size=4),
    st.sets(st.sampled_from(sorted(RULES))),
    st.sampled_from(_NAMES),
)
def test_every_answer_is_a_fixed_point(segments: list[str], params: list[str], keys: set[str], name: str) -> None:
    policy = make_policy({key: RULES[key] for key in keys}, name, m_a_com={"host": "a.com"})
    url = f"http://m.a.com/{'/'.join(segments)}{'?' + '&'.join(params) if params else ''}"
    once = canonry.normalize(url, policy)
    assert canonry.normalize(once, policy) == once


@pytest.mark.parametrize(
    ("rules", "place"),
    [
        ({"drop_segments": [{"place": "top", "segment": "a"}]}, "overrides[0].drop_segments[0].place"),
        ({"drop_segments": [{"place": "last", "segment": "a/b"}]}, "overrides[0].drop_segments[0].segment"),
        ({"drop_segment_shapes": [{"place": "last", "shape": "abc"}]}, "overrides[0].drop_segment_shapes[0].shape"),
        ({"drop_query_params_below": [{"folder": "/a", "params": []}]}, "overrides[0].drop_query_params_below[0].folder"),
        ({"drop_query_params_at": [{"path": "a", "params": ["b"]}]}, "overrides[0].drop_query_params_at[0].path"),
        ({"drop_query_values": ["a=1&b=2"]}, "overrides[0].drop_query_values[0]"),
        ({"query_to_path": [{"path": "/a", "param": "b", "to": "/c"}]}, "overrides[0].query_to_path[0].to"),
        ({"query_to_path": [{"path": "a", "param": "b", "to": "/c/"}]}, "overrides[0].query_to_path[0].path"),
        ({"strip_trailing_slash": 1}, "overrides[0].strip_trailing_slash"),
        ({"scheme": "ftp"}, "overrides[0].scheme"),
        ({"host": "a.com"}, "overrides[0].host"),
        ({"rewrite_rules": [{"from_prefix": "https://a.com/a/", "to_prefix": "https://a.com/amp/a/"}],
          "drop_segments": [{"place": "first", "segment": "amp"}]}, "overrides[0].rewrite_rules[0]"),
    ],
)  # fmt: skip
def test_a_mistake_is_refused_with_its_place(rules: dict[str, Any], place: str) -> None:
    with pytest.raises(canonry.PolicyError) as caught:
        make_policy(rules)
    assert caught.value.place == place


def test_hosts_that_lead_to_each_other_are_refused_in_order() -> None:
    rewrites = [{"from_prefix": "https://c.com/", "to_prefix": "https://a.com/"}]
    with pytest.raises(canonry.PolicyError) as caught:
        make_policy(
            {"host": "b.com"}, b_com={"host": "c.com"}, c_com={"rewrite_rules": rewrites}, d_com={"host": "a.com"}
        )
    assert caught.value.place == "overrides"
    assert re.findall(r"[a-d]\.com", caught.value.reason) == ["a.com", "b.com", "c.com", "a.com"]


def test_hosts_that_lead_to_one_are_allowed() -> None:
    policy = make_policy({"host": "c.com"}, b_com={"host": "c.com"}, c_com={"host": "d.com"})
    assert (
        canonry.normalize("https://b.com/x", policy)
        == canonry.normalize("https://a.com/x", policy)
        == "https://d.com/x"
    )


def test_a_host_that_a_site_moves_back_is_refused() -> None:
    with pytest.raises(canonry.PolicyError):
        make_policy({}, "bookmark@2", www_youtube_com={"host": "m.youtube.com"})


def test_rewrites_that_shorten_the_path_or_leave_the_host_may_stand_beside_rules() -> None:
    rewrites = [
        {"from_prefix": "https://a.com/long/", "to_prefix": "https://a.com/"},
        {"from_prefix": "https://a.com/away/", "to_prefix": "https://b.com/from/a/"},
    ]
    policy = make_policy({"rewrite_rules": rewrites, "drop_segments": [{"place": "first", "segment": "amp"}]})
    assert canonry.normalize("https://a.com/amp/long/x", policy) == "https://a.com/x"
    assert canonry.normalize("https://a.com/away/x", policy) == "https://b.com/from/a/x"


def test_the_rules_need_the_format() -> None:
    with pytest.raises(canonry.PolicyError):
        canonry.policy("crawl@2").with_overrides(json.dumps({"overrides": [{"match": {"host": "a.com"}, **RULES}]}))


def test_what_the_c_code_cannot_hold_goes_to_the_reference() -> None:
    rules = {"drop_query_values": [f"a={'x' * 70_000}"], "drop_extensions": ["html"]}
    text = json.dumps({"format": "overrides.v1", "overrides": [{"match": {"host": "a.com"}, **rules}]})
    policy = canonry.policy("crawl@2").with_overrides(text)
    assert make_tables(policy) is None
    assert canonry.normalize("https://a.com/b.html?a=1", policy) == "https://a.com/b?a=1"
