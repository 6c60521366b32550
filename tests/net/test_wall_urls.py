"""URLs of login forms, consent walls and error pages never stand for another page (contract E2)."""

from __future__ import annotations

import pytest

from canonry.net.moved_urls import is_stopgap
from canonry.net.wall_urls import is_wall

WALLS = [
    *("/login", "/accounts/login/", "/users/sign_in", "/wp-login.php?redirect_to=x", "/Logon.aspx", "/session-expired"),
    *("/404", "/404.html", "/error", "/de/not-found/", "/access-denied", "/maintenance.html", "/consent?to=/a"),
]
PAGES = ["/", "/a", "/login/how-to", "/docs/errors/e501", "/blog/404-ways", "/authors", "/registered", "/a?to=/login"]


@pytest.mark.parametrize("path", WALLS)
def test_walls(path: str) -> None:
    assert is_wall(f"https://example.com{path}")
    assert is_stopgap(f"https://example.com{path}", "https://example.com/a")
    assert not is_stopgap(f"https://example.com{path}", "https://example.com/login"), "the form itself has moved"


@pytest.mark.parametrize("path", PAGES)
def test_pages(path: str) -> None:
    assert not is_wall(f"https://example.com{path}")


def test_hosts() -> None:
    assert is_wall("https://accounts.example.com/v3/start") and is_wall("https://consent.example.com/")
    assert not is_wall("https://authors.example.com/")
