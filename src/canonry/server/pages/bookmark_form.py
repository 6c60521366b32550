"""The form of a bookmark: its fields, their errors, and the preview of its URL."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from pydantic import ValidationError

from canonry.bookmarks.draft import clean_tags
from canonry.bookmarks.identity_lookup import MatchKind
from canonry.bookmarks.url_pipeline import read_http_url
from canonry.errors import InvalidFields, InvalidUrl
from canonry.server.bookmark_input import NewBookmark
from canonry.server.pages.forms import explain_invalid, get_text

if TYPE_CHECKING:
    from starlette.datastructures import FormData

    from canonry.bookmarks.bookmark import Bookmark, BookmarkFields
    from canonry.bookmarks.identity_lookup import BookmarkMatch
    from canonry.bookmarks.save import Bookmarks
    from canonry.bookmarks.url_pipeline import Preview


@dataclass(frozen=True, slots=True)
class BookmarkEntry:
    """The fields of the form as they were typed."""

    url: str = ""
    title: str = ""
    description: str = ""
    tags: str = ""
    folder: str = ""
    archive_urls: str = ""
    to_read: bool = False
    private: bool = False
    exact_url: bool = False
    etag: str = ""

    @classmethod
    def from_form(cls, form: FormData) -> Self:
        def text(name: str) -> str:
            return get_text(form, name).replace("\r\n", "\n")

        return cls(
            url=text("url"),
            title=text("title"),
            description=text("description"),
            tags=text("tags"),
            folder=text("folder"),
            archive_urls=text("archive_urls"),
            to_read=bool(text("to_read")),
            private=bool(text("private")),
            exact_url=bool(text("exact_url")),
            etag=text("etag"),
        )

    @classmethod
    def from_bookmark(cls, bookmark: Bookmark) -> Self:
        """Fill the form with a bookmark; its URL is the original one, so that it can still be saved exactly."""
        return cls(
            url=bookmark.original_url or bookmark.url,
            title=bookmark.title,
            description=bookmark.description,
            tags=", ".join(bookmark.tags),
            folder=bookmark.folder,
            archive_urls="\n".join(bookmark.archive_urls),
            to_read=bookmark.to_read,
            private=bookmark.private,
            exact_url=bookmark.exact_url,
            etag=bookmark.etag,
        )

    def validate(self) -> BookmarkFields:
        """Return the fields to save besides the URL; InvalidFields names every invalid field, the URL included."""
        errors = {"url": reason} if (reason := _find_url_error(self.url)) else {}
        archive_urls: list[str] = []
        for number, line in enumerate(self.archive_urls.splitlines()):
            if not line.strip():
                continue
            archive_urls.append(line.strip())
            if reason := _find_url_error(line.strip()):
                errors[f"archive_urls[{number}]"] = reason
        try:
            given = NewBookmark(
                url=self.url,
                title=self.title.strip(),
                description=self.description.strip(),
                tags=list(clean_tags(self.tags)),
                folder=self.folder.strip(),
                to_read=self.to_read,
                private=self.private,
                archive_urls=archive_urls,
            )
        except ValidationError as error:
            reasons = {_name_field(each["loc"]): explain_invalid(each) for each in error.errors()}
            raise InvalidFields(reasons | errors) from None
        if errors:
            raise InvalidFields(errors)
        return given.collect_given_fields()


@dataclass(frozen=True, slots=True)
class TypedText:
    """A text that was typed into a field that keeps another text."""

    field: str
    text: str


@dataclass(frozen=True, slots=True)
class KnownBookmark:
    """A bookmark whose page somebody saves again, and what they typed: nothing of it is lost (contract U4)."""

    match: BookmarkMatch
    typed: BookmarkEntry
    added_tags: tuple[str, ...] = ()

    @property
    def is_certain(self) -> bool:
        """Whether the URL itself is saved; otherwise it may be saved as another bookmark."""
        return self.match.kind is MatchKind.URL

    def merge(self) -> BookmarkEntry:
        """Return the form of the bookmark, with what was typed in the fields that it leaves empty."""
        kept = BookmarkEntry.from_bookmark(self.match.bookmark)
        texts = dict.fromkeys(each for each in (kept.description, self.typed.description.strip()) if each)
        archived = dict.fromkeys((*kept.archive_urls.splitlines(), *self.typed.archive_urls.split()))
        return replace(
            kept,
            title=kept.title or self.typed.title.strip(),
            description="\n\n".join(texts),
            tags=", ".join(clean_tags(f"{kept.tags},{self.typed.tags}")),
            folder=kept.folder or self.typed.folder.strip(),
            archive_urls="\n".join(archived),
            to_read=kept.to_read or self.typed.to_read,
            private=kept.private or self.typed.private,
        )

    def list_other_texts(self) -> list[TypedText]:
        """Return what was typed and is in no field of the merged form."""
        merged = self.merge()
        typed = {
            "Title": (self.typed.title.strip(), merged.title),
            "Folder": (self.typed.folder.strip(), merged.folder),
        }
        return [TypedText(field, text) for field, (text, kept) in typed.items() if text not in {"", kept}]

    def has_unsaved_changes(self) -> bool:
        """Whether the merged form differs from what is saved."""
        return self.merge() != BookmarkEntry.from_bookmark(self.match.bookmark)


@dataclass(frozen=True, slots=True)
class UrlPreview:
    """A preview of saving a URL: the normalized URL and its steps, or an error; `twins` have the URL already."""

    preview: Preview | None = None
    error: str = ""
    twins: tuple[Bookmark, ...] = ()


async def preview_url(
    bookmarks: Bookmarks, owner: int, entry: BookmarkEntry, *, edited_id: int | None = None
) -> UrlPreview:
    """Preview the URL of the form; sends no request and stores nothing. The edited bookmark is not its own twin."""
    if not entry.url.strip():
        return UrlPreview()
    try:
        preview = await bookmarks.pipeline.preview(entry.url, exact_url=entry.exact_url)
        twins = await bookmarks.find(owner, entry.url, exact_url=entry.exact_url)
    except InvalidUrl as error:
        return UrlPreview(error=error.reason)
    return UrlPreview(preview, twins=tuple(twin for twin in twins if twin.id != edited_id))


def group_errors(reasons: dict[str, str]) -> dict[str, str]:
    """Return one text per field of the form: that of `archive_urls[1]` is shown at `archive_urls`, as line 2."""
    texts: dict[str, list[str]] = {}
    for location, reason in reasons.items():
        name, _, index = location.partition("[")
        position, part = index.rstrip("]"), "Tag" if name == "tags" else "Line"
        texts.setdefault(name, []).append(f"{part} {int(position) + 1}: {reason}" if position else reason)
    return {name: "; ".join(each) for name, each in texts.items()}


def _find_url_error(text: str) -> str:
    """Return why a text is not a URL that can be saved; empty if it is one."""
    try:
        read_http_url(text)
    except InvalidUrl as error:
        return error.reason
    return ""


def _name_field(location: tuple[int | str, ...]) -> str:
    name, *index = location
    return f"{name}[{index[0]}]" if index else str(name)
