"""contract F14: the address under which WordPress serves the same feed."""

from __future__ import annotations

import pytest

from canonry.feeds.canonicalize.probes import probe_wordpress


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("https://a.com/?feed=rss2", "https://a.com/feed/"),
        ("https://a.com/?feed=feed", "https://a.com/feed/"),
        ("https://a.com/?feed=ATOM", "https://a.com/feed/atom/"),
        ("https://a.com/?feed=rss", "https://a.com/feed/rss/"),
        ("https://a.com/?feed=rdf#x", "https://a.com/feed/rdf/"),
        ("https://a.com/?feed=comments-rss2", "https://a.com/comments/feed/"),
        ("https://a.com/blog/?cat=5&feed=rss2&tag=x", "https://a.com/blog/feed/?cat=5&tag=x"),
        ("https://me:pw@a.com:8080/blog/index.php?feed=rss2", "https://me:pw@a.com:8080/blog/feed/"),
        # the path names the feed already
        ("https://a.com/blog/feed/?feed=rss2", "https://a.com/blog/feed/"),
        ("https://a.com/blog/feed?feed=rss2&cat=5", "https://a.com/blog/feed/?cat=5"),
        ("https://a.com/feed/?feed=atom", "https://a.com/feed/atom/"),
        ("https://a.com/feed/atom/?feed=atom", "https://a.com/feed/atom/"),
        ("https://a.com/feed/rss2/?feed=rss", "https://a.com/feed/rss/"),
        ("https://a.com/comments/feed/?feed=comments-atom", "https://a.com/comments/feed/atom/"),
        ("https://a.com/comments/feed/?feed=rss2", None),
        ("https://a.com/feed/?feed=comments-rss2", None),
        ("https://a.com/newsfeed/?feed=rss2", "https://a.com/newsfeed/feed/"),
        # not WordPress, or not one feed
        ("https://a.com/", None),
        ("https://a.com/?feed=", None),
        ("https://a.com/?feed", None),
        ("https://a.com/?feed=posts", None),
        ("https://a.com/?feed=rss2&feed=atom", None),
        ("https://a.com/feed.php?feed=rss2", None),
        ("https://a.com/?myfeed=rss2", None),
    ],
)
def test_the_other_address_of_a_wordpress_feed(url: str, wanted: str | None) -> None:
    assert probe_wordpress(url) == wanted
