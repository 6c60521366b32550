"""`/v1`: Pinboard's API, so that its clients work here with another address (contract B8, https://pinboard.in/api).

Its GETs write, so every request must bring its token, also where the rest of the service wants none.
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
from pydantic import BaseModel, ValidationError

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
Answer: TypeAlias = "Callable[..., Awaitable[Response]]"
_MAX_TAGS = 100
_PAGE = 500
_AHEAD = timedelta(minutes=10)  # a later time than this is taken for now
_DONE, _MISSING, _EXISTS = "done", "item not found", "item already exists"
_YES_NO = {"type": "string", "enum": ["yes", "no"]}
_TEXT = {"type": "string"}
_NUMBER = {"type": "integer", "minimum": 0, "maximum": 1_000_000}


class ResultOut(BaseModel):
    """`done`, or why not."""

    result_code: str


class PostOut(BaseModel):
    """A bookmark as Pinboard names things: `description` is the title, `extended` the description."""

    href: str
    description: str
    extended: str
    meta: str
    hash: str
    time: str
    shared: str
    toread: str
    tags: str


class PostsOut(BaseModel):
    """Some bookmarks."""

    date: str
    user: str
    posts: list[PostOut]


class UpdateOut(BaseModel):
    """When something last changed."""

    update_time: str


class TokenOut(BaseModel):
    """The token that was sent."""

    result: str


@dataclass(frozen=True, slots=True)
class PinboardCall:
    """A request: who asks, for what, and in which form the answer is to be."""

    user: User
    token: str
    given: Mapping[str, str]
    service: Service

    def get(self, name: str) -> str:
        """A parameter, empty where it is not given."""
        return self.given.get(name, "").strip()

    def answer(self, said: Any, xml: ElementTree.Element) -> Response:
        """What was found, as JSON or XML."""
        if self.get("format").lower() == "json":
            return JSONResponse(said)
        return Response(ElementTree.tostring(xml, "utf-8", xml_declaration=True), media_type="text/xml")

    def result(self, code: str) -> Response:
        """What became of a change."""
        return self.answer({"result_code": code}, _element("result", code=code))


async def read_call(request: Request) -> PinboardCall:
    """The parameters, from query and form, and whose token came with them; Refused where it is nobody's."""
    given = dict(request.query_params)
    if request.method == "POST":
        async with request.form(max_files=0, max_fields=100) as form:
            given |= {name: value for name, value in form.items() if isinstance(value, str)}
    service = get_service(request)
    name, _, token = given.pop("auth_token", "").rpartition(":")
    user = await service.users.find_by_token(token) if token else None
    # Without users the owner has no name, and any will do.
    if user is None or (user.name and user.name != name):
        headers = {"WWW-Authenticate": 'auth_token realm="canonry"'}
        raise RequestRefused(401, "A token is required. Send the parameter auth_token=NAME:TOKEN.", headers)
    limits = request.app.state.pinboard_limits
    assert isinstance(limits, RateLimiter)
    limits.take(token)
    request.state.user = user
    return PinboardCall(user, f"{name}:{token}", given, service)


Call = Annotated[PinboardCall, Depends(read_call)]


def _route(path: str, model: Any, summary: str, **parameters: dict[str, Any]) -> Callable[[Answer], Answer]:
    """A route that takes its parameters from the query, or from a form."""
    fields = {"format": {"type": "string", "enum": ["json", "xml"], "default": "xml"}, **parameters}
    listed = [{"name": name, "in": "query", "required": False, "schema": schema} for name, schema in fields.items()]
    form = {"application/x-www-form-urlencoded": {"schema": {"type": "object", "properties": fields}}}
    extra: dict[str, Any] = {"parameters": listed, "security": [{"auth_token": []}]}
    options: dict[str, Any] = {
        "response_model": model,
        "summary": summary,
        "responses": {200: {"description": "What was asked for, or why not.", "content": {"text/xml": {}}}},
    }

    def routed(answer: Answer) -> Answer:
        router.get(path, openapi_extra=extra, **options)(answer)
        router.post(path, openapi_extra={**extra, "requestBody": {"content": form}}, **options)(answer)
        return answer

    return routed


@_route(
    "/posts/add",
    ResultOut,
    "Keep a bookmark",
    url=_TEXT,
    description={**_TEXT, "description": "The title."},
    extended=_TEXT,
    tags={**_TEXT, "description": "At most 100, with blanks or commas between them."},
    dt={**_TEXT, "description": "When it was made, as 2026-01-31T10:00:00Z."},
    replace={**_YES_NO, "default": "yes"},
    shared={**_YES_NO, "default": "yes"},
    toread={**_YES_NO, "default": "no"},
)
async def add_post(call: Call) -> Response:
    """A bookmark that is kept already gets all these texts, or stays as it is with `replace=no`."""
    try:
        await _add(call)
    except AlreadySaved:
        return call.result(_EXISTS)
    except StoreError:
        raise
    except CanonryError as error:
        return call.result(str(error))
    return call.result(_DONE)


@_route("/posts/delete", ResultOut, "Delete a bookmark", url=_TEXT)
async def delete_post(call: Call) -> Response:
    """To the trash, which empties after 30 days."""
    found = await _found(call)
    for kept in found:
        await call.service.bookmarks.store.trash(call.user.id, kept.id, call.service.clock())
    return call.result(_DONE if found else _MISSING)


@_route(
    "/posts/get",
    PostsOut,
    "Bookmarks of a day, or that of a URL",
    url=_TEXT,
    dt={**_TEXT, "description": "The day, as 2026-01-31; the latest with bookmarks where it is not said."},
    tag=_TEXT,
    meta=_YES_NO,
)
async def get_posts(call: Call) -> Response:
    return await _posts(call, await (_found(call) if call.get("url") else _of_day(call)))


@_route("/posts/recent", PostsOut, "The newest bookmarks", tag=_TEXT, count={**_NUMBER, "default": 15})
async def get_recent_posts(call: Call) -> Response:
    """At most 100."""
    count = min(_number(call, "count", 15), 100)
    found: list[Bookmark] = []
    async for kept in _newest(call):
        if len(found) >= count:
            break
        found.append(kept)
    return await _posts(call, found)


@_route(
    "/posts/all",
    list[PostOut],
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
    start, results = _number(call, "start", 0), _number(call, "results", 10**9)
    since, until = _stamp(call, "fromdt"), _stamp(call, "todt")
    found: list[Bookmark] = []
    async for kept in _newest(call):
        if kept.created_at < since or len(found) >= start + results:
            break
        if not until or kept.created_at < until:
            found.append(kept)
    root = _element("posts", user=call.user.name, tag=call.get("tag"))
    return await _listed(call, found[start:], root, lambda posts: posts)


@_route("/posts/update", UpdateOut, "When something last changed")
async def get_update(call: Call) -> Response:
    """For clients that ask whether there is anything new."""
    when = _time(
        await call.service.bookmarks.store.get_last_change(call.user.id) or stamp(datetime.fromtimestamp(0, UTC))
    )
    return call.answer({"update_time": when}, _element("update", time=when))


@_route("/tags/get", dict[str, int], "Every tag, and how many bookmarks have it")
async def get_tags(call: Call) -> Response:
    counts = await call.service.bookmarks.store.count_tags(call.user.id)
    root = _element("tags")
    for tag, count in counts.items():
        root.append(_element("tag", count=str(count), tag=tag))
    return call.answer(counts, root)


@_route("/user/api_token", TokenOut, "The token that was sent")
async def get_token(call: Call) -> Response:
    """Only a digest of it is kept, so it is the one that came with the request."""
    token = call.token.rpartition(":")[2]
    root = _element("result")
    root.text = token
    return call.answer({"result": token}, root)


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
        Draft(body.url, created_at=_created_at(call)),
        on_duplicate=OnDuplicate.ERROR if call.get("replace").lower() == "no" else OnDuplicate.UPDATE,
        fields=body.given_fields(),
    )


def _created_at(call: PinboardCall) -> str:
    found = _stamp(call, "dt")
    return found if found <= stamp(call.service.clock() + _AHEAD) else ""


def _stamp(call: PinboardCall, name: str) -> str:
    """A time as the tables have it; empty where it is not given."""
    try:
        return read_time(call.get(name))
    except RowRefused:
        raise CanonryError(f"{name}: a time such as 2026-01-31T10:00:00Z") from None


async def _found(call: PinboardCall) -> list[Bookmark]:
    """The bookmark at exactly this URL, else the one it leads to."""
    url, bookmarks = call.get("url"), call.service.bookmarks
    try:
        found = await bookmarks.find(call.user.id, url, exact_url=True)
        return found or await bookmarks.find(call.user.id, url)
    except StoreError:
        raise
    except CanonryError:
        return []  # what is no URL is kept nowhere


async def _newest(call: PinboardCall) -> AsyncIterator[Bookmark]:
    """Bookmarks that have all the tags that were asked for, whatever their case."""
    wanted = {tag.lower() for tag in call.get("tag").replace(",", " ").split()}
    store, cursor = call.service.bookmarks.store, None
    while True:
        page = await store.search(call.user.id, BookmarkSearch(), cursor=cursor, limit=_PAGE)
        for kept in page.bookmarks:
            if wanted <= {tag.lower() for tag in kept.tags}:
                yield kept
        if (cursor := page.next_cursor) is None:
            return


async def _of_day(call: PinboardCall) -> list[Bookmark]:
    """The bookmarks of a day, or of the latest that has any."""
    day = call.get("dt")[:10]
    found: list[Bookmark] = []
    async for kept in _newest(call):
        day = day or kept.created_at[:10]
        if kept.created_at[:10] < day:
            break
        if kept.created_at[:10] == day:
            found.append(kept)
    return found


async def _posts(call: PinboardCall, found: list[Bookmark]) -> Response:
    name, date = call.user.name, _time(found[0].created_at if found else stamp(call.service.clock()))
    root = _element("posts", dt=date, user=name)
    return await _listed(call, found, root, lambda posts: {"date": date, "user": name, "posts": posts})


async def _listed(
    call: PinboardCall, found: list[Bookmark], root: ElementTree.Element, around: Callable[[list[dict[str, str]]], Any]
) -> Response:
    def work() -> Response:
        posts = [_post(kept) for kept in found]
        for post in posts:
            root.append(_element("post", **{"tag" if name == "tags" else name: post[name] for name in post}))
        return call.answer(around(posts), root)

    return await asyncio.to_thread(work)  # there may be a hundred thousand


def _post(kept: Bookmark) -> dict[str, str]:
    return {
        "href": kept.url,
        "description": kept.title,
        "extended": kept.description,
        "meta": _md5(kept.etag),
        "hash": _md5(kept.url),
        "time": _time(kept.created_at),
        "shared": "no" if kept.private else "yes",
        "toread": "yes" if kept.to_read else "no",
        # A tag is one word there.
        "tags": " ".join(tag.replace(" ", "_") for tag in kept.tags),
    }


def _element(name: str, **attributes: str) -> ElementTree.Element:
    return ElementTree.Element(name, {key: _without_controls(value) for key, value in attributes.items()})


def _without_controls(text: str) -> str:
    """XML 1.0 has no control characters but tab and line ends, and neither U+FFFE nor U+FFFF."""
    return "".join(
        each for each in replace_unstorable(text) if each in "\t\n\r" or (each >= " " and each not in "\ufffe\uffff")
    )


def _number(call: PinboardCall, name: str, otherwise: int) -> int:
    text = call.get(name)
    return int(text[:9]) if text.isascii() and text.isdecimal() else otherwise


def _time(text: str) -> str:
    """`2026-01-31T10:00:00.000000Z` → `2026-01-31T10:00:00Z`."""
    return f"{text[:19]}Z"


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
