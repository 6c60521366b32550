"""contract N9, N10: the steps of a normalization, and the difference between policies."""

from __future__ import annotations

import itertools

import pytest

import canonry
from canonry.core.catalog import RULE_DESCRIPTIONS
from canonry.core.explain import explain_text
from canonry.core.normalize import RULES
from canonry.core.policy import Policy
from canonry.core.policy_diff import KeyChange, KeyGroup, diff_policies
from corpora import SEED_003_OVERRIDES

EVERYTHING = Policy(
    "everything", 1, strip_www=True, strip_auth=True, normalize_escapes=True, collapse_slashes=True,
    strip_trailing_slash=True, sort_params=True, fragment="drop", sites=["youtube"], strip_params=["utm_*"],
).with_overrides(SEED_003_OVERRIDES)  # fmt: skip


def test_steps_follow_the_order_of_the_rules() -> None:
    explanation = canonry.explain("HTTPS://u:p@www.example.com//amp//%7ea/?b=1&utm_x=1&a=2&src=3#x", EVERYTHING)
    assert [step.rule for step in explanation.steps] == [
        "parse", "strip_www", "strip_auth", "normalize_escapes", "collapse_slashes", "strip_trailing_slash",
        "strip_params", "sort_params", "fragment", "overrides",
    ]  # fmt: skip
    assert explanation.url == "https://example.com/~a?a=2&b=1"
    assert explanation.policy == EVERYTHING.id
    video = canonry.explain("https://m.youtube.com/shorts/a/", EVERYTHING)
    assert [step.rule for step in video.steps] == ["site_host", "strip_trailing_slash", "site_path"]


def test_the_first_step_for_typed_text_is_read_url() -> None:
    explanation = explain_text(" example.com/?utm_id=1", "bookmark")
    assert [step.rule for step in explanation.steps] == ["read_url", "strip_params"]
    assert explanation.steps[0].after == explanation.steps[1].before == "https://example.com/?utm_id=1"
    assert explain_text("https://example.com/?utm_id=1").steps == explanation.steps[1:]


def test_steps_form_a_chain() -> None:
    url = " HTTPS://www.example.com/amp/x..//?b&a"
    steps = canonry.explain(url, EVERYTHING).steps
    assert steps[0].before == url
    for step, following in itertools.pairwise(steps):
        assert step.after == following.before
    assert all(step.before != step.after and step.reason for step in steps)


def test_an_unchanged_url_has_no_steps() -> None:
    assert canonry.explain("https://example.com/", EVERYTHING).steps == ()
    assert canonry.explain("HTTPS://a.com", "exact") == canonry.Explanation("HTTPS://a.com", "exact@1", ())


REASONS = [
    # given, rule, sentence
    ("HTTPS://a.com/", "parse", "parsed as browsers do: scheme in lower case"),
    ("https://A.com/", "parse", "parsed as browsers do: host in lower case"),
    ("https://bücher.de/", "parse", "parsed as browsers do: host in its ASCII form"),
    (" https://a.com/\n", "parse", "parsed as browsers do: surrounding spaces removed"),
    ("https://a.com/\tb", "parse", "parsed as browsers do: tabs and line breaks removed"),
    ("https://a.com:443/", "parse", "parsed as browsers do: default port dropped"),
    ("https://a.com\\b", "parse", "parsed as browsers do: backslashes read as slashes"),
    ("https://a.com/b/../c", "parse", "parsed as browsers do: dot segments resolved"),
    ("https://a.com", "parse", "parsed as browsers do: empty path set to /"),
    ("https://a.com/é", "parse", "parsed as browsers do: characters percent-encoded"),
    ("https://a.com/{", "parse", "parsed as browsers do: characters percent-encoded"),
    ("https://a.com/?", "parse", "parsed as browsers do: empty query dropped"),
    ("https://a.com/#", "parse", "parsed as browsers do: empty fragment dropped"),
    ("https:a.com/b", "parse", "parsed as browsers do"),
    ("https://www.example.com/", "strip_www", "this policy treats www.example.com and example.com as one host"),
    ("https://youtu.be/a", "site_host", "youtu.be is a mirror of www.youtube.com"),
    (
        "https://www.youtube.com/v/a",
        "site_path",
        "www.youtube.com has several URLs for this page; this is the main one",
    ),
    (
        "https://a.com/?utm_x=1&b&b&&UTM_y",
        "strip_params",
        "dropped parameters that do not select content: utm_x, UTM_y",
    ),
    ("https://example.com/?src=1", "overrides", "the overrides file has rules for example.com"),
    ("https://u@a.com/", "strip_auth", "user name and password do not select content"),
    ("https://a.com/#b", "fragment", "the fragment is not sent to the server"),
    ("https://a.com/#:~:text=b", "fragment", "a text directive (:~:) only marks words on the page"),
]


@pytest.mark.parametrize(("given", "rule", "sentence"), REASONS)
def test_each_step_has_a_reason(given: str, rule: str, sentence: str) -> None:
    assert (rule, sentence) in [(step.rule, step.reason) for step in canonry.explain(given, EVERYTHING).steps]


def test_the_examples_of_the_catalog_hold() -> None:
    assert tuple(note.rule for note in RULE_DESCRIPTIONS) == RULES
    policy = EVERYTHING.with_sites("x", "feedburner", "blogger").with_params("fbclid")
    for note in RULE_DESCRIPTIONS:
        explanation = canonry.explain(note.before, policy)
        assert note.rule in [step.rule for step in explanation.steps]
        assert explanation.url == canonry.normalize(note.after, policy)
        if note.rule not in ("site_path", "overrides"):
            assert explanation.url == note.after


def test_diff_counts_changes_merges_and_splits() -> None:
    urls = ["https://a.com/b/", "https://a.com/b", "https://a.com/c#1", "https://a.com/c#2", "nope", "https://a.com/d"]
    diff = diff_policies("bookmark", "crawl", urls)
    assert (diff.before, diff.after) == ("bookmark@2", "crawl@2")
    assert (diff.urls, diff.refused, diff.changed, diff.merged, diff.split) == (6, 1, 3, 2, 0)
    assert diff.changes[0] == KeyChange("https://a.com/b/", "https://a.com/b/", "https://a.com/b")
    assert diff.merges[0] == KeyGroup("https://a.com/b", ("https://a.com/b", "https://a.com/b/"))
    back = diff_policies("crawl", "bookmark", urls, examples=1)
    assert (back.merged, back.split, len(back.splits), len(back.changes)) == (0, 2, 1, 1)
    assert back.splits == [KeyGroup("https://a.com/b", ("https://a.com/b", "https://a.com/b/"))]
