"""contract C2, C3: crawl, external or skip, and why."""

from __future__ import annotations

import pytest

import canonry

PAGE, SEED = "https://example.com/dir/page?q=1", "https://example.com/"
EXTENSIONS = "pdf jpg jpeg png gif svg webp css js ico zip tar gz mp4 mov avi mp3 wav".split()
CASES = [
    # href, verdict, part of the reason, normalized url
    ("next", "crawl", "on example.com", "https://example.com/dir/next"),
    ("/about/", "crawl", "on example.com", "https://example.com/about"),
    ("HTTP://EXAMPLE.com:80/a#x", "crawl", "on example.com", "http://example.com/a"),
    ("https://example.com:8443/a", "crawl", "on example.com", "https://example.com:8443/a"),
    ("?q=2", "crawl", "on example.com", "https://example.com/dir/page?q=2"),
    ("//example.com/x", "crawl", "on example.com", "https://example.com/x"),
    ("http://example.com/dir/page?q=1", "crawl", "on example.com", "http://example.com/dir/page?q=1"),
    ("https://www.example.com/", "external", "host www.example.com is not example.com", "https://www.example.com/"),
    ("https://sub.example.com/", "external", "host sub.example.com is not example.com", "https://sub.example.com/"),
    ("https://example.org/a/", "external", "host example.org is not example.com", "https://example.org/a"),
    ("", "skip", "the link is empty", None),
    (" \n", "skip", "the link is empty", None),
    ("#top", "skip", "a place on the same page", None),
    (" #", "skip", "a place on the same page", None),
    ("page?q=1", "skip", "the page itself", "https://example.com/dir/page?q=1"),
    ("https://example.com/dir/page/?q=1#x", "skip", "the page itself", "https://example.com/dir/page?q=1"),
    ("mailto:a@b.c", "skip", "scheme mailto:", None),
    ("tel:123", "skip", "scheme tel:", None),
    ("JavaScript:alert(1)", "skip", "scheme javascript:", None),
    ("java\tscript:alert(1)", "skip", "scheme javascript:", None),
    ("data:text/html,x", "skip", "scheme data:", None),
    ("ftp://example.com/", "skip", "scheme ftp:", None),
    ("file:///etc/passwd", "skip", "scheme file:", None),
    ("https://[", "skip", "leads nowhere", None),
    ("\ud800", "skip", "leads nowhere", None),
    ("/a.pdf.html", "crawl", "on example.com", "https://example.com/a.pdf.html"),
    ("/pdf", "crawl", "on example.com", "https://example.com/pdf"),
    ("/x.pdf/y", "crawl", "on example.com", "https://example.com/x.pdf/y"),
    ("/view?file=a.pdf", "crawl", "on example.com", "https://example.com/view?file=a.pdf"),
    ("/a.tar.gz", "skip", "a .gz file", "https://example.com/a.tar.gz"),
    ("/a.%70df", "skip", "a .pdf file", "https://example.com/a.pdf"),
    ("https://other.org/a.PNG?x=1#y", "skip", "a .png file", "https://other.org/a.PNG?x=1"),
    *((f"/a.{extension.upper()}?v=1", "skip", f"a .{extension} file", f"https://example.com/a.{extension.upper()}?v=1") for extension in EXTENSIONS),
]  # fmt: skip


@pytest.mark.parametrize(("href", "verdict", "reason", "url"), CASES)
def test_judge_link(href: str, verdict: str, reason: str, url: str | None) -> None:
    judged = canonry.judge_link(href, PAGE, SEED)
    assert (judged.verdict, judged.url) == (verdict, url)
    assert reason in judged.reason


def test_www_of_the_seed_counts() -> None:
    seed = "https://www.example.com/"
    assert canonry.judge_link("https://www.example.com/a", seed, seed).verdict == "crawl"
    assert canonry.judge_link("https://example.com/a", seed, seed).verdict == "external"


def test_a_bad_page_or_seed_is_the_callers_mistake() -> None:
    with pytest.raises(canonry.InvalidUrl):
        canonry.judge_link("a", "nope", SEED)
    with pytest.raises(canonry.InvalidUrl):
        canonry.judge_link("a", PAGE, "nope")
