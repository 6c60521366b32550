"""URLs that a server makes for one request or one visitor, and those that look like them (contract F3)."""

from __future__ import annotations

import pytest

from canonry.net.transient_urls import is_transient

# fmt: off
CASES = [
    # why                             URL                                                                      transient
    ("Java session",                  "https://a.com/feed;jsessionid=1A2B",                                    True),
    ("Java session, upper case",      "https://a.com/feed;JSESSIONID=1A2B?x=1",                                True),
    ("PHP session",                   "https://a.com/feed?id=1&PHPSESSID=abc",                                 True),
    ("ASP.NET session in the path",   "https://a.com/(S(lit3py55t21z5v55vlm25s55))/feed.aspx",                 True),
    ("signed, S3",                    "https://b.s3.amazonaws.com/f?X-Amz-Expires=60&X-Amz-Signature=aa",      True),
    ("signed, S3, old",               "https://b.s3.amazonaws.com/f?AWSAccessKeyId=A&Expires=1&Signature=aa",  True),
    ("signed, CloudFront",            "https://d1.cloudfront.net/f?Expires=1&Signature=a&Key-Pair-Id=K",       True),
    ("signed, Google",                "https://storage.googleapis.com/b/f?X-Goog-Signature=aa",                True),
    ("signed, Azure",                 "https://x.blob.core.windows.net/f?sv=1&se=2026-01-01&sig=a%2Bb",        True),
    ("signed, Bunny",                 "https://x.b-cdn.net/f.xml?token=aa&expires=1700000000",                 True),
    ("a private feed is no session",  "https://a.com/feed?token=abc",                                          False),
    ("a signature without an end",    "https://a.com/feed?sig=abc",                                            False),
    ("an end without a signature",    "https://a.com/feed?expires=never",                                      False),
    ("section id",                    "https://a.com/feed?sid=5",                                              False),
    ("another path parameter",        "https://a.com/feed;v=2",                                                False),
    ("plain",                         "https://a.com/feed",                                                    False),
]
# fmt: on


@pytest.mark.parametrize(("url", "wanted"), [pytest.param(*row[1:], id=row[0]) for row in CASES])
def test_which_urls_are_made_for_one_request(url: str, *, wanted: bool) -> None:
    assert is_transient(url) is wanted
