"""What goes over the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

from pydantic import BaseModel, ConfigDict, Field

from canonry.bookmarks.bookmark import ExpansionState, PutOutcome
from canonry.bookmarks.exchange_rows import MAX_TAG_CHARS, MAX_TAGS, MAX_TEXT_CHARS, MAX_TITLE_CHARS, MAX_URLS
from canonry.bookmarks.url_pipeline import MAX_URL_CHARS

if TYPE_CHECKING:
    from canonry.bookmarks.bookmark import BookmarkFields

Url = Annotated[
    str, Field(max_length=MAX_URL_CHARS, description="An http(s) URL.", examples=["https://example.com/a?utm_source=x"])
]
Tag = Annotated[str, Field(max_length=MAX_TAG_CHARS)]
Id = Annotated[int, Field(ge=1, le=2**63 - 1)]


class Texts(BaseModel):
    """What people write; a field that is left out stays as it is."""

    title: Annotated[str, Field(max_length=MAX_TITLE_CHARS)] | None = None
    description: Annotated[str, Field(max_length=MAX_TEXT_CHARS)] | None = None
    tags: Annotated[list[Tag], Field(max_length=MAX_TAGS)] | None = None
    folder: Annotated[str, Field(max_length=MAX_TITLE_CHARS)] | None = None
    to_read: bool | None = None
    private: bool | None = None
    archive_urls: Annotated[list[Url], Field(max_length=MAX_URLS)] | None = None
    episode_urls: Annotated[list[Url], Field(max_length=MAX_URLS)] | None = None

    def given(self) -> BookmarkFields:
        """The texts that were given; null is as good as nothing."""
        given = {
            name: value
            for name in Texts.model_fields
            if name in self.model_fields_set and (value := getattr(self, name)) is not None
        }
        return cast("BookmarkFields", given)


class NewBookmark(Texts):
    """A bookmark to keep."""

    url: Url


class BookmarkChange(Texts):
    """What is to be different."""

    url: Url | None = None


class BookmarkOut(BaseModel):
    """A bookmark; `original_url` is what was given where that is not `url`."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    url: str
    original_url: str | None
    exact_url: bool
    title: str
    description: str
    tags: list[str]
    folder: str
    to_read: bool
    private: bool
    archive_urls: list[str]
    episode_urls: list[str]
    expansion: ExpansionState = Field(description="Whether the link is short, and where following it stands.")
    expansion_reason: str
    policy: str
    created_at: str
    updated_at: str
    deleted_at: str | None


class PutAnswer(BookmarkOut):
    """The bookmark, and what the request did."""

    outcome: PutOutcome
