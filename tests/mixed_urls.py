"""One column of everything: real URLs, awkward ones, long ones, what is no URL, and nulls."""

from __future__ import annotations

import hashlib
import random

import canonry
import corpora
from canonry.core.keys import shorten_key

THREE = "url_normalize({0}), url_key({0}), url_hash({0})"

_ODD: list[str | None] = [
    None,
    "",
    "nope",
    "ftp://a.com/",
    "mailto:a@b.c",
    " https://A.com:443/?utm_source=x&b=1 ",
    "https://bücher.de/é",
    "https://a.com/\\x\\..\\y z",
    "http://[::1]:8080/a/",
    "https://a.com/" + "b" * 3000,
    "https://a.com:99999/",
    "//a.com/x",
]


def urls(count: int = 3_000) -> list[str | None]:
    choose = random.Random(8)
    built = [corpora.built_url(choose) for _ in range(count // 3)]
    found = [*_ODD, *built, *corpora.real_or_own_urls()[: count - len(built)]]
    choose.shuffle(found)
    # No database and no file holds half a character.
    return [url and url.encode("utf-8", "replace").decode() for url in found]


def normal(url: str | None, policy: str) -> str | None:
    """What canonry.normalize says, one URL at a time."""
    try:
        return None if url is None else canonry.normalize(url, policy)
    except canonry.InvalidUrl:
        return None


def key(url: str | None, policy: str) -> str | None:
    found = normal(url, policy)
    return found and shorten_key(found)


def digest(url: str | None, policy: str) -> str | None:
    found = normal(url, policy)
    return found and hashlib.sha256(found.encode()).hexdigest()


def three(url: str | None, policy: str = "bookmark") -> tuple[str | None, str | None, str | None]:
    """What the three functions in SQL must answer."""
    return normal(url, policy), key(url, policy), digest(url, policy)
