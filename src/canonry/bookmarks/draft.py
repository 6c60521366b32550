"""A bookmark as the user gives it, before it has an owner and a normalized URL (contract B4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from canonry.bookmarks.bookmark import BookmarkFields

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Draft:
    """A bookmark to save; an empty `created_at` means now."""

    url: str
    title: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    folder: str = ""  # a path: `a/b` is b in a
    to_read: bool = False
    private: bool = False
    created_at: str = ""
    archive_urls: tuple[str, ...] = ()
    episode_urls: tuple[str, ...] = ()
    exact_url: bool = False  # save the URL without normalizing it
    original_url: str | None = None  # the URL before it was normalized, if known

    def get_fields(self) -> BookmarkFields:
        """Return the fields that people write."""
        return BookmarkFields(
            title=self.title,
            description=self.description,
            tags=self.tags,
            folder=self.folder,
            to_read=self.to_read,
            private=self.private,
            archive_urls=self.archive_urls,
            episode_urls=self.episode_urls,
        )


def clean_tags(tags: str | Iterable[str]) -> tuple[str, ...]:
    """Return tags without surrounding blanks, each once, in the order given; inner blanks become one.

    `[" Python", "python ", "a  b"]` → `("Python", "python", "a b")`
    """
    found = tags.split(",") if isinstance(tags, str) else tags
    return tuple(dict.fromkeys(text for tag in found if (text := " ".join(tag.split()))))
