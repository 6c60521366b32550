"""`/v1`: Pinboard's API, so that its clients work with this service (contract B8, https://pinboard.in/api).

Its GETs write, so every request needs a token, also in personal mode.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, TypeAlias
from xml.etree import ElementTree

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from canonry.accounts import User
from canonry.bookmarks.bookmark import Bookmark, BookmarkSearch, OnDuplicate
from canonry.bookmarks.draft import Draft
from canonry.bookmarks.exchange_rows import read_time
from canonry.bookmarks.import_problems import RowRefused
from canonry.core.keys import replace_unstorable
from canonry.errors import AlreadySaved, CanonryError, StoreError
from canonry.server.access import RateLimiter
from canonry.server.bookmark_input import NewBookmark
from canonry.server.dependencies import get_service
from canonry.server.problems import RequestRefused
from canonry.server.service import Service
from canonry.store.schema import stamp

router = APIRouter(prefix="/v1", tags=["pinboard"])
Handler: TypeAlias = "Callable[..., Awaitable[Response]]"
_MAX_TAGS = 100
_BOOKMARKS_PER_READ = 500
_MAX_CLOCK_SKEW = timedelta(minutes=10)  # a time further in the future is replaced by now
# Result codes of Pinboard; its clients compare them.
_DONE, _MISSING, _EXISTS = "done", "item not found", "item already exists"
_YES_NO = {"type": "string", "enum": ["yes", "no"]}
_TEXT = {"type": "string"}
_NUMBER = {"type": "integer", "minimum": 0, "maximum": 1_000_000}


class PostResult(TypedDict):
    """`done`, or why not."""

    result_code: str


class Post(TypedDict):
    """A bookmark in Pinboard's terms: `description` is the title, `extended` the description."""

    href: str
    description: str
    extended: str
    meta: str
    hash: str
    time: str
    shared: str
    toread: str
    tags: str


class PostList(TypedDict):
    """Some bookmarks."""

    date: str
    user: str
    posts: list[Post]


class LastUpdate(TypedDict):
    """The time of the last change."""

    update_time: str


class SentToken(TypedDict):
    """The token that was sent."""

    result: str


@dataclass(frozen=True, slots=True)
class PinboardCall:
    """A request: its user, token and parameters."""

    user: User
    token: str
    given: Mapping[str, str]
    service: Service

    def get(self, name: str) -> str:
        """Return a parameter; empty if it is missing."""
        return self.given.get(name, "").strip()

    def respond(self, content: object, xml: ElementTree.Element) -> Response:
        """Return a response as JSON or XML, whichever the client asked for."""
        if self.get("format").lower() == "json":
            return JSONResponse(content)
        return Response(ElementTree.tostring(xml, "utf-8", xml_declaration=True), media_type="text/xml")

    def respond_result(self, code: str) -> Response:
        """Return the result of a change."""
        return self.respond({"result_code": code}, _make_element("result", code=code))


async def read_call(request: Request) -> PinboardCall:
    """Read the parameters from query and form, and find the user of the token; RequestRefused (401) without one."""
    given = dict(request.query_params)
    if request.method == "POST":
        async with request.form(max_files=0, max_fields=100) as form:
            given |= {name: value for name, value in form.items() if isinstance(value, str)}
    service = get_service(request)
    name, _, token = given.pop("auth_token", "").rpartition(":")
    user = await service.users.find_by_token(token, service.clock()) if token else None
    # In personal mode the owner has no name, and any name is accepted.
    if user is None or (user.name and user.name != name):
        headers = {"WWW-Authenticate": 'auth_token realm="canonry"'}
        raise RequestRefused(401, "A token is required. Send the parameter auth_token=NAME:TOKEN.", headers)
    limits = request.app.state.pinboard_limits
    assert isinstance(limits, RateLimiter)
    limits.take(token)
    request.state.user = user
    return PinboardCall(user, f"{name}:{token}", given, service)


Call = Annotated[PinboardCall, Depends(read_call)]


def _add_route(path: str, model: Any, summary: str, **parameters: dict[str, Any]) -> Callable[[Handler], Handler]:
    """Return a decorator that adds GET and POST routes; parameters come from the query or a form."""
    fields = {"format": {"type": "string", "enum": ["json", "xml"], "default": "xml"}, **parameters}
    listed = [{"name": name, "in": "query", "required": False, "schema": schema} for name, schema in fields.items()]
    form = {"application/x-www-form-urlencoded": {"schema": {"type": "object", "properties": fields}}}
    extra: dict[str, Any] = {"parameters": listed, "security": [{"auth_token": []}]}
    options: dict[str, Any] = {
        "response_model": model,
        "summary": summary,
        "responses": {200: {"description": "The answer, or a result code.", "content": {"text/xml": {}}}},
    }

    def add_routes(handler: Handler) -> Handler:
        router.get(path, openapi_extra=extra, **options)(handler)
        router.post(path, openapi_extra={**extra, "requestBody": {"content": form}}, **options)(handler)
        return handler

    return add_routes


@_add_route(
    "/posts/add",
    PostResult,
    "Save a bookmark",
    url=_TEXT,
    description={**_TEXT, "description": "The title."},
    extended=_TEXT,
    tags={**_TEXT, "description": "At most 100, separated by spaces or commas."},
    dt={**_TEXT, "description": "When it was created, as 2026-01-31T10:00:00Z."},
    replace={**_YES_NO, "default": "yes"},
    shared={**_YES_NO, "default": "yes"},
    toread={**_YES_NO, "default": "no"},
)
async def add_post(call: Call) -> Response:
    """Updates a bookmark that is already saved, unless `replace=no`."""
    try:
        await _add(call)
    except AlreadySaved:
        return call.respond_result(_EXISTS)
    except StoreError:
        raise
    except CanonryError as error:
        return call.respond_result(str(error))
    return call.respond_result(_DONE)


@_add_route("/posts/delete", PostResult, "Delete a bookmark", url=_TEXT)
async def delete_post(call: Call) -> Response:
    """Moves it to the trash, where it is deleted after 30 days."""
    found = await _find_bookmarks(call)
    for bookmark in found:
        await call.service.bookmarks.store.trash(call.user.id, bookmark.id, call.service.clock())
    return call.respond_result(_DONE if found else _MISSING)


@_add_route(
    "/posts/get",
    PostList,
    "Bookmarks of a day, or the one with a URL",
    url=_TEXT,
    dt={**_TEXT, "description": "The day, as 2026-01-31; by default the latest with bookmarks."},
    tag=_TEXT,
    meta=_YES_NO,
)
async def get_posts(call: Call) -> Response:
    return await _respond_posts(call, await (_find_bookmarks(call) if call.get("url") else _list_day(call)))


@_add_route("/posts/recent", PostList, "The newest bookmarks", tag=_TEXT, count={**_NUMBER, "default": 15})
async def get_recent_posts(call: Call) -> Response:
    """At most 100."""
    count = min(_parse_number(call, "count", 15), 100)
    bookmarks: list[Bookmark] = []
    async for bookmark in _iterate_newest(call):
        if len(bookmarks) >= count:
            break
        bookmarks.append(bookmark)
    return await _respond_posts(call, bookmarks)


@_add_route(
    "/posts/all",
    list[Post],
    "All bookmarks",
    tag=_TEXT,
    start=_NUMBER,
    results=_NUMBER,
    fromdt=_TEXT,
    todt=_TEXT,
    meta=_YES_NO,
)
async def get_all_posts(call: Call) -> Response:
    """The newest first."""
    start, results = _parse_number(call, "start", 0), _parse_number(call, "results", 10**9)
    since, until = _parse_time(call, "fromdt"), _parse_time(call, "todt")
    bookmarks: list[Bookmark] = []
    async for bookmark in _iterate_newest(call):
        if bookmark.created_at < since or len(bookmarks) >= start + results:
            break
        if not until or bookmark.created_at < until:
            bookmarks.append(bookmark)
    root = _make_element("posts", user=call.user.name, tag=call.get("tag"))
    return await _respond_list(call, bookmarks[start:], root, lambda posts: posts)


@_add_route("/posts/update", LastUpdate, "Time of the last change")
async def get_update(call: Call) -> Response:
    """For clients that check whether anything changed."""
    when = _format_time(
        await call.service.bookmarks.store.get_last_change(call.user.id) or stamp(datetime.fromtimestamp(0, UTC))
    )
    return call.respond({"update_time": when}, _make_element("update", time=when))


@_add_route("/tags/get", dict[str, int], "Every tag and its number of bookmarks")
async def get_tags(call: Call) -> Response:
    counts = await call.service.bookmarks.store.count_tags(call.user.id)
    root = _make_element("tags")
    for tag, count in counts.items():
        root.append(_make_element("tag", count=str(count), tag=tag))
    return call.respond(counts, root)


@_add_route("/user/api_token", SentToken, "The token that was sent")
async def get_token(call: Call) -> Response:
    """Only a digest of it is stored, so this returns the token of the request."""
    token = call.token.rpartition(":")[2]
    root = _make_element("result")
    root.text = token
    return call.respond({"result": token}, root)


async def _add(call: PinboardCall) -> None:
    tags = call.get("tags").replace(",", " ").split()
    if not call.get("url") or not call.get("description"):
        raise CanonryError("missing url" if not call.get("url") else "must provide title")
    if len(tags) > _MAX_TAGS:
        raise CanonryError(f"more than {_MAX_TAGS} tags")
    try:
        body = NewBookmark(
            url=call.get("url"),
            title=call.get("description"),
            description=call.get("extended"),
            tags=tags,
            to_read=call.get("toread").lower() == "yes",
            private=call.get("shared").lower() == "no",
        )
    except ValidationError as error:
        [first, *_] = error.errors()
        raise CanonryError(f"{first['loc'][0]}: {first['msg']}") from None
    await call.service.bookmarks.put(
        call.user.id,
        Draft(body.url, created_at=_parse_created_at(call)),
        on_duplicate=OnDuplicate.ERROR if call.get("replace").lower() == "no" else OnDuplicate.UPDATE,
        fields=body.collect_given_fields(),
        by_alias=False,  # a client gets and deletes under the URL that it added
    )


def _parse_created_at(call: PinboardCall) -> str:
    found = _parse_time(call, "dt")
    return found if found <= stamp(call.service.clock() + _MAX_CLOCK_SKEW) else ""


def _parse_time(call: PinboardCall, name: str) -> str:
    """Return a time as the tables store it; empty if it is missing."""
    try:
        return read_time(call.get(name))
    except RowRefused:
        raise CanonryError(f"{name}: not a time such as 2026-01-31T10:00:00Z") from None


async def _find_bookmarks(call: PinboardCall) -> list[Bookmark]:
    """Return the bookmark with exactly this URL, else the one with its normal form.

    Clients delete what is found, so a proven alias does not count.
    """
    url, bookmarks = call.get("url"), call.service.bookmarks
    try:
        found = await bookmarks.find(call.user.id, url, exact_url=True)
        return found or await bookmarks.find(call.user.id, url, by_alias=False)
    except StoreError:
        raise
    except CanonryError:
        return []  # an invalid URL is never saved


async def _iterate_newest(call: PinboardCall) -> AsyncIterator[Bookmark]:
    """Yield the bookmarks with all the tags of the request, newest first; case does not matter."""
    wanted = {tag.lower() for tag in call.get("tag").replace(",", " ").split()}
    store, cursor = call.service.bookmarks.store, None
    while True:
        page = await store.search(call.user.id, BookmarkSearch(), cursor=cursor, limit=_BOOKMARKS_PER_READ)
        for bookmark in page.bookmarks:
            if wanted <= {tag.lower() for tag in bookmark.tags}:
                yield bookmark
        if (cursor := page.next_cursor) is None:
            return


async def _list_day(call: PinboardCall) -> list[Bookmark]:
    """Return the bookmarks of a day, by default of the latest with any."""
    day = call.get("dt")[:10]
    bookmarks: list[Bookmark] = []
    async for bookmark in _iterate_newest(call):
        day = day or bookmark.created_at[:10]
        if bookmark.created_at[:10] < day:
            break
        if bookmark.created_at[:10] == day:
            bookmarks.append(bookmark)
    return bookmarks


async def _respond_posts(call: PinboardCall, bookmarks: list[Bookmark]) -> Response:
    name, date = call.user.name, _format_time(bookmarks[0].created_at if bookmarks else stamp(call.service.clock()))
    root = _make_element("posts", dt=date, user=name)
    return await _respond_list(call, bookmarks, root, lambda posts: {"date": date, "user": name, "posts": posts})


async def _respond_list(
    call: PinboardCall,
    bookmarks: list[Bookmark],
    root: ElementTree.Element,
    make_content: Callable[[list[Post]], object],
) -> Response:
    def build_response() -> Response:
        posts = [_make_post(bookmark) for bookmark in bookmarks]
        for post in posts:
            attributes = {"tag" if name == "tags" else name: str(text) for name, text in post.items()}
            root.append(_make_element("post", **attributes))
        return call.respond(make_content(posts), root)

    return await asyncio.to_thread(build_response)  # there may be a hundred thousand bookmarks


def _make_post(bookmark: Bookmark) -> Post:
    return {
        "href": bookmark.url,
        "description": bookmark.title,
        "extended": bookmark.description,
        "meta": _hash_md5(bookmark.etag),
        "hash": _hash_md5(bookmark.url),
        "time": _format_time(bookmark.created_at),
        "shared": "no" if bookmark.private else "yes",
        "toread": "yes" if bookmark.to_read else "no",
        # In Pinboard, a tag is one word.
        "tags": " ".join(tag.replace(" ", "_") for tag in bookmark.tags),
    }


def _make_element(name: str, **attributes: str) -> ElementTree.Element:
    return ElementTree.Element(name, {key: _drop_control_characters(value) for key, value in attributes.items()})


def _drop_control_characters(text: str) -> str:
    """Drop what XML 1.0 cannot contain: control characters but tab and line ends, U+FFFE, U+FFFF."""
    return "".join(
        each for each in replace_unstorable(text) if each in "\t\n\r" or (each >= " " and each not in "\ufffe\uffff")
    )


def _parse_number(call: PinboardCall, name: str, default: int) -> int:
    text = call.get(name)
    return int(text[:9]) if text.isascii() and text.isdecimal() else default


def _format_time(text: str) -> str:
    """`2026-01-31T10:00:00.000000Z` → `2026-01-31T10:00:00Z`."""
    return f"{text[:19]}Z"


def _hash_md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
