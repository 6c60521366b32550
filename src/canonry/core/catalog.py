"""The twelve rules as a reader meets them: what each does, shown on a URL (`canonry rules`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RuleDescription:
    """One rule: its id, the option that switches it, and a before → after that tests run."""

    rule: str
    option: str
    what: str
    before: str
    after: str


RULE_DESCRIPTIONS = (
    RuleDescription(
        "parse",
        "parse = true",
        "read as browsers read: trim, lower-case scheme and host, punycode, dot segments, default port, empty ? and #",
        "HTTPS://Example.COM:443/a/../b?#",
        "https://example.com/b",
    ),
    RuleDescription(
        "site_host",
        'sites = ["youtube", "x", "feedburner", "blogger"]',
        "a mirror host of a known site becomes its main host",
        "https://mobile.twitter.com/jack",
        "https://x.com/jack",
    ),
    RuleDescription(
        "strip_www",
        "strip_www = true",
        "a leading www. goes while a dot remains, except where a site rule wants it",
        "https://www.example.com/",
        "https://example.com/",
    ),
    RuleDescription(
        "strip_auth",
        "strip_auth = true",
        "user name and password go",
        "https://me:secret@example.com/",
        "https://example.com/",
    ),
    RuleDescription(
        "normalize_escapes",
        "normalize_escapes = true",
        "hex in upper case; escapes of letters, digits and -._~ decoded, in path and query",
        "https://example.com/%7ejoe%2fa",
        "https://example.com/~joe%2Fa",
    ),
    RuleDescription(
        "collapse_slashes",
        "collapse_slashes = true",
        "repeated slashes in the path become one",
        "https://example.com/a//b",
        "https://example.com/a/b",
    ),
    RuleDescription(
        "strip_trailing_slash",
        "strip_trailing_slash = true",
        "slashes at the end of the path go; the root keeps one",
        "https://example.com/a/",
        "https://example.com/a",
    ),
    RuleDescription(
        "site_path",
        'sites = ["youtube", "x", "feedburner", "blogger"]',
        "path and query of a known page get their one spelling",
        "https://www.youtube.com/shorts/dQw4w9WgXcQ?si=x",
        "https://www.youtube.com/watch?v=dQw4w9WgXcQ",
    ),
    RuleDescription(
        "strip_params",
        'strip_params = ["utm_*", "fbclid"]',
        "listed query parameters go, everywhere or on one host (strip_params_on); never all of them",
        "https://example.com/?UTM_Source=x&id=1",
        "https://example.com/?id=1",
    ),
    RuleDescription(
        "sort_params",
        "sort_params = true",
        "query parameters by name, then value; duplicates stay",
        "https://example.com/?b=2&a=1",
        "https://example.com/?a=1&b=2",
    ),
    RuleDescription(
        "fragment",
        'fragment = "drop" | "keep" | "routes"',
        "the fragment goes, stays, or stays only where it selects content (#!…, #/…)",
        "https://example.com/a#intro",
        "https://example.com/a",
    ),
    RuleDescription(
        "overrides",
        "--overrides FILE",
        "the overrides file: more parameters to drop and prefixes to rewrite, by host, until nothing changes",
        "https://example.com/amp/amp/x?src=rss",
        "https://example.com/x",
    ),
)
