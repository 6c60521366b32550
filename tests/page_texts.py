"""Pages for tests, made from short descriptions: an article of 60 words for each number, a title, a head."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_SYLLABLES = "ba co du fe gi ho ka lu me ni po ra su ti vo wa xe yu zo".split()


def make_article(*numbers: int) -> str:
    """Return a text: 60 words for each number, always the same."""
    words: list[str] = []
    for number in numbers:
        source = random.Random(number)
        words += ["".join(source.choices(_SYLLABLES, k=source.randint(2, 4))) for _ in range(60)]
    return " ".join(words)


def make_page(page: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer of a page, as a loopback web serves it."""
    headers = {"content-type": "text/html; charset=utf-8", **page.get("headers", {})}
    answer: dict[str, Any] = {**page, "status": page.get("status", 200), "headers": headers}
    if "article" in page:
        numbers = page["article"] if isinstance(page["article"], list) else [page["article"]]
        text = make_article(*numbers)
        is_html = headers["content-type"].startswith("text/html")
        answer["body"] = make_html(text, page) if is_html else text
    return answer


def make_html(text: str, page: Mapping[str, Any]) -> str:
    """Return an HTML document with this text."""
    head = f"<title>{page.get('title', '')}</title>{page.get('head', '')}"
    return f"<!doctype html><html><head>{head}</head><body><p>{text}</p><p>{page.get('extra', '')}</p></body></html>"
