"""Credentials are masked in every spelling of a URL, valid or not (contract G3)."""

from __future__ import annotations

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from canonry.core.url import parse
from canonry.errors import InvalidUrl, mask_credentials

SECRET = "s3cret"
CASES = [
    # given                                       shown
    ("https://user:s3cret@example.com/a@b",       "https://***@example.com/a@b"),
    ("https://user:p@s3cret@example.com/",        "https://***@example.com/"),
    ("https://us er:s3 cret@example.com/",        "https://***@example.com/"),
    ("ht\ntp://user:s3\tcret@example.com/",       "ht\ntp://***@example.com/"),
    ("http:/\t/user:s3cret@example.com/",         "http:/\t/***@example.com/"),
    ("HTTP:\\\\user:s3cret@example.com/",         "HTTP:\\\\***@example.com/"),
    ("https:user:s3cret@example.com/",            "https:***@example.com/"),
    ("feed:https://user:s3cret@example.com/",     "feed:https://***@example.com/"),
    ("feed://user:s3cret@example.com/",           "feed://***@example.com/"),
    ("http://user:s3c/ret@example.com/x",         "http://***@example.com/x"),
    ("http://user:s3c?ret#x@example.com/x",       "http://***@example.com/x"),
    ("http://user:s3cret\\@example.com/",         "http://***@example.com/"),
    ("http://us%40er:s3cret@example.com/",        "http://***@example.com/"),
    ("/?u=https%3A%2F%2Fme%3As3cret%40e.com%2Fa", "/?u=https%3A%2F%2F***%40e.com%2Fa"),
    ("/?u=https%253a%252f%252fme%253as3cret%2540e.com", "/?u=https%253a%252f%252f***%2540e.com"),
    ("a http://u:s3cret@b.com/ and http://v:s3cret@c.com/", "a http://***@b.com/ and http://***@c.com/"),
    # Not credentials.
    ("https://example.com/@user/post",            "https://example.com/@user/post"),
    ("https://example.com:8080/a@b",              "https://example.com:8080/a@b"),
    ("http://[::1]:80/a@b",                       "http://[::1]:80/a@b"),
    ("http://[::1]/a@b?c@d#e@f",                  "http://[::1]/a@b?c@d#e@f"),
    ("https://a.com: see http://b.com/@user/x",   "https://a.com: see http://b.com/@user/x"),
    ("write to ada@example.com",                  "write to ada@example.com"),
    ("/?mail=ada%40example.com",                  "/?mail=ada%40example.com"),
]  # fmt: skip


@pytest.mark.parametrize(("given_text", "shown"), CASES)
def test_credentials_are_masked_and_nothing_else(given_text: str, shown: str) -> None:
    assert mask_credentials(given_text) == shown
    assert mask_credentials(shown) == shown, "masking twice changes nothing"


NOISE = st.text(st.sampled_from(" \t\n\r@:%/\\?#[]'\"&;=+.,ab1\u3000\uff20é"), max_size=6)
SCHEMES = st.sampled_from(
    ["http", "HTTPS", "ht\ntps", "feed", "feed:https", "ftp", "ws", "postgresql+psycopg", "redis"]
)
SLASHES = st.sampled_from(["//", "/", "\\\\", "/\\", "///", "/\t/", "\n//", "// "])


@given(SCHEMES, SLASHES, NOISE, NOISE, NOISE, st.sampled_from(["/", "/a@b", "?x=1@2", "#x", ""]))
@example("http", "//", "a", "", "/", "/")
@settings(max_examples=500)
def test_a_password_is_never_shown(scheme: str, slashes: str, user: str, before: str, after: str, rest: str) -> None:
    """If a browser reads the secret as a password, or the URL is invalid, the secret is masked."""
    text = f"{scheme}:{slashes}{user}:{before}{SECRET}{after}@example.com{rest}"
    try:
        parts = parse(text.strip())
    except InvalidUrl:
        # Such a URL has no user and password for a browser. It is masked if only slashes in the password spoil it.
        assume(not set("/?#\\]@:") & set(user + before) and not set(" \t\r\n:@[]\u3000") & set(after))
    else:
        assume(SECRET in (parts.userinfo or ""))
    assert SECRET not in mask_credentials(text)
    assert SECRET not in mask_credentials(f"could not fetch {text}: why")


@given(st.text(st.sampled_from("ab:/@?#\\ %340"), max_size=40))
def test_masking_twice_changes_nothing_more(text: str) -> None:
    once = mask_credentials(text)
    assert mask_credentials(once) == once


@pytest.mark.parametrize(
    "unit", ["a:", "https://", "@", "http:\\\\a ", "a:@", "%3A%2F%2F", "%40", ":/ ", "://a:b?", "x:y@ "]
)
def test_masking_takes_linear_time(unit: str) -> None:
    assert len(mask_credentials(unit * 100_000 + " @")) > 0
