"""contract N1 to N4: what each rule changes, and what it leaves alone."""

from __future__ import annotations

import pytest

import canonry
from canonry.core.policy import Policy

NONE = Policy("none", 1)
CASES = [
    # why, policy, given, wanted
    ("scheme and host in lower case", NONE, "HTTP://EXAMPLE.COM/Path", "http://example.com/Path"),
    ("default port", NONE, "https://example.com:443/p", "https://example.com/p"),
    ("the other scheme's port stays", NONE, "http://example.com:443/p", "http://example.com:443/p"),
    ("leading zeros of a port", NONE, "http://example.com:0080/p", "http://example.com/p"),
    ("other port stays", NONE, "http://example.com:8080/p", "http://example.com:8080/p"),
    ("five-digit port stays", NONE, "http://example.com:65535/p", "http://example.com:65535/p"),
    ("IDN", NONE, "https://MÜNCHEN.de/", "https://xn--mnchen-3ya.de/"),
    ("IDNA 2008 keeps sharp s", NONE, "https://faß.de/", "https://xn--fa-hia.de/"),
    ("dot segments", NONE, "https://example.com/a/./b/../c", "https://example.com/a/c"),
    ("dot file stays", NONE, "https://example.com/.well-known/x", "https://example.com/.well-known/x"),
    ("escaped dot segments", NONE, "https://example.com/a/%2e%2E/c", "https://example.com/c"),
    ("escaped dot inside a name", NONE, "https://example.com/a%2eb", "https://example.com/a%2eb"),
    ("empty query", NONE, "https://example.com/?", "https://example.com/"),
    ("empty fragment", NONE, "https://example.com/#", "https://example.com/"),
    ("empty both", NONE, "https://example.com/?#", "https://example.com/"),
    ("empty query before fragment", NONE, "https://example.com/?#x", "https://example.com/#x"),
    ("no path", NONE, "https://example.com", "https://example.com/"),
    ("no path but query", NONE, "https://example.com?a=1", "https://example.com/?a=1"),
    ("space around, tab inside", NONE, "  https://exa\tmple.com/a \n", "https://example.com/a"),
    ("backslashes", NONE, "https:\\\\example.com\\a", "https://example.com/a"),
    ("backslash hides no host", NONE, "https://good.com\\@evil.com/", "https://good.com/@evil.com/"),
    ("odd IPv4", NONE, "http://0x7f.1/", "http://127.0.0.1/"),
    ("IPv6", NONE, "http://[2001:DB8:0:0:0:0:0:1]:8080/a/", "http://[2001:db8::1]:8080/a/"),
    ("userinfo keeps its case", NONE, "https://User:PaSs@example.com/", "https://User:PaSs@example.com/"),
    ("empty userinfo", NONE, "https://@example.com/", "https://example.com/"),
    ("nothing else touched", NONE, "https://a.com/%7Eb%e9+%20;c?a&b=&a=1;2&+%20#x", "https://a.com/%7Eb%e9+%20;c?a&b=&a=1;2&+%20#x"),
    ("punycode host needs ada", NONE, "https://XN--LS8H.la/", "https://xn--ls8h.la/"),
    ("www", NONE.with_rules("strip_www"), "https://www.example.com/", "https://example.com/"),
    ("www twice", NONE.with_rules("strip_www"), "https://www.www.example.com/", "https://example.com/"),
    ("www.com stays", NONE.with_rules("strip_www"), "https://www.com/", "https://www.com/"),
    ("www.www.com keeps one", NONE.with_rules("strip_www"), "https://www.www.com/", "https://www.com/"),
    ("host www. stays", NONE.with_rules("strip_www"), "https://www./", "https://www./"),
    ("www1 is a name", NONE.with_rules("strip_www"), "https://www1.example.com/", "https://www1.example.com/"),
    ("wwwexample too", NONE.with_rules("strip_www"), "https://wwwexample.com/", "https://wwwexample.com/"),
    ("www inside stays", NONE.with_rules("strip_www"), "https://a.www.example.com/", "https://a.www.example.com/"),
    ("www off", NONE, "https://www.example.com/", "https://www.example.com/"),
    ("userinfo", NONE.with_rules("strip_auth"), "https://u:p@example.com:8080/", "https://example.com:8080/"),
    ("hex case", NONE.with_rules("normalize_escapes"), "https://a.com/%2f%e9?%c3%a9", "https://a.com/%2F%E9?%C3%A9"),
    ("unreserved decoded", NONE.with_rules("normalize_escapes"), "https://a.com/%7Efoo%41%2d%2E%5f?%61=%7a", "https://a.com/~fooA-._?a=z"),
    ("reserved never", NONE.with_rules("normalize_escapes"), "https://a.com/%2F%3F%23%26%3D%2B%25%20?%26%3D%2B", "https://a.com/%2F%3F%23%26%3D%2B%25%20?%26%3D%2B"),
    ("decoded once", NONE.with_rules("normalize_escapes"), "https://a.com/%2541", "https://a.com/%2541"),
    ("stray percent then digits", NONE.with_rules("normalize_escapes"), "https://a.com/%%34%31", "https://a.com/%%34%31"),
    ("stray percent and digit", NONE.with_rules("normalize_escapes"), "https://a.com/%2%66", "https://a.com/%2%66"),
    ("only what would complete it", NONE.with_rules("normalize_escapes"), "https://a.com/a/%2%65%2e/b", "https://a.com/a/%2%65./b"),
    ("stray percent, no digit", NONE.with_rules("normalize_escapes"), "https://a.com/%%7E%7E", "https://a.com/%~~"),
    ("digit and no escape", NONE.with_rules("normalize_escapes"), "https://a.com/%2%7E%41", "https://a.com/%2~A"),
    ("stray, two, then free", NONE.with_rules("normalize_escapes"), "https://a.com/%%34%31%32", "https://a.com/%%34%312"),
    ("stray at the end", NONE.with_rules("normalize_escapes"), "https://a.com/100%?%", "https://a.com/100%?%"),
    ("fragment keeps escapes", NONE.with_rules("normalize_escapes"), "https://a.com/#%7e", "https://a.com/#%7e"),
    ("slashes", NONE.with_rules("collapse_slashes"), "https://a.com//a///b//", "https://a.com/a/b/"),
    ("slashes in query stay", NONE.with_rules("collapse_slashes"), "https://a.com/?u=http://b", "https://a.com/?u=http://b"),
    ("trailing slash", NONE.with_rules("strip_trailing_slash"), "https://a.com/b/", "https://a.com/b"),
    ("all of them", NONE.with_rules("strip_trailing_slash"), "https://a.com/b//", "https://a.com/b"),
    ("root keeps one", NONE.with_rules("strip_trailing_slash"), "https://a.com//", "https://a.com/"),
    ("before a query", NONE.with_rules("strip_trailing_slash"), "https://a.com/b/?c=d/", "https://a.com/b?c=d/"),
    ("parameter", NONE.with_params("id"), "https://a.com/?id=1&x=2", "https://a.com/?x=2"),
    ("parameter without value", NONE.with_params("id"), "https://a.com/?id&x=2", "https://a.com/?x=2"),
    ("every one of the name", NONE.with_params("id"), "https://a.com/?id=1&x=2&ID=3", "https://a.com/?x=2"),
    ("emptied query", NONE.with_params("id"), "https://a.com/?id=1", "https://a.com/"),
    ("emptied but for an ampersand", NONE.with_params("id"), "https://a.com/?id=1&", "https://a.com/"),
    ("prefix", NONE.with_params("utm_*"), "https://a.com/?utm_=1&utm_foo=2&utmost=3", "https://a.com/?utmost=3"),
    ("exact is no prefix", NONE.with_params("id"), "https://a.com/?ids=1", "https://a.com/?ids=1"),
    ("name compared decoded once", NONE.with_params("utm_*"), "https://a.com/?utm%5Fid=1&utm%255Fid=2", "https://a.com/?utm%255Fid=2"),
    ("value is no name", NONE.with_params("id"), "https://a.com/?x=id", "https://a.com/?x=id"),
    ("non-ASCII name", NONE.with_params("é"), "https://a.com/?é=1&x=1", "https://a.com/?x=1"),
    ("non-ASCII name keeps its case", NONE.with_params("é"), "https://a.com/?É=1", "https://a.com/?%C3%89=1"),
    ("not UTF-8 name", NONE.with_params("id"), "https://a.com/?%E9=1&id=2", "https://a.com/?%E9=1"),
    ("semicolon is no separator", NONE.with_params("id"), "https://a.com/?x=1;id=2", "https://a.com/?x=1;id=2"),
    ("empty parameters stay", NONE.with_params("id"), "https://a.com/?a&&b&id", "https://a.com/?a&&b"),
    ("on one host", NONE.with_params("si", host="a.com"), "https://a.com/?si=1&x", "https://a.com/?x"),
    ("on another host", NONE.with_params("si", host="a.com"), "https://b.com/?si=1&x", "https://b.com/?si=1&x"),
    ("everywhere and on one host", NONE.with_params("si", host="a.com").with_params("x"), "https://a.com/?si=1&x", "https://a.com/"),
    ("sorted by name", NONE.with_rules("sort_params"), "https://a.com/?b=2&a=1", "https://a.com/?a=1&b=2"),
    ("then by value", NONE.with_rules("sort_params"), "https://a.com/?a=2&b&a=1", "https://a.com/?a=1&a=2&b"),
    ("name, not bytes of the pair", NONE.with_rules("sort_params"), "https://a.com/?a-b=1&a=2", "https://a.com/?a=2&a-b=1"),
    ("stable", NONE.with_rules("sort_params"), "https://a.com/?b&a=&a&a=", "https://a.com/?a=&a&a=&b"),
    ("not re-encoded", NONE.with_rules("sort_params"), "https://a.com/?b=%20+&a=%E9", "https://a.com/?a=%E9&b=%20+"),
    ("fragment dropped", NONE.with_fragment("drop"), "https://a.com/#x", "https://a.com/"),
    ("fragment kept", NONE.with_fragment("keep"), "https://a.com/#x:~:text=y", "https://a.com/#x:~:text=y"),
    ("route kept", NONE.with_fragment("routes"), "https://a.com/#/x:~:text=y", "https://a.com/#/x"),
    ("hash-bang kept", NONE.with_fragment("routes"), "https://a.com/#!x", "https://a.com/#!x"),
    ("no route", NONE.with_fragment("routes"), "https://a.com/#x", "https://a.com/"),
    ("text directive only", NONE.with_fragment("routes"), "https://a.com/#:~:text=y", "https://a.com/"),
    ("nothing to route", NONE.with_fragment("routes"), "https://a.com/", "https://a.com/"),
    ("exact is the text itself", canonry.policy("exact"), " HTTPS://A.com:443/?#", " HTTPS://A.com:443/?#"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("why", "policy", "given", "wanted"), CASES, ids=[f"{case[0]}-{number}" for number, case in enumerate(CASES)]
)
def test_a_rule_gives_the_wanted_url(why: str, policy: Policy, given: str, wanted: str) -> None:
    assert canonry.normalize(given, policy) == wanted, why
    assert canonry.normalize(wanted, policy) == wanted
    assert canonry.explain(given, policy).url == wanted


REFUSED = [
    ("", "empty"),
    (" \n", "empty"),
    ("example.com", "no scheme"),
    ("//example.com/", "no scheme"),
    ("ftp://example.com/", "scheme ftp: is not http or https"),
    ("MAILTO:a@b.c", "scheme mailto: is not http or https"),
    ("javascript:alert(1)", "scheme javascript: is not http or https"),
    ("http://", "no host"),
    ("https://user@/x", "no host"),
    ("https://:80/", "no host"),
    ("https://example.com:99999/a", "port out of range"),
    ("https://example.com:" + "9" * 5000, "port out of range"),
    ("https://example.com:65536/", "port out of range"),
    ("https://a b:65535/", "a character that no host may contain"),
    ("https://a b:00065535/", "a character that no host may contain"),
    ("!", "no scheme"),
    ("https://example.com:8a/", "port is not a number"),
    ("https://a:1:2/", "port is not a number"),
    ("https://[::1/", "not an IPv6 address"),
    ("https://[1.2.3]/", "not an IPv6 address"),
    ("https://256.256.256.256/", "not an IPv4 address"),
    ("https://www.1.2/", "not an IPv4 address"),
    ("https://a b/", "a character that no host may contain"),
    ("https://a%2fb/", "a character that no host may contain"),
    ("https://\u00ad/", "not a host name (IDNA)"),
    ("https://a.com/\ud800", "contains a lone surrogate, which is not text"),
]


@pytest.mark.parametrize(("text", "reason"), REFUSED, ids=range(len(REFUSED)))
@pytest.mark.parametrize("policy", ["bookmark", "exact", "crawl"])
def test_invalid_urls_are_refused_with_a_reason(text: str, reason: str, policy: str) -> None:
    with pytest.raises(canonry.InvalidUrl) as caught:
        canonry.normalize(text, policy)
    assert (caught.value.input, caught.value.reason) == (text, reason)
    assert reason in str(caught.value)
    assert len(str(caught.value)) < 400
    assert canonry.normalize_many([text, "https://a.com"], policy)[0] is None


@pytest.mark.parametrize("value", [None, 1, b"https://a.com", ["https://a.com"]])
def test_values_that_are_not_strings_are_refused(value: object) -> None:
    with pytest.raises(canonry.InvalidUrl, match="not a string but"):
        canonry.normalize(value)  # type: ignore[arg-type]
    with pytest.raises(canonry.InvalidUrl, match="not a string but"):
        canonry.read_url(value)  # type: ignore[arg-type]


def test_normalize_many_returns_none_for_invalid_urls() -> None:
    given = ["https://www.A.com/?utm_source=x", "nope", None, "http://b.com"]
    assert canonry.normalize_many(given, "feed-aggressive") == ["https://a.com/", None, None, "http://b.com/"]  # type: ignore[arg-type]


def test_the_default_policy_is_bookmark() -> None:
    assert canonry.normalize("https://youtu.be/abc?b#x") == "https://www.youtube.com/watch?v=abc#x"
    assert canonry.explain("https://a.com/").policy == "bookmark@2"
