"""URLs in logs and job tables: only scheme and host (contract O)."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canonry.masking import mask_urls

CASES = [
    # text                                                       masked
    ("https://e.com/a.xml?token=1&api_key=2", "https://e.com/…"),
    ("https://e.com?token=1", "https://e.com/…"),
    ("https://e.com#token", "https://e.com/…"),
    ("https://e.com/", "https://e.com/"),
    ("HTTPS://e.com:8443/a", "HTTPS://e.com:8443/…"),
    ("http://[::1]:8000/a", "http://[::1]:8000/…"),
    ("https://ada:pw@e.com/", "https://***@e.com/"),
    ("https://ada:pw@e.com/a", "https://***@e.com/…"),
    ("could not fetch 'https://e.com/a b?t=1': status 500", "could not fetch 'https://e.com/…': status 500"),
    ('at "https://e.com/it\'s?t=1": no', 'at "https://e.com/…": no'),
    ("'https://e.com/it\\'s?t=1' and more", "'https://e.com/…' and more"),
    ("'https://e.com/cut by a lim… (999 characters)", "'https://e.com/…"),
    ("from https://a.com/x to https://b.com/y", "from https://a.com/… to https://b.com/…"),
    ("wss://e.com/a?t=1", "wss://e.com/…"),
    ("gopher://e.com/secret", "gopher://e.com/…"),
    ("https:e.com/secret", "https:…"),
    ("http:\\\\e.com\\secret", "http:\\\\e.com/…"),
    ("feed:https://ada:pw@e.com/secret", "feed:…"),
    ("https%3A%2F%2Fe.com%2Fsecret", "https:…"),
    ("http://ada:p/w@e.com/secret", "http://…"),
    ("http://ada:12/34@e.com/secret", "http://…"),
    ("https://e.com/@ada/post", "https://e.com/…"),
    # What is no web address stays.
    ("sqlite:////home/ada/x.db: database is locked", "sqlite:////home/ada/x.db: database is locked"),
    ("postgresql+psycopg://ada:pw@db/x is away", "postgresql+psycopg://***@db/x is away"),
    ("http: unexpected end", "http: unexpected end"),
    ("took 12:30, 3 new", "took 12:30, 3 new"),
    ("", ""),
]


@pytest.mark.parametrize(("text", "masked"), CASES)
def test_of_a_url_the_scheme_and_host_stay(text: str, masked: str) -> None:
    assert mask_urls(text) == masked


@given(st.text(), st.text(alphabet=st.characters(exclude_characters=" \t\r\n", exclude_categories=["Z", "C"])))
def test_nothing_after_the_host_is_left(before: str, path: str) -> None:
    assert "SECRET" not in mask_urls(f"{before} https://e.com/{path}SECRET{path}")


@given(st.text())
def test_masking_twice_changes_nothing(text: str) -> None:
    once = mask_urls(text)
    assert mask_urls(once) == once


@pytest.mark.parametrize("unit", ["a", "http://", "'http:", "a:", "'http:\\", "https://a@", "%3a"])
def test_the_time_is_linear(unit: str) -> None:
    text = unit * (400_000 // len(unit))
    started = time.process_time()
    mask_urls(text)
    assert time.process_time() - started < 10.0
