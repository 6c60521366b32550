"""A column for tests of bulk functions: real, awkward and long URLs, texts that are not URLs, and nulls."""

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
    built = [corpora.build_url(choose) for _ in range(count // 3)]
    found = [*_ODD, *built, *corpora.get_real_or_generated_urls()[: count - len(built)]]
    choose.shuffle(found)
    # Databases and files refuse lone surrogates.
    return [url and url.encode("utf-8", "replace").decode() for url in found]


def normal(url: str | None, policy: str) -> str | None:
    """Normalize one URL; None if it is not valid."""
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
    """Return the expected answers of the three SQL functions."""
    return normal(url, policy), key(url, policy), digest(url, policy)
