"""`/api/greader`: the Google Reader API, so that apps for feeds can read items from this service (contract U2).

The parts that apps use (docs/decisions/0026-reader-api.md). The password is a token, also in personal mode. Texts of
articles are not stored, so items have a title, a link and the other feeds that carried them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from html import escape
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from canonry.accounts import User
from canonry.errors import FeedNotFound, mask_credentials
from canonry.feeds.feed_values import FeedState, StoredItem
from canonry.feeds.item_states import ItemState, ItemStateStore, ItemStatus
from canonry.feeds.mark_read import mark_all_read
from canonry.feeds.published import choose_published
from canonry.feeds.stored_items import ItemSearch, search_items
from canonry.feeds.subscriptions import add_feed
from canonry.server.access import RateLimiter
from canonry.server.dependencies import get_service, require_admin
from canonry.server.problems import RequestRefused
from canonry.server.saved_items import save_items, unsave_items
from canonry.server.service import Service
from canonry.store.schema import stamp

router = APIRouter(prefix="/api/greader", include_in_schema=False)
_API = "/reader/api/0"
_ITEM_PREFIX = "tag:google.com,2005:reader/item/"
_STATE = re.compile(r"user/[^/]+/state/com\.google/([a-z-]+)")
_LABEL = re.compile(r"user/[^/]+/label/(.+)", re.DOTALL)
_READ, _STARRED = "user/-/state/com.google/read", "user/-/state/com.google/starred"
_READING_LIST = "user/-/state/com.google/reading-list"
_DEFAULT_ITEMS, _MAX_IDS, _MAX_CONTENTS = 20, 10_000, 1_000
_MAX_FIELDS = 2 * _MAX_IDS
_MAX_ID = 2**63 - 1
_MAX_DIGITS = 18
_MAX_SECONDS = 100_000_000_000  # larger times are not in seconds
_START = datetime(1970, 1, 1, tzinfo=UTC)
_EDIT_TOKEN = "canonry-requests-carry-their-token-in-a-header-x"  # noqa: S105
_OK = "OK"


@dataclass(frozen=True, slots=True)
class ReaderCall:
    """A request of an app: its user, its parameters, and the service."""

    user: User
    given: Sequence[tuple[str, str]]
    service: Service

    def get(self, name: str) -> str:
        """Return the first value of a parameter; empty if it is missing."""
        return next((value for key, value in self.given if key == name), "")

    def list(self, name: str) -> list[str]:
        """Return all values of a parameter."""
        return [value for key, value in self.given if key == name]

    def get_number(self, name: str) -> int:
        """Return a parameter as a number; 0 if it is missing, RequestRefused (400) if it is not a number."""
        text = self.get(name)
        if text and not (text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS):
            raise RequestRefused(400, f"{name}: not a number.")
        return int(text or 0)

    def get_time(self, name: str) -> datetime | None:
        """Return a time since 1970, of which apps send seconds, milliseconds or microseconds; None if it is missing."""
        number = self.get_number(name)
        unit = 1 if number < _MAX_SECONDS else 1000 if number < 1000 * _MAX_SECONDS else 1_000_000
        try:
            return _START + timedelta(microseconds=number * (1_000_000 // unit)) if number else None
        except OverflowError:
            raise RequestRefused(400, f"{name}: not a time.") from None

    def get_states(self, name: str) -> set[str]:
        """Return the names of the states in the values of a parameter."""
        return {state for stream in self.list(name) if (state := _find_state(stream))}

    @property
    def states(self) -> ItemStateStore:
        return ItemStateStore(self.service.database)


@dataclass(frozen=True, slots=True)
class StreamItems:
    """Some items of a stream, their states, and where the next ones begin."""

    items: Sequence[StoredItem]
    states: dict[int, ItemState]
    continuation: str | None


async def _read_parameters(request: Request) -> list[tuple[str, str]]:
    given = list(request.query_params.multi_items())
    if request.method == "POST":
        async with request.form(max_files=0, max_fields=_MAX_FIELDS) as form:
            given += [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
    return given


async def _find_user(request: Request, name: str | None, token: str) -> User:
    """Return the user of a token; RequestRefused (401), or 429 after too many requests."""
    service, limits = get_service(request), request.app.state.reader_limits
    assert isinstance(limits, RateLimiter)
    user = await service.users.find_by_token(token, service.clock()) if token else None
    # In personal mode the owner has no name, and any name is accepted.
    if user is None or (name is not None and user.name and user.name != name):
        limits.take(f"failed {request.client.host if request.client else ''}")
        raise RequestRefused(401, "Unknown user name or token.", {"WWW-Authenticate": 'GoogleLogin realm="canonry"'})
    limits.take(token)
    request.state.user = user
    return user


async def read_reader_call(request: Request) -> ReaderCall:
    """Find the user of `Authorization: GoogleLogin auth=TOKEN` and read the parameters."""
    kind, _, rest = request.headers.get("authorization", "").partition(" ")
    token = rest.strip().removeprefix("auth=") if kind.lower() == "googlelogin" else ""
    user = await _find_user(request, None, token)
    call = ReaderCall(user, await _read_parameters(request), get_service(request))
    if call.get("output") not in {"", "json"}:
        raise RequestRefused(400, "output: must be json. For Atom, use /api/items.atom.")
    return call


AppCall = Annotated[ReaderCall, Depends(read_reader_call)]


@router.api_route("/accounts/ClientLogin", methods=["GET", "POST"])
async def sign_in(request: Request) -> Response:
    """Check a user name and a token; the token is the `Auth` of all further requests."""
    given = dict(await _read_parameters(request))
    token = given.get("Passwd", "").strip()
    await _find_user(request, given.get("Email", "").strip(), token)
    return PlainTextResponse(f"SID={token}\nLSID={token}\nAuth={token}\n")


@router.get(f"{_API}/token")
async def get_edit_token(_: AppCall) -> Response:
    """Return a fixed text: no cookie authenticates a request, so another site cannot send one."""
    return PlainTextResponse(_EDIT_TOKEN)


@router.get(f"{_API}/user-info")
async def get_user(call: AppCall) -> Response:
    name = call.user.name or "canonry"
    return JSONResponse({"userId": str(call.user.id), "userName": name, "userProfileId": name, "userEmail": name})


@router.get(f"{_API}/subscription/list")
async def list_subscriptions(call: AppCall) -> Response:
    feeds = await call.service.feeds.list_all()
    return JSONResponse({"subscriptions": [_describe_subscription(feed) for feed in feeds]})


@router.get(f"{_API}/tag/list")
async def list_labels(call: AppCall) -> Response:
    folders = sorted({feed.folder for feed in await call.service.feeds.list_all() if feed.folder})
    labels = [{"id": _name_label(folder), "type": "folder"} for folder in folders]
    return JSONResponse({"tags": [{"id": _STARRED}, *labels]})


@router.get(f"{_API}/unread-count")
async def count_unread(call: AppCall) -> Response:
    by_feed = await call.states.count_unread_by_feed(call.user.id)
    total = await call.states.count_unread(call.user.id)
    newest = max((each.newest_at for each in by_feed.values()), default="")
    counts = [(_READING_LIST, total, newest)]
    folders: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for feed in await call.service.feeds.list_all():
        if (unread := by_feed.get(feed.id)) is not None:
            counts.append((f"feed/{feed.id}", unread.count, unread.newest_at))
            folders[feed.folder].append((unread.count, unread.newest_at))
    for folder, rows in folders.items():
        if folder:
            counts.append((_name_label(folder), sum(count for count, _ in rows), max(at for _, at in rows)))
    listed = [
        {"id": stream, "count": count, "newestItemTimestampUsec": str(_to_microseconds(at))}
        for stream, count, at in counts
    ]
    return JSONResponse({"max": 1000, "unreadcounts": listed})


@router.get(f"{_API}/stream/items/ids")
async def list_item_ids(call: AppCall) -> Response:
    found = await _list_items(call, call.get("s"), _MAX_IDS)
    refs = [
        {
            "id": str(item.entry_id),
            "directStreamIds": [f"feed/{feed.id}" for feed in item.feeds],
            "timestampUsec": str(_to_microseconds(item.first_seen_at)),
        }
        for item in found.items
    ]
    return JSONResponse({"itemRefs": refs, **_describe_continuation(found)})


@router.api_route(f"{_API}/stream/items/contents", methods=["GET", "POST"])
async def get_items(call: AppCall) -> Response:
    ids = _parse_ids(call.list("i")[:_MAX_CONTENTS])
    page = await search_items(call.service.database, ItemSearch(entry_ids=tuple(ids)), limit=max(1, len(ids)))
    states = await call.states.get_states(call.user.id, [item.entry_id for item in page.items])
    return await _respond_items(call, _READING_LIST, StreamItems(page.items, states, None))


@router.get(f"{_API}/stream/contents/{{stream:path}}")
@router.get(f"{_API}/stream/contents")
async def get_stream(call: AppCall, stream: str = "") -> Response:
    stream = stream or call.get("s") or _READING_LIST
    return await _respond_items(call, stream, await _list_items(call, stream, _MAX_CONTENTS))


@router.post(f"{_API}/edit-tag")
async def change_items(call: AppCall) -> Response:
    """Mark items as read, unread, starred or not. A starred item is saved as a bookmark."""
    ids = _parse_ids(call.list("i"))
    owner = call.user.id
    for stream, is_added in [*((each, True) for each in call.list("a")), *((each, False) for each in call.list("r"))]:
        state = _find_state(stream)
        if state in {"read", "kept-unread"}:
            await call.states.set_read(owner, ids, is_read=is_added == (state == "read"))
        elif state == "starred":
            await (save_items if is_added else unsave_items)(call.service, owner, ids)
    return PlainTextResponse(_OK)


@router.post(f"{_API}/mark-all-as-read")
async def mark_stream_read(call: AppCall) -> Response:
    search = await _parse_stream(call, call.get("s"))
    if search.status is not None:
        raise RequestRefused(400, "s: only the reading list, a feed or a folder can be marked as read.")
    # `ts` is the time of the newest item that the app knows.
    search = replace(search, owner_id=None, until=_stamp_after(call.get_time("ts"), timedelta(microseconds=1)))
    await mark_all_read(call.service.database, call.user.id, search, now=call.service.clock())
    return PlainTextResponse(_OK)


@router.api_route(f"{_API}/subscription/quickadd", methods=["GET", "POST"])
async def quick_add(request: Request, call: AppCall) -> Response:
    """For admins: follow a feed, or the feed of a page."""
    require_admin(request)
    url = call.get("quickadd").removeprefix("feed/")
    service = call.service
    added = await add_feed(url, service.feeds, now=service.clock(), fetch=service.client.fetch)
    feed_url = mask_credentials(added.url)
    return JSONResponse(
        {"numResults": 1, "query": feed_url, "streamId": f"feed/{added.feed_id}", "streamName": added.title}
    )


@router.post(f"{_API}/subscription/edit")
async def change_subscriptions(request: Request, call: AppCall) -> Response:
    """For admins: follow, rename, move to a folder, or remove feeds."""
    require_admin(request)
    service, action = call.service, call.get("ac")
    for stream in call.list("s"):
        name = stream.removeprefix("feed/")
        if action == "subscribe":
            added = await add_feed(name, service.feeds, now=service.clock(), fetch=service.client.fetch)
            if added.feed_id is None:
                raise RequestRefused(400, added.reason or "This is not a feed.")
            feed_id = added.feed_id
        elif action in {"edit", "unsubscribe"}:
            feed_id = (await _find_feed(call, name)).id
        else:
            raise RequestRefused(400, "ac: must be subscribe, edit or unsubscribe.")
        if action == "unsubscribe":
            await service.feeds.remove(feed_id, service.clock())
            continue
        if title := call.get("t"):
            await service.feeds.change(feed_id, {"title": title})
        if label := _LABEL.fullmatch(call.get("a")):
            await service.feeds.change(feed_id, {"folder": label[1]})
        elif (label := _LABEL.fullmatch(call.get("r"))) and label[1] == (await service.feeds.get(feed_id)).folder:
            await service.feeds.change(feed_id, {"folder": None})  # not if it was moved elsewhere since the app asked
    return PlainTextResponse(_OK)


async def _list_items(call: ReaderCall, stream: str, max_items: int) -> StreamItems:
    search = await _parse_stream(call, stream)
    included = call.get_states("it")
    is_unread = "read" in call.get_states("xt") or bool(included & {"unread", "kept-unread"})
    if search.status is None and "starred" in included:
        search = replace(search, status=ItemStatus.SAVED)
    elif search.status is None and is_unread:
        search = replace(search, status=ItemStatus.UNREAD)
    elif search.status is None and "read" in included:
        search = replace(search, status=ItemStatus.READ)
    search = replace(
        search,
        owner_id=call.user.id,
        since=_stamp_after(call.get_time("ot"), timedelta()),
        until=_stamp_after(call.get_time("nt"), timedelta(seconds=1)),  # apps know whole seconds
        oldest_first=call.get("r") == "o",
    )
    limit = min(call.get_number("n") or _DEFAULT_ITEMS, max_items)
    try:
        page = await search_items(call.service.database, search, cursor=call.get("c") or None, limit=limit)
    except ValueError:
        raise RequestRefused(400, "c: invalid. Use the continuation of the previous answer.") from None
    states = await call.states.get_states(call.user.id, [item.entry_id for item in page.items])
    items = [
        item for item in page.items if not (is_unread and states[item.entry_id].is_read)
    ]  # starred items may be read
    return StreamItems(items, states, page.next_cursor)


async def _parse_stream(call: ReaderCall, stream: str) -> ItemSearch:
    """Return the search for the items of a stream; RequestRefused (400 or 404) if there is no such stream."""
    if (label := _LABEL.fullmatch(stream)) is not None:
        return ItemSearch(folder=label[1])
    if stream.startswith("feed/"):
        return ItemSearch(feed_id=(await _find_feed(call, stream.removeprefix("feed/"))).id)
    searches = {
        "reading-list": ItemSearch(),
        "starred": ItemSearch(owner_id=call.user.id, status=ItemStatus.SAVED),
        "read": ItemSearch(owner_id=call.user.id, status=ItemStatus.READ),
    }
    if (found := searches.get(_find_state(stream))) is None:
        raise RequestRefused(400, "s: unknown stream.")
    return found


async def _find_feed(call: ReaderCall, name: str) -> FeedState:
    """Return the feed with an id or a URL; RequestRefused (404) if there is none."""
    if name.isascii() and name.isdecimal() and len(name) <= 18:
        try:
            return await call.service.feeds.get(int(name))
        except FeedNotFound:
            pass
    elif (found := await call.service.feeds.find([name])) is not None:
        return found
    raise RequestRefused(404, "There is no such feed.")


async def _respond_items(call: ReaderCall, stream: str, found: StreamItems) -> Response:
    feeds = {feed.id: feed for feed in await call.service.feeds.list_all()}
    items = [_describe_item(item, found.states[item.entry_id], feeds) for item in found.items]
    updated = max((_to_microseconds(item.first_seen_at) // 1_000_000 for item in found.items), default=0)
    return JSONResponse({"id": stream, "updated": updated, "items": items, **_describe_continuation(found)})


def _describe_item(item: StoredItem, state: ItemState, feeds: dict[int, FeedState]) -> dict[str, Any]:
    feed = feeds.get(item.feeds[0].id) if item.feeds else None
    seen = _to_microseconds(item.first_seen_at)
    folders = sorted({feeds[each.id].folder for each in item.feeds if each.id in feeds and feeds[each.id].folder})
    categories = [_READING_LIST, *([_READ] if state.is_read else []), *([_STARRED] if state.is_saved else [])]
    links = [{"href": mask_credentials(item.url), "type": "text/html"}] if item.url else []
    others = ", ".join(escape(each.title or mask_credentials(each.url)) for each in item.feeds[1:])
    return {
        "id": f"{_ITEM_PREFIX}{item.entry_id:016x}",
        "crawlTimeMsec": str(seen // 1000),
        "timestampUsec": str(seen),
        "published": _to_microseconds(choose_published(item.published, item.first_seen_at)) // 1_000_000,
        "title": item.title,
        "canonical": links,
        "alternate": links,
        "categories": [*categories, *map(_name_label, folders)],
        "origin": {
            "streamId": f"feed/{feed.id}" if feed else "",
            "title": _name_feed(feed) if feed else "",
            "htmlUrl": mask_credentials(feed.site_url or feed.url) if feed else "",
        },
        "summary": {"content": f"<p>Also in: {others}</p>" if others else ""},
    }


def _describe_subscription(feed: FeedState) -> dict[str, Any]:
    folders = [{"id": _name_label(feed.folder), "label": feed.folder}] if feed.folder else []
    url = mask_credentials(feed.url)
    return {
        "id": f"feed/{feed.id}",
        "title": _name_feed(feed),
        "categories": folders,
        "url": url,
        "htmlUrl": mask_credentials(feed.site_url) or url,
        "iconUrl": "",
    }


def _describe_continuation(found: StreamItems) -> dict[str, str]:
    return {} if found.continuation is None else {"continuation": found.continuation}


def _name_feed(feed: FeedState) -> str:
    return feed.own_title or feed.title or mask_credentials(feed.url)


def _name_label(folder: str) -> str:
    return f"user/-/label/{folder}"


def _find_state(stream: str) -> str:
    """Return the name of a state: `user/-/state/com.google/read` → `read`; empty for another stream."""
    found = _STATE.fullmatch(stream)
    return found[1] if found else ""


def _parse_ids(texts: Sequence[str]) -> list[int]:
    """Return the ids of items, given in one of the three ways of the API; RequestRefused (400) if one is invalid."""
    return [_parse_id(text) for text in texts]


def _parse_id(text: str) -> int:
    """Return the id of an item: `tag:google.com,2005:reader/item/000000000000001f`, `000000000000001f`, or `31`."""
    digits = text.removeprefix(_ITEM_PREFIX)
    is_hexadecimal = digits != text or len(digits) == 16
    try:
        number = int(digits, 16 if is_hexadecimal else 10) if len(digits) <= 20 and digits.isalnum() else 0
    except ValueError:
        number = 0
    if not 0 < number <= _MAX_ID:
        raise RequestRefused(400, "i: not the id of an item.")
    return number


def _to_microseconds(text: str) -> int:
    """Return a stored time in microseconds since 1970; 0 for none."""
    return round(datetime.fromisoformat(text).timestamp() * 1_000_000) if text else 0


def _stamp_after(when: datetime | None, delay: timedelta) -> str:
    """Return the stored text of a time; empty for none."""
    return "" if when is None else stamp(when + delay)
