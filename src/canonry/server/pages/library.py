"""The library: all bookmarks in compact rows, with tags and folders beside them; change many at once (contract U3)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Self
from urllib.parse import urlencode

from fastapi import Query, Request, Response

from canonry.bookmarks.bookmark import BookmarkSearch, BookmarkSort
from canonry.bookmarks.bulk_edits import BulkAction, BulkChange
from canonry.bookmarks.draft import clean_tags
from canonry.bookmarks.exchange_rows import MAX_TAG_CHARS, MAX_TAGS, MAX_TITLE_CHARS
from canonry.bookmarks.library_counts import count_library
from canonry.bookmarks.search_query import quote_term
from canonry.bookmarks.search_words import find_site
from canonry.bookmarks.twin_hints import find_hinted_ids
from canonry.server.dependencies import RowId, get_owner_id, get_service
from canonry.server.pages.forms import choose_own_path, get_text, page_router, redirect
from canonry.server.pages.rendering import render
from canonry.server.problems import RequestRefused

if TYPE_CHECKING:
    from starlette.datastructures import FormData

router = page_router()
_QueryText = Annotated[str, Query(max_length=1000)]
_BOOKMARKS_PER_PAGE = 50
_SHOWN_TAGS, _MAX_TAGS_LISTED, _MAX_FOLDERS_LISTED = 40, 400, 200
_MAX_SELECTED = 10_000
_TO_READ = {"yes": True, "no": False}
_SORTS = {
    BookmarkSort.NEWEST: "Newest first",
    BookmarkSort.OLDEST: "Oldest first",
    BookmarkSort.CHANGED: "Last changed",
    BookmarkSort.TITLE: "Title",
    BookmarkSort.SITE: "Site",
}
# Messages after a write, by the name in the URL of the redirect: no text is taken from a URL.
_NOTICES = {
    "added": "Saved.",
    "changed": "Changes saved.",
    "deleted": "Moved to the trash. It is deleted after 30 days.",
    "restored": "Restored from the trash.",
    "undone": "Undone. The bookmarks are as they were before.",
    "partly-undone": "Undone, except for bookmarks that were changed again in the meantime.",
    "nothing": "Nothing was changed. Select bookmarks first.",
    "no-tags": "Nothing was changed. Enter at least one tag.",
}
_EDIT_NOTICES = {
    BulkAction.TAG: "tagged",
    BulkAction.UNTAG: "untagged",
    BulkAction.MOVE: "moved",
    BulkAction.MARK_READ: "marked as read",
    BulkAction.MARK_UNREAD: "marked as unread",
    BulkAction.DELETE: "moved to the trash",
    BulkAction.RESTORE: "restored",
}


@dataclass(frozen=True, slots=True)
class LibraryView:
    """The filter, order and page of the library: the parameters of its URL."""

    q: str = ""
    tag: str = ""
    folder: str = ""
    to_read: str = ""
    trash: str = ""
    sort: str = ""

    @classmethod
    def from_form(cls, form: FormData) -> Self:
        return cls(**{name: get_text(form, name)[:1000] for name in cls.__slots__})

    @property
    def fields(self) -> dict[str, str]:
        """The parameters that are set."""
        return {name: value for name in self.__slots__ if (value := getattr(self, name))}

    @property
    def is_filtered(self) -> bool:
        return bool(self.fields.keys() - {"trash", "sort"})

    def make_search(self) -> BookmarkSearch:
        sort = BookmarkSort(self.sort) if self.sort in set(BookmarkSort) else BookmarkSort.NEWEST
        return BookmarkSearch(self.q, self.tag, self.folder, _TO_READ.get(self.to_read), bool(self.trash), sort)

    def make_path(self, **others: object) -> str:
        """Return the URL of this view, with other parameters."""
        query = urlencode(self.fields | {name: str(value) for name, value in others.items()})
        return f"/bookmarks?{query}" if query else "/bookmarks"

    def toggle(self, name: str, value: str) -> str:
        """Return the URL of this view with one more term in its search, or without it if it has it."""
        term = quote_term(name, value)
        words = f" {self.q} "
        q = words.replace(f" {term} ", " ") if f" {term} " in words else f"{words}{term}"
        return replace(self, q=" ".join(q.split())).make_path()

    def has(self, name: str, value: str) -> bool:
        return f" {quote_term(name, value)} " in f" {self.q} "


def choose_library_path(back: str) -> str:
    """Return the view of the library that a form was opened from; the whole library if it names no view."""
    path = choose_own_path(back, "/bookmarks")
    return path if path.partition("?")[0] == "/bookmarks" else "/bookmarks"


def make_notice_path(back: str, notice: str, bookmark_id: int) -> str:
    """Return the view of the library that a form was opened from, with a message about a bookmark."""
    path = choose_library_path(back)
    return f"{path}{'&' if '?' in path else '?'}notice={notice}&about={bookmark_id}"


@router.get("/bookmarks")
async def list_bookmarks(
    request: Request,
    q: _QueryText = "",
    tag: _QueryText = "",
    folder: _QueryText = "",
    to_read: _QueryText = "",
    trash: _QueryText = "",
    sort: _QueryText = "",
    cursor: Annotated[str, Query(max_length=1000)] = "",
    notice: _QueryText = "",
    about: _QueryText = "",
) -> Response:
    service, owner = get_service(request), get_owner_id(request)
    view = LibraryView(q, tag, folder, to_read, trash, sort)
    search = view.make_search()
    try:
        page = await service.bookmarks.search(owner, search, cursor=cursor or None, limit=_BOOKMARKS_PER_PAGE)
    except ValueError:
        raise RequestRefused(400, "Invalid page of the list. Start again from the first page.") from None
    counts = await service.database.read(partial(count_library, owner=owner))
    if view.is_filtered or search.in_trash:
        is_complete = not cursor and page.next_cursor is None
        count = len(page.bookmarks) if is_complete else await service.bookmarks.store.count_matches(owner, search)
    else:
        count = counts.total
    hints = await service.database.read(partial(find_hinted_ids, owner=owner, shown=page.bookmarks))
    return render(
        request,
        "library.html",
        view=view,
        page=page,
        search=search,
        sorts=_SORTS,
        is_later=bool(cursor),
        count=count,
        counts=counts,
        shown_tags=counts.tags[:_SHOWN_TAGS],
        more_tags=counts.tags[_SHOWN_TAGS:_MAX_TAGS_LISTED],
        folders=counts.folders[:_MAX_FOLDERS_LISTED],
        hints=hints if not search.in_trash else frozenset[int](),
        icons=await service.bookmarks.icons.list_known({find_site(each.url) for each in page.bookmarks}),
        here=view.make_path(cursor=cursor) if cursor else view.make_path(),
        following=view.make_path(cursor=page.next_cursor) if page.next_cursor else "",
        **await _make_notice(request, notice, about),
    )


@router.post("/bookmarks/bulk")
async def change_many(request: Request) -> Response:
    """Change the selected bookmarks, or all that match the search."""
    form = await request.form(max_fields=_MAX_SELECTED + 100)
    view = LibraryView.from_form(form)
    change = _read_change(form)
    if change is None:
        return redirect(view.make_path(notice="no-tags"))
    service, owner = get_service(request), get_owner_id(request)
    edits = service.bookmarks.bulk_edits
    if get_text(form, "all"):
        edit = await edits.apply_to_matches(owner, view.make_search(), change, service.clock())
    else:
        ids = [
            int(each) for each in form.getlist("id") if isinstance(each, str) and each.isdecimal() and len(each) < 19
        ]
        if not ids:
            return redirect(view.make_path(notice="nothing"))
        edit = await edits.apply(owner, ids, change, service.clock())
    return redirect(view.make_path(notice="edited", about=edit.id))


@router.post("/bookmarks/edits/{edit_id}/undo")
async def undo_change(request: Request, edit_id: RowId) -> Response:
    """Restore the bookmarks of a change as they were before it."""
    service = get_service(request)
    view = LibraryView.from_form(await request.form())
    undone = await service.bookmarks.bulk_edits.undo(get_owner_id(request), edit_id, service.clock())
    return redirect(view.make_path(notice="partly-undone" if undone.skipped else "undone"))


@router.get("/icons/{site}")
async def show_icon(request: Request, site: str) -> Response:
    """Return the icon of a site of an own bookmark."""
    icon = await get_service(request).bookmarks.icons.find(get_owner_id(request), site)
    if icon is None:
        raise RequestRefused(404, "There is no icon of this site.")
    headers = {"Cache-Control": "private, max-age=604800", "Content-Security-Policy": "default-src 'none'; sandbox"}
    return Response(icon.content, media_type=icon.media_type, headers=headers)


async def _make_notice(request: Request, name: str, about: str) -> dict[str, Any]:
    """Return the variables of the message after a write; `about` is the id of a bookmark or of a change of many."""
    number = int(about) if about.isdecimal() and len(about) < 19 else 0
    edit = None
    if name == "edited" and number:
        edit = await get_service(request).bookmarks.bulk_edits.get(get_owner_id(request), number)
    text = _NOTICES.get(name, "")
    if edit is not None:
        text = f"{edit.count:,} {'bookmark' if edit.count == 1 else 'bookmarks'} {_EDIT_NOTICES[edit.action]}."
    return {
        "notice": text,
        "notice_name": name if text else "",
        "about": number,
        "edit": edit,
        "is_undoable": name == "deleted" or (edit is not None and edit.count > 0 and not edit.is_undone),
    }


def _read_change(form: FormData) -> BulkChange | None:
    """Return the change that a form asks for; None if its tags are missing."""
    try:
        action = BulkAction(get_text(form, "action"))
    except ValueError:
        raise RequestRefused(400, "Unknown action.") from None
    value = get_text(form, "value")
    if action in {BulkAction.TAG, BulkAction.UNTAG}:
        tags = clean_tags(value)
        if len(tags) > MAX_TAGS or any(len(tag) > MAX_TAG_CHARS for tag in tags):
            raise RequestRefused(400, f"At most {MAX_TAGS} tags of {MAX_TAG_CHARS} characters each.")
        return BulkChange(action, tags=tags) if tags else None
    folder = "/".join(part for text in value.split("/") if (part := text.strip()))
    if len(folder) > MAX_TITLE_CHARS:
        raise RequestRefused(400, f"The name of a folder has at most {MAX_TITLE_CHARS} characters.")
    return BulkChange(action, folder=folder if action is BulkAction.MOVE else "")
