"""contract N8b: addresses inside redirect pages that no plain template can read."""

from __future__ import annotations

import pytest

from canonry.core.site_patterns import FILTERS, decode_proofpoint

PROOFPOINT_CASES = [
    # why                               given                                             wanted
    ("nothing replaced", "/v3/__https://a.com/b__;!!x!y$", "https://a.com/b"),
    ("one slash after the scheme", "/v3/__https:/a.com/b__;!!x!y$", "https://a.com/b"),
    ("slashes of the target stay", "/v3/__https://a.com//b__;!!x!y$", "https://a.com//b"),
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
    ("base64", "_w", ""),
    ("dashes", "a_b.c-d", "a-b-c-d"),
    ("unescape", "AT%26T%2B%3D%25%2F", "AT&T+=%25%2F"),
]


@pytest.mark.parametrize(("name", "given", "wanted"), FILTER_CASES)
def test_filters_change_a_capture(name: str, given: str, wanted: str) -> None:
    assert FILTERS[name](given) == wanted
