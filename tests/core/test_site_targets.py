"""contract N8b: addresses inside redirect pages that no plain template can read."""

from __future__ import annotations

from urllib.parse import quote

import pytest

import canonry
from canonry.core import normalize as reference
from canonry.core.site_patterns import FILTERS, decode_proofpoint

POLICY = canonry.policy("bookmark@2")

PROOFPOINT_CASES = [
    # why                               given                                             wanted
    ("nothing replaced", "/v3/__https://a.com/b__;!!x!y$", "https://a.com/b"),
    ("one slash after the scheme", "/v3/__https:/a.com/b__;!!x!y$", "https://a.com/b"),
    ("slashes of the target stay", "/v3/__https://a.com//b__;!!x!y$", "https://a.com//b"),
    ("slashes before it", "//v3//__https://a.com/b__;!!x!y$", "https://a.com/b"),
    ("query", "/v3/__http://a.com/b?c=1__;!!x!y$", "http://a.com/b?c=1"),
    ("a replaced #", "/v3/__https://a.com/b*c__;Iw!!x!y$", "https://a.com/b#c"),
    ("a replaced %", "/v3/__https://a.com/b*2Fc__;JQ!!x!y$", "https://a.com/b%2Fc"),
    ("two replaced characters", "/v3/__https://a.com/*b*c__;IyM!!x!y$", "https://a.com/#b#c"),
    ("a run of replaced characters", "/v3/__https://a.com/**Ab__;IyM!!x!y$", ""),
    ("fewer characters than replaced", "/v3/__https://a.com/*b*c__;Iw!!x!y$", ""),
    ("more characters than replaced", "/v3/__https://a.com/b__;Iw!!x!y$", ""),
    ("not base64", "/v3/__https://a.com/*b__;A!!x!y$", ""),
    ("not UTF-8", "/v3/__https://a.com/*b__;_w!!x!y$", ""),
    ("no end", "/v3/__https://a.com/b", ""),
    ("not the web", "/v3/__mailto:a@b.com__;!!x!y$", ""),
]


@pytest.mark.parametrize(("given", "wanted"), [pytest.param(*case[1:], id=case[0]) for case in PROOFPOINT_CASES])
def test_proofpoint_targets_are_decoded(given: str, wanted: str) -> None:
    assert decode_proofpoint(given) == wanted


FILTER_CASES = [
    ("base64", "aHR0cHM6Ly9hLmNvbS8", "https://a.com/"),
    ("base64", "aHR0cHM6Ly9hLmNvbS8_", "https://a.com/?"),
    ("base64", "A", ""),
    ("base64", "aHR0cHM6Ly9h!LmNvbS8", ""),
    ("decode", "%C3%28", ""),
    ("base64", "_w", ""),
    ("dashes", "a_b.c-d", "a-b-c-d"),
    ("unescape", "AT%26T%2B%3D%25%2F", "AT&T+=%25%2F"),
]


@pytest.mark.parametrize(("name", "given", "wanted"), FILTER_CASES)
def test_filters_change_a_capture(name: str, given: str, wanted: str) -> None:
    assert FILTERS[name](given) == wanted


def wrap(url: str, times: int) -> str:
    """Put a URL into a redirect page, and that into another one, and so on."""
    for _ in range(times):
        url = f"https://slack-redir.net/link?url={quote(url, safe='')}"
    return url


REDIRECT_CASES = [
    # why                       given                                                     wanted
    ("one in another", wrap("https://a.com/b", 3), "https://a.com/b"),
    ("too many", wrap("https://a.com/b", 9), wrap("https://a.com/b", 9)),
    ("a fragment goes along", wrap("https://a.com/b", 1) + "#c", "https://a.com/b#c"),
    ("the target has its own", wrap("https://a.com/b#c", 1) + "#d", "https://a.com/b#c"),
    ("no valid address", wrap("https://[", 1), "https://slack-redir.net/link?url=https%3A%2F%2F%5B"),
    ("unclear slashes", "https://www.google.com/amp/s/a.com//b", "https://www.google.com/amp/s/a.com//b"),
    ("slash and query", "https://www.google.com/amp/s/a.com/b/?c=1", "https://a.com/b/?c=1"),
    (
        "what the AMP cache adds",
        "https://cdn.ampproject.org/v/s/a.com/b?AMP_JS%5Fv=1&c=1&amp_gsa",
        "https://a.com/b?c=1",
    ),
    ("nothing else", "https://cdn.ampproject.org/c/s/a.com/b/?amp_js_v=1&usqp=2#aoh=1", "https://a.com/b/"),
    ("an empty parameter", "https://cdn.ampproject.org/c/s/a.com/b?amp_js_v=1&#c", "https://a.com/b#c"),
    ("a fragment of the viewer", "https://www.google.com/amp/s/a.com/b#amp_tf=1&aoh=2:~:text=c", "https://a.com/b"),
    ("a fragment like it", "https://www.google.com/amp/s/a.com/b#amp_tf", "https://a.com/b#amp_tf"),
    ("not a redirect page", "https://a.com/b?amp_js_v=1#aoh=1", "https://a.com/b?amp_js_v=1#aoh=1"),
    ("two targets", "https://vk.com/away.php?to=https://a.com/&to=https://b.com/", None),
]


@pytest.mark.parametrize(("given", "wanted"), [pytest.param(*case[1:], id=case[0]) for case in REDIRECT_CASES])
def test_redirect_pages_become_their_target(given: str, wanted: str | None) -> None:
    assert reference.normalize(given, POLICY) == (wanted or given)
    assert canonry.normalize(given, POLICY) == (wanted or given)
