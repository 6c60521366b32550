"""The fields of a bookmark that clients send, with their limits; used by the API, Pinboard's API and the form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

from pydantic import BaseModel, Field

from canonry.bookmarks.exchange_rows import MAX_TAG_CHARS, MAX_TAGS, MAX_TEXT_CHARS, MAX_TITLE_CHARS, MAX_URLS
from canonry.bookmarks.url_pipeline import MAX_URL_CHARS

if TYPE_CHECKING:
    from canonry.bookmarks.bookmark import BookmarkFields

Url = Annotated[
    str, Field(max_length=MAX_URL_CHARS, description="An http(s) URL.", examples=["https://example.com/a?utm_source=x"])
]
Tag = Annotated[str, Field(max_length=MAX_TAG_CHARS)]


class BookmarkFieldsIn(BaseModel):
    """The fields people write. Fields that are left out keep their value."""

    title: Annotated[str, Field(max_length=MAX_TITLE_CHARS)] | None = None
    description: Annotated[str, Field(max_length=MAX_TEXT_CHARS)] | None = None
    tags: Annotated[list[Tag], Field(max_length=MAX_TAGS)] | None = None
    folder: Annotated[str, Field(max_length=MAX_TITLE_CHARS)] | None = None
    to_read: bool | None = None
    private: bool | None = None
    archive_urls: Annotated[list[Url], Field(max_length=MAX_URLS)] | None = None
    episode_urls: Annotated[list[Url], Field(max_length=MAX_URLS)] | None = None

    def collect_given_fields(self) -> BookmarkFields:
        """Return the fields that were sent; null counts as not sent."""
        given = {
            name: value
            for name in BookmarkFieldsIn.model_fields
            if name in self.model_fields_set and (value := getattr(self, name)) is not None
        }
        return cast("BookmarkFields", given)


class NewBookmark(BookmarkFieldsIn):
    """A bookmark to save."""

    url: Url


class BookmarkChange(BookmarkFieldsIn):
    """The fields of a bookmark to change."""

    url: Url | None = None
