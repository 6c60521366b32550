"""The functions of rules.py, where their shortcuts could change an answer."""

from __future__ import annotations

import itertools
import string

from canonry.core import rules

HEX = string.digits + "ABCDEFabcdef"
UNRESERVED = string.ascii_letters + string.digits + "-._~"


def test_every_escape_is_normalized() -> None:
    for high, low in itertools.product(HEX, HEX):
        char = chr(int(high + low, 16))
        wanted = char if char in UNRESERVED else f"%{high}{low}".upper()
        assert rules.normalize_escapes(f"x%{high}{low}y") == f"x{wanted}y"
        assert rules.normalize_escapes(wanted) == wanted


def test_decoding_after_a_stray_percent_makes_no_new_escape() -> None:
    tokens = ["%", "4", "%34", "%31", "%41", "%7E", "%2f", "G"]
    for parts in itertools.product(tokens, repeat=5):
        text = "".join(parts)
        once = rules.normalize_escapes(text)
        assert rules.normalize_escapes(once) == once, text
        assert once.count("%") <= text.count("%")


def test_parameter_names_are_compared_decoded_and_without_case() -> None:
    matches = rules.make_name_matcher(("utm_*", "Id", "é"))
    assert all(map(matches, ["utm_", "UTM_X=1", "ut%6D_x", "%55tm%5fx=1", "ID", "%69d", "%C3%A9=1"]))
    assert not any(map(matches, ["utm", "utm%255f", "i", "idx", "", "=id", "%C3%89", "%E9", "x=utm_x"]))


def test_lower_case_leaves_the_digits_of_escapes() -> None:
    cases = {"/A%2FB": "/a%2Fb", "%aB%AB": "%aB%AB", "%ZZ%A": "%zz%a", "A": "a", "": ""}
    assert {given: rules.lower_unescaped(given) for given in cases} == cases
