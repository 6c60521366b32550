"""Describe the twelve rules for people, each with an example (`canonry rules`, the reference pages)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RuleDescription:
    """One rule: its id, the option that turns it on, and an example that the tests run."""

    rule: str
    option: str
    what: str
    before: str
    after: str


RULE_DESCRIPTIONS = (
    RuleDescription(
        "parse",
        "parse = true",
        "parse as browsers do: trim, lower-case scheme and host, punycode, dot segments; no default port, empty ? or #",
        "HTTPS://Example.COM:443/a/../b?#",
        "https://example.com/b",
    ),
    RuleDescription(
        "site_host",
        'sites = ["youtube", "x", "feedburner", "blogger"]',
        "replace a mirror host of a known site with its main host",
        "https://mobile.twitter.com/jack",
        "https://x.com/jack",
    ),
    RuleDescription(
        "strip_www",
        "strip_www = true",
        "drop a leading www. while a dot remains, except on the main host of a known site",
        "https://www.example.com/",
        "https://example.com/",
    ),
    RuleDescription(
        "strip_auth",
        "strip_auth = true",
        "drop user name and password",
        "https://me:secret@example.com/",
        "https://example.com/",
    ),
    RuleDescription(
        "normalize_escapes",
        "normalize_escapes = true",
        "in path and query, write percent escapes in upper case and decode those of letters, digits and -._~",
        "https://example.com/%7ejoe%2fa",
        "https://example.com/~joe%2Fa",
    ),
    RuleDescription(
        "collapse_slashes",
        "collapse_slashes = true",
        "replace repeated slashes in the path with one",
        "https://example.com/a//b",
        "https://example.com/a/b",
    ),
    RuleDescription(
        "strip_trailing_slash",
        "strip_trailing_slash = true",
        "drop slashes at the end of the path; the root keeps one",
        "https://example.com/a/",
        "https://example.com/a",
    ),
    RuleDescription(
        "site_path",
        'sites = ["youtube", "x", "feedburner", "blogger"]',
        "write path and query of a page on a known site in one way",
        "https://www.youtube.com/shorts/dQw4w9WgXcQ?si=x",
        "https://www.youtube.com/watch?v=dQw4w9WgXcQ",
    ),
    RuleDescription(
        "strip_params",
        'strip_params = ["utm_*", "fbclid"]',
        "drop listed query parameters, everywhere or on one host (strip_params_on); all others stay",
        "https://example.com/?UTM_Source=x&id=1",
        "https://example.com/?id=1",
    ),
    RuleDescription(
        "sort_params",
        "sort_params = true",
        "sort query parameters by name, then value; duplicates stay",
        "https://example.com/?b=2&a=1",
        "https://example.com/?a=1&b=2",
    ),
    RuleDescription(
        "fragment",
        'fragment = "drop" | "keep" | "routes" | "clean"',
        "drop or keep the fragment, keep it if it selects content (#!…, #/…), or drop only tracking (#utm_…, :~:)",
        "https://example.com/a#intro",
        "https://example.com/a",
    ),
    RuleDescription(
        "overrides",
        "--overrides FILE",
        "apply the overrides file: by host, drop more parameters and rewrite prefixes, until nothing changes",
        "https://example.com/amp/amp/x?src=rss",
        "https://example.com/x",
    ),
)
