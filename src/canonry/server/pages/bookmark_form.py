"""What stands in the form of a bookmark, what is wrong with it, and what would become of its URL."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from pydantic import ValidationError

from canonry.bookmarks.draft import clean_tags
from canonry.bookmarks.url_pipeline import read_http_url
from canonry.errors import InvalidFields, InvalidUrl
from canonry.server.bookmark_input import NewBookmark
from canonry.server.pages.forms import text_of

if TYPE_CHECKING:
    from starlette.datastructures import FormData

    from canonry.bookmarks.bookmark import Bookmark, BookmarkFields
    from canonry.bookmarks.save import Bookmarks
    from canonry.bookmarks.url_pipeline import Preview


@dataclass(frozen=True, slots=True)
class Entry:
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
    def of_form(cls, form: FormData) -> Self:
        def text(name: str) -> str:
            return text_of(form, name).replace("\r\n", "\n")

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
    def of_bookmark(cls, kept: Bookmark) -> Self:
        """A bookmark to be changed: the URL as it was given, so that it can be kept exactly so."""
        return cls(
            kept.original_url or kept.url,
            kept.title,
            kept.description,
            ", ".join(kept.tags),
            kept.folder,
            "\n".join(kept.archive_urls),
            kept.to_read,
            kept.private,
            kept.exact_url,
            kept.etag,
        )

    def fields(self) -> BookmarkFields:
        """What is to be kept besides the URL; InvalidFields names everything that cannot be, the URL included."""
        wrong = {"url": reason} if (reason := _unusable(self.url)) else {}
        archived: list[str] = []
        for number, line in enumerate(self.archive_urls.splitlines()):
            if not line.strip():
                continue
            archived.append(line.strip())
            if reason := _unusable(line.strip()):
                wrong[f"archive_urls[{number}]"] = reason
        try:
            given = NewBookmark(
                url=self.url,
                title=self.title.strip(),
                description=self.description.strip(),
                tags=list(clean_tags(self.tags)),
                folder=self.folder.strip(),
                to_read=self.to_read,
                private=self.private,
                archive_urls=archived,
            )
        except ValidationError as error:
            raise InvalidFields({_place(each["loc"]): each["msg"] for each in error.errors()} | wrong) from None
        if wrong:
            raise InvalidFields(wrong)
        return given.given_fields()


@dataclass(frozen=True, slots=True)
class Shown:
    """What would become of a URL: what is kept and why, or what is wrong, and the bookmarks that are there already."""

    preview: Preview | None = None
    error: str = ""
    twins: tuple[Bookmark, ...] = field(default=())


async def shown(bookmarks: Bookmarks, owner: int, entry: Entry, *, besides: int | None = None) -> Shown:
    """Look at a URL without keeping it, and without asking the network; `besides` is no twin of itself."""
    if not entry.url.strip():
        return Shown()
    try:
        preview = await bookmarks.pipeline.preview(entry.url, exact_url=entry.exact_url)
        twins = await bookmarks.find(owner, entry.url, exact_url=entry.exact_url)
    except InvalidUrl as error:
        return Shown(error=error.reason)
    return Shown(preview, twins=tuple(each for each in twins if each.id != besides))


def told(reasons: dict[str, str]) -> dict[str, str]:
    """The reasons by field of the form: `archive_urls[1]` is said at `archive_urls`, with its line."""
    found: dict[str, list[str]] = {}
    for place, reason in reasons.items():
        name, _, index = place.partition("[")
        line = index.rstrip("]")
        found.setdefault(name, []).append(f"{int(line) + 1}: {reason}" if line.isdecimal() else reason)
    return {name: "; ".join(texts) for name, texts in found.items()}


def _unusable(text: str) -> str:
    """Why a text is no URL that can be kept; empty where it is one."""
    try:
        read_http_url(text)
    except InvalidUrl as error:
        return error.reason
    return ""


def _place(where: tuple[int | str, ...]) -> str:
    name, *index = where
    return f"{name}[{index[0]}]" if index else str(name)
