"""The simhash in Python, which the C code is compared with (contract E3)."""

from __future__ import annotations

from canonry.core.simhash import simhash


def test_an_empty_text_has_no_bits() -> None:
    assert simhash("") == 0


def test_a_text_of_up_to_three_words_is_one_shingle() -> None:
    assert f"{simhash('hello'):016x}" == "e9c562c0fdb23244"
    assert f"{simhash('hello world'):016x}" == "7c6d8c019b6ee5d5"
    assert f"{simhash('hello brave new'):016x}" == "693aff4f6bab84e5"


def test_a_bit_needs_more_than_half_of_the_shingles() -> None:
    one, two = simhash("a b c"), simhash("b c d")
    assert simhash("a b c d") == one & two
