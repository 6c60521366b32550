"""Values of responses: the host of a URL."""

from __future__ import annotations

import pytest

from canonry.net.response import find_host

HOSTS = [
    ("https://a.example/feed", "a.example"),
    ("http://user:secret@A.example:8080/", "a.example"),
    ("http://[::1]:8000/", "::1"),
    ("not a url", ""),
]


@pytest.mark.parametrize(("url", "host"), HOSTS)
def test_find_host(url: str, host: str) -> None:
    assert find_host(url) == host
