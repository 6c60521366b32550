"""URLs to test with: real ones if CANONRY_REAL_URLS names a file, generated ones otherwise, and random ones."""

from __future__ import annotations

import functools
import string
from typing import TYPE_CHECKING

from benchmarks.corpus import make_dirty_urls, make_urls, read_real_urls

if TYPE_CHECKING:
    import random

POLICIES = (
    "feed-aggressive",
    "feed-moderate",
    "feed-conservative",
    "entry",
    "crawl",
    "article",
    "bookmark",
    "exact",
)
SEED_003_OVERRIDES = """{
  "overrides": [
    {
      "match": { "host": "example.com" },
      "drop_query_params": ["src", "partner"],
      "rewrite_rules": [
        { "from_prefix": "https://example.com/amp/", "to_prefix": "https://example.com/" }
      ]
    }
  ]
}"""
SCHEMES = ("http://", "https://", "HTTP://", "https:", "https:/", "https:\\\\", "  https://", "ht\ttps://")
USERS = ("", "", "", "", "user@", "User:Pa:ss@", ":@", "a%40b:c@", "@")
HOSTS = (
    "example.com", "www.example.com", "www.www.example.com", "www.com", "www.", "WWW.Example.COM", "example.com.",
    "www..com", "a_b.example", "münchen.de", "xn--mnchen-3ya.de", "XN--LS8H.la", "💩.la", "faß.de", "ex%61mple.com",
    "127.0.0.1", "0x7f.1", "2130706433", "[::1]", "[2001:DB8:0:0:0:0:0:1]", "localhost", "www.xn--ls8h.la", "h。com",
    "youtube.com", "www.youtube.com", "m.youtube.com", "www.m.youtube.com", "music.youtube.com", "youtu.be",
    "www.youtu.be", "www.youtube-nocookie.com", "x.com", "www.x.com", "twitter.com", "mobile.twitter.com",
    "feedproxy.google.com", "feeds2.feedburner.com", "www.feeds.feedburner.com", "b.blogspot.com", "b.blogspot.co.uk",
    "www.b.blogspot.de", "blogspot.com", "www.blogspot.com", ".blogspot.com", "open.spotify.com",
)  # fmt: skip
PORTS = ("", "", "", "", ":80", ":443", ":8080", ":", ":0080")
SEGMENTS = (
    "", "a", "b", "%7efoo", "%2F", "%2f", "%41", "%E9", "%e9", "%", "%%34%31", "%2%66", "%2%65%2e", "..", ".", "%2e",
    "%2E%2e", "a b", "é", "watch", "%77atch", "shorts", "embed", "live", "v", "playlist", "results", "videoseries",
    "dQw4w9WgXcQ", "u", "status", "Status", "20", "photo", "1", "mediaViewer", "rss.xml", "atom.xml", "feeds", "posts",
    "default", "amp", "index.html", "a;v=1", "a:b@c", "a^b{c}|`", "100%", "caf%C3%A9", "\\", "x" * 30,
)  # fmt: skip
NAMES = (
    "a", "b", "A", "id", "q", "utm_source", "UTM_Medium", "utm%5Fid", "fbclid", "ref", "source", "v", "%76", "list",
    "index", "t", "start", "s", "si", "alt", "format", "max-results", "redirect", "orderby", "", "é", "%E9", "a%3D1",
)  # fmt: skip
VALUES = ("", "=", "=1", "=2", "=a+b", "=a%20b", "=%E9", "=%2541", "=xml", "=rss", "=atom", "=json", "=x=y", "=%", "='")
FRAGMENTS = ("", "", "", "#", "#top", "#!/a", "#/a", "#a:~:text=b", "#/a:~:text=b", "# x", "#%zz", "#a#b")

ODD = "\x00\x01\t\n\x7f\x85\xa0\xad\u200b\u200d\u2028\u3002\ufeff\uff0e\uff10\ud800\udfff\U0001f4a9éßΣاä"
ALPHABETS = (string.printable, ODD + "/:?#@%.[]", "%0123456789abcdefABCDEF/.", "/\\?#@:.[]&=;+%www")
TEXT_STARTS = (
    "",
    "http://",
    "https://",
    "https://a.com/",
    "https://www.youtube.com/",
    "https://b.blogspot.",
    "//",
    "http:",
)


def build_url(choose: random.Random) -> str:
    """Build a URL from awkward pieces."""
    path = "".join(f"/{choose.choice(SEGMENTS)}" for _ in range(choose.randrange(5)))
    params = [choose.choice(NAMES) + choose.choice(VALUES) for _ in range(choose.randrange(5))]
    query = choose.choice(("", "?")) if not params else "?" + "&".join(params)
    authority = choose.choice(USERS) + choose.choice(HOSTS) + choose.choice(PORTS)
    return choose.choice(SCHEMES) + authority + path + query + choose.choice(FRAGMENTS)


def mutate_url(choose: random.Random, url: str) -> str:
    """Drop, double or replace a few characters of a URL."""
    text = list(url)
    for _ in range(choose.randrange(1, 4)):
        at = choose.randrange(len(text) + 1)
        text[at : at + choose.randrange(3)] = choose.choice(
            ("%", "/", "//", "?", "&", "#", ".", "www.", "%2", "é", "\t", " ", "A", ":", "@", "\\", "=", "%41")
        )
    return "".join(text)


def make_random_text(choose: random.Random) -> str:
    """Make a text that is rarely a valid URL."""
    alphabet = choose.choice(ALPHABETS)
    return choose.choice(TEXT_STARTS) + "".join(choose.choices(alphabet, k=choose.randrange(24)))


@functools.cache
def get_real_or_generated_urls() -> list[str]:
    """Return the real URLs if there are any, otherwise 50,000 generated ones."""
    return read_real_urls() or make_urls(48_000) + make_dirty_urls(2_000)


def has_real_urls() -> bool:
    return read_real_urls() is not None


def describe_corpus() -> str:
    """Describe the corpus in use, for the header of the test report."""
    return (
        "present" if has_real_urls() else "absent; generated URLs are used (set CANONRY_REAL_URLS=FILE for real ones)"
    )
