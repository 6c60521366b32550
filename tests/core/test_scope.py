"""contract C2, C3: the verdict on each link, and the rule that decided it."""

from __future__ import annotations

import pytest

import canonry
from canonry.core.scope import LinkRule, judge_target

PAGE, SEED = "https://example.com/dir/page?q=1", "https://example.com/"
EXTENSIONS = "pdf jpg jpeg png gif svg webp css js ico zip tar gz mp4 mov avi mp3 wav".split()
CASES = [
    # href, verdict, rule, normalized url
    ("next", "crawl", "same_host", "https://example.com/dir/next"),
    ("/about/", "crawl", "same_host", "https://example.com/about"),
    ("HTTP://EXAMPLE.com:80/a#x", "crawl", "same_host", "http://example.com/a"),
    ("https://example.com:8443/a", "crawl", "same_host", "https://example.com:8443/a"),
    ("?q=2", "crawl", "same_host", "https://example.com/dir/page?q=2"),
    ("//example.com/x", "crawl", "same_host", "https://example.com/x"),
    ("http://example.com/dir/page?q=1", "crawl", "same_host", "http://example.com/dir/page?q=1"),
    ("https://www.example.com/", "external", "other_host", "https://www.example.com/"),
    ("https://sub.example.com/", "external", "other_host", "https://sub.example.com/"),
    ("https://example.org/a/", "external", "other_host", "https://example.org/a"),
    ("", "skip", "empty", None),
    (" \n", "skip", "empty", None),
    ("#top", "skip", "fragment_only", None),
    (" #", "skip", "fragment_only", None),
    ("page?q=1", "skip", "page_itself", "https://example.com/dir/page?q=1"),
    ("https://example.com/dir/page/?q=1#x", "skip", "page_itself", "https://example.com/dir/page?q=1"),
    ("mailto:a@b.c", "skip", "not_http", None),
    ("tel:123", "skip", "not_http", None),
    ("JavaScript:alert(1)", "skip", "not_http", None),
    ("java\tscript:alert(1)", "skip", "not_http", None),
    ("data:text/html,x", "skip", "not_http", None),
    ("ftp://example.com/", "skip", "not_http", None),
    ("file:///etc/passwd", "skip", "not_http", None),
    ("https://[", "skip", "invalid_url", None),
    ("\ud800", "skip", "invalid_url", None),
    ("/a.pdf.html", "crawl", "same_host", "https://example.com/a.pdf.html"),
    ("/pdf", "crawl", "same_host", "https://example.com/pdf"),
    ("/x.pdf/y", "crawl", "same_host", "https://example.com/x.pdf/y"),
    ("/tags/node.js/", "crawl", "same_host", "https://example.com/tags/node.js"),
    ("/tags/node.js//?page=2#x", "crawl", "same_host", "https://example.com/tags/node.js?page=2"),
    ("/tags/node.js/.", "crawl", "same_host", "https://example.com/tags/node.js"),
    ("/a.js?next=/", "skip", "file_extension", "https://example.com/a.js?next=/"),
    ("/a.js#/", "skip", "file_extension", "https://example.com/a.js"),
    ("https://other.org/logo.svg/", "external", "other_host", "https://other.org/logo.svg"),
    *((f"/a.{extension}/", "crawl", "same_host", f"https://example.com/a.{extension}") for extension in EXTENSIONS),
    ("/view?file=a.pdf", "crawl", "same_host", "https://example.com/view?file=a.pdf"),
    ("/a.tar.gz", "skip", "file_extension", "https://example.com/a.tar.gz"),
    ("/a.%70df", "skip", "file_extension", "https://example.com/a.pdf"),
    ("https://other.org/a.PNG?x=1#y", "skip", "file_extension", "https://other.org/a.PNG?x=1"),
    *((f"/a.{extension.upper()}?v=1", "skip", "file_extension", f"https://example.com/a.{extension.upper()}?v=1") for extension in EXTENSIONS),
]  # fmt: skip


@pytest.mark.parametrize(("href", "verdict", "rule", "url"), CASES)
def test_a_link_gets_its_verdict_rule_and_url(href: str, verdict: str, rule: str, url: str | None) -> None:
    judged = canonry.judge_link(href, PAGE, SEED)
    assert (judged.verdict, judged.rule, judged.url) == (verdict, rule, url)


# A row for every rule.
SENTENCES = [
    ("next", "on example.com"),
    ("https://www.example.com/", "host www.example.com is not example.com"),
    ("", "the link is empty"),
    ("#top", "links to a fragment of the same page"),
    ("page?q=1", "links to the page itself"),
    ("mailto:a@b.c", "scheme mailto: is not http or https"),
    ("/a.PDF", "a .pdf file is not a page"),
    ("https://[", f"cannot be resolved against {PAGE}"),
]


@pytest.mark.parametrize(("href", "reason"), SENTENCES)
def test_the_reason_names_what_decided(href: str, reason: str) -> None:
    assert canonry.judge_link(href, PAGE, SEED).reason == reason


def test_every_rule_has_a_row() -> None:
    assert {canonry.judge_link(href, PAGE, SEED).rule for href, _ in SENTENCES} == set(LinkRule) - {
        LinkRule.LEFT_OUT,
        LinkRule.NOFOLLOW_LINK,
        LinkRule.NOFOLLOW_PAGE,
    }, "patterns and nofollow are of a crawl"


def test_an_absolute_url_that_cannot_be_parsed_is_skipped() -> None:
    judged = judge_target("https://a b/", page="", host="example.com")
    assert (judged.verdict, judged.rule, judged.url) == ("skip", "invalid_url", None)


def test_a_host_with_www_differs_from_one_without() -> None:
    seed = "https://www.example.com/"
    assert canonry.judge_link("https://www.example.com/a", seed, seed).verdict == "crawl"
    assert canonry.judge_link("https://example.com/a", seed, seed).verdict == "external"


def test_an_invalid_page_or_seed_raises_invalid_url() -> None:
    with pytest.raises(canonry.InvalidUrl):
        canonry.judge_link("a", "nope", SEED)
    with pytest.raises(canonry.InvalidUrl):
        canonry.judge_link("a", PAGE, "nope")
