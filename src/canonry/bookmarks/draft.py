"""A bookmark as somebody gives it, before it has an owner and a normal form (contract B4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Draft:
    """What is to be kept; `created_at` is empty where it is made now."""

    url: str
    title: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    folder: str = ""  # `a/b` is b in a
    to_read: bool = False
    private: bool = False
    created_at: str = ""
    archive_urls: tuple[str, ...] = ()
    episode_urls: tuple[str, ...] = ()
    exact_url: bool = False  # to be kept as it is
    original_url: str | None = None  # what it was before it was normalized, where that is known


def clean_tags(tags: str | Iterable[str]) -> tuple[str, ...]:
    """Tags without blanks around them, each once, in the order given; blanks inside become one.

    `[" Python", "python ", "a  b"]` → `("Python", "python", "a b")`
    """
    found = tags.split(",") if isinstance(tags, str) else tags
    return tuple(dict.fromkeys(text for tag in found if (text := " ".join(tag.split()))))
