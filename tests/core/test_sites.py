"""contract N8: the URLs that site rules merge, and those that must stay apart."""

from __future__ import annotations

import pytest

import canonry
from canonry.core.policy import Policy

WATCH = "https://www.youtube.com/watch?v=dQw4w9WgXcQ"
POST = "https://x.com/jack/status/20"
BLOG = "https://b.blogspot.com/feeds/posts/default"
# No other rule is on, so each change is made by the site rule.
SITES = Policy("sites", 1, sites=["youtube@1", "x@1", "feedburner@1", "blogger@1"])
CASES = [
    # given, wanted
    *((f"https://{host}/watch?v=dQw4w9WgXcQ", WATCH) for host in (
        "youtube.com", "www.youtube.com", "www.www.youtube.com", "m.youtube.com", "www.m.youtube.com",
        "music.youtube.com", "www.music.youtube.com", "youtube-nocookie.com", "www.youtube-nocookie.com", "youtu.be",
    )),
    ("https://youtu.be/dQw4w9WgXcQ", WATCH),
    ("https://www.youtu.be/dQw4w9WgXcQ/", WATCH),
    ("https://youtu.be//dQw4w9WgXcQ?si=x", WATCH),
    ("https://youtu.be/dQw4w9WgXcQ?v=other&t=5", WATCH + "&t=5"),
    ("https://youtu.be/%64Qw4w9WgXcQ", WATCH),
    ("https://youtu.be/", "https://www.youtube.com/"),
    ("https://youtu.be/playlist?list=PL1&si=x", "https://www.youtube.com/playlist?list=PL1&si=x"),
    ("https://youtu.be/shorts/dQw4w9WgXcQ", WATCH),
    *((f"https://m.youtube.com/{folder}/dQw4w9WgXcQ", WATCH) for folder in ("shorts", "embed", "live", "v", "/v/")),
    ("https://www.youtube.com/shorts/dQw4w9WgXcQ/?v=x&feature=share", WATCH),
    ("https://www.youtube.com//watch/?v=dQw4w9WgXcQ", WATCH),
    ("https://www.youtube.com/%77atch?v=dQw4w9WgXcQ&pp=1", WATCH),
    ("https://www.youtube.com/watch?feature=x&v=a&list=b&index=1&t=2&app=z", "https://www.youtube.com/watch?v=a&list=b&index=1&t=2"),
    ("https://www.youtube.com/watch?%76=a&V=b", "https://www.youtube.com/watch?v=a"),
    ("https://www.youtube.com/embed/dQw4w9WgXcQ?start=30&autoplay=1", WATCH + "&t=30"),
    ("https://www.youtube.com/watch?v=a&start=3&start=4", "https://www.youtube.com/watch?v=a&t=3"),
    ("https://www.youtube.com/watch?v=a&start=3&t=4", "https://www.youtube.com/watch?v=a&t=4"),
    ("https://www.youtube.com/watch?feature=x", "https://www.youtube.com/watch"),
    ("https://www.youtube.com/watch", "https://www.youtube.com/watch"),
    ("https://music.youtube.com/playlist/?list=PL1", "https://www.youtube.com/playlist?list=PL1"),
    ("https://m.youtube.com/@user/videos?view=0", "https://www.youtube.com/@user/videos?view=0"),
    ("https://youtube-nocookie.com/embed/videoseries?list=PL1", "https://www.youtube.com/embed/videoseries?list=PL1"),
    *((f"https://{host}/jack/status/20", POST) for host in (
        "x.com", "www.x.com", "mobile.x.com", "m.x.com", "twitter.com", "www.twitter.com", "mobile.twitter.com", "m.twitter.com",
    )),
    ("https://x.com/jack/Status/20/MediaViewer?currentTweet=20&currentTweetUser=jack", POST),
    ("https://x.com/jack/status/20/mediaviewer/x", POST),
    ("https://x.com/jack/status/20/photo/1", POST),
    ("https://x.com/jack/STATUS/20/Video/2/?s=20&t=abc&ref_src=twsrc", POST),
    ("https://x.com//jack/st%61tus/20/?S=1&lang=en", POST + "?lang=en"),
    ("https://twitter.com/search?q=a&s=1&t=2", "https://x.com/search?q=a&s=1&t=2"),
    ("http://feedproxy.google.com/Blog?format=xml", "http://feeds.feedburner.com/Blog"),
    ("http://feeds2.feedburner.com/Blog?format=XML&x=1", "http://feeds.feedburner.com/Blog?x=1"),
    ("http://www.feeds.feedburner.com/Blog", "http://feeds.feedburner.com/Blog"),
    ("http://feeds.feedburner.com/Blog?format=sigpro", "http://feeds.feedburner.com/Blog?format=sigpro"),
    ("http://b.blogspot.com/atom.xml", BLOG),
    ("http://b.blogspot.com:443/atom.xml", BLOG),
    ("http://b.blogspot.com:8080/x", "https://b.blogspot.com:8080/x"),
    ("https://www.b.blogspot.de//atom.xml/?redirect=false", BLOG),
    ("https://b.blogspot.co.uk/rss.xml", BLOG + "?alt=rss"),
    ("https://b.blogspot.com.br/rss.xml?alt=atom&x=1", BLOG + "?alt=rss&x=1"),
    ("https://b.blogspot.com/feeds/posts/default/?alt=json&max-results=5&orderby=updated&v=2", BLOG),
    ("https://b.blogspot.com/feeds/posts/default?alt=rss", BLOG + "?alt=rss"),
    ("https://b.blogspot.com/feeds/comments/default?alt=atom", "https://b.blogspot.com/feeds/comments/default"),
    ("http://b.blogspot.in/2020/01/post.html?v=1", "https://b.blogspot.com/2020/01/post.html?v=1"),
]  # fmt: skip
STAYS = [
    "https://youtu.be/watching-this-is-too-long",
    "https://youtu.be/c/channel",
    "https://youtu.be/live_stream",
    "https://music.youtube.com/channel/abc",
    "https://www.youtube.com/results?search_query=a",
    "https://www.youtube.com/redirect?q=https%3A%2F%2Fa.com",
    "https://www.youtube.com/shorts/",
    "https://www.youtube.com/shorts/aaaaaaaaaaaaaaaaaaaaa",
    "https://www.youtube.com/shorts/abc/def",
    "https://www.youtube.com/embed/live_stream?channel=a",
    "https://www.youtube.com/embed/videoseries?list=a",
    "https://www.youtube.com/v/a&b",
    "https://www.youtube.com/user/abc",
    "https://studio.youtube.com/watch?v=a",
    "https://notyoutube.com/watch?v=a&x=1",
    "https://x.com/jack?s=20&t=1",
    "https://x.com/jack/status/abc?s=20",
    "https://x.com/i/web/status/20?s=20",
    "https://x.com/jack/status/20/likes?s=1",
    "https://x.com/jack/status/20/photo/x",
    "https://api.twitter.com/jack/status/20?s=20",
    "https://blogspot.com/atom.xml",
    "https://www.blogspot.com/atom.xml",
    "https://b.blogspot.example/atom.xml",
    "https://a.b.blogspot.com/atom.xml",
    "https://.blogspot.com/atom.xml",
    "https://www.youtube.com./watch?v=a&x=1",
]


@pytest.mark.parametrize(("given", "wanted"), CASES)
def test_site_rules_merge(given: str, wanted: str) -> None:
    assert canonry.normalize(given, SITES) == wanted
    assert canonry.normalize(wanted, SITES) == wanted
    with_www = SITES.with_rules("strip_www", "normalize_escapes", "collapse_slashes", "strip_trailing_slash")
    once = canonry.normalize(given, with_www)
    assert canonry.normalize(once, with_www) == once
    assert canonry.normalize(wanted, with_www) == once


@pytest.mark.parametrize("url", STAYS)
def test_site_rules_leave_alone(url: str) -> None:
    assert canonry.normalize(url, SITES) == url


def test_www_of_a_target_stays_under_a_policy_that_strips_www() -> None:
    policy = SITES.with_rules("strip_www")
    assert canonry.normalize("https://youtu.be/abc", policy) == "https://www.youtube.com/watch?v=abc"
    assert canonry.normalize("https://www.youtube.com/", policy) == "https://www.youtube.com/"
    assert canonry.normalize("https://www.youtube.com/", Policy("w", 1, strip_www=True)) == "https://youtube.com/"


def test_a_site_that_the_policy_leaves_out_is_not_changed() -> None:
    assert canonry.normalize("https://youtu.be/abc", SITES.without_sites("youtube")) == "https://youtu.be/abc"
    assert canonry.normalize("https://youtu.be/abc", "feed-aggressive") == "https://youtu.be/abc"
    assert canonry.normalize("http://b.blogspot.de/", "bookmark@1") == "http://b.blogspot.de/"


def test_a_redirect_page_of_a_table_may_lead_to_a_mirror_of_a_first_version() -> None:
    policy = Policy("both", 1, sites=["youtube@1", "x@1", "blogger@1", "facebook@1", "webarchive@1"])
    for target, wanted in (
        ("https%3A%2F%2Fyoutu.be%2FdQw4w9WgXcQ", WATCH),
        ("https%3A%2F%2Fyoutu.be%2F", "https://www.youtube.com/"),
        ("https%3A%2F%2Fmobile.twitter.com%2Fjack%2Fstatus%2F20", POST),
        ("http%3A%2F%2Fb.blogspot.de%2Fatom.xml", BLOG),
    ):
        assert canonry.normalize(f"https://l.facebook.com/l.php?u={target}", policy) == wanted
    archived = "https://web.archive.org/web/2020/https://youtu.be/dQw4w9WgXcQ"
    assert canonry.normalize(archived, policy) == archived
