"""The settings of one feed: how often and how it is fetched, and the title a person gave it (contract I11)."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypedDict, cast

from canonry.core.keys import replace_unstorable
from canonry.core.url import parse
from canonry.errors import InvalidFields
from canonry.feeds.feed_values import NO_FAILURE, FeedStatus
from canonry.sizes import parse_size

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from canonry.feeds.feed_values import FeedState

MIN_INTERVAL = timedelta(minutes=1)
MAX_INTERVAL = timedelta(days=7)
MAX_TIMEOUT = timedelta(minutes=5)
MIN_BYTES, MAX_BYTES = 1000, 100 * 1024 * 1024
MASK = "***"  # shown in place of the value of a header; as a new value it keeps the old one
_MAX_TITLE_CHARS = 1000
_MAX_FOLDER_CHARS = 1000
_MAX_USER_AGENT_CHARS = 500
_MAX_HEADERS = 20
_MAX_HEADER_CHARS = 4000
_DURATION = re.compile(r"([0-9]{1,9})\s*(s|m|h|d|)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")  # a token of RFC 9110
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\xa0-\xff]*")
# Headers that the HTTP client sets itself, or that would change how the connection or the body is read.
_RESERVED_HEADERS = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "expect",
        "host",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-range",
        "if-unmodified-since",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "range",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
    }
)


class FeedChanges(TypedDict, total=False):
    """Settings to change; missing ones stay as they are, and None restores the default."""

    title: str | None
    folder: str | None
    interval: int | str | None  # seconds, or a text such as 15m
    timeout: int | str | None
    max_bytes: int | str | None  # or a text such as 5MB
    user_agent: str | None
    headers: Mapping[str, str | None] | None  # None as a value removes one header
    paused: bool


def check_changes(changes: FeedChanges, feed: FeedState) -> dict[str, Any]:
    """Return the columns that the changes set; InvalidFields names every setting with an invalid value."""
    values: dict[str, Any] = {}
    invalid: dict[str, str] = {}
    for name, given in changes.items():
        try:
            values |= _CHECKS[name](given, feed)
        except ValueError as error:
            invalid[name] = str(error)
    if invalid:
        raise InvalidFields(invalid)
    return values


def parse_duration(given: int | str) -> timedelta:
    """Return a duration from seconds or a text: `90`, `90s`, `15m`, `6h`, `2d`; ValueError for anything else."""
    found = _DURATION.fullmatch(str(given).strip().lower())
    if found is None:
        raise ValueError(f"{str(given)[:40]!r} is not a duration such as 90s, 15m, 6h or 2d")
    return timedelta(seconds=int(found[1]) * _SECONDS[found[2]])


def parse_header(line: str) -> tuple[str, str | None]:
    """Return name and value of `Name: value`; the value of `Name:` is None, which removes the header."""
    name, colon, value = line.partition(":")
    if not colon:
        raise ValueError(f"{name[:40]!r} is not a header such as `Name: value`")
    return name.strip(), value.strip() or None


def clean_folder(given: str | None) -> str:
    """Return a folder as it is stored: ` a // b ` → `a/b`; ValueError if it is too long."""
    parts = (part.strip() for part in _check_text(given, _MAX_FOLDER_CHARS).split("/"))
    return "/".join(filter(None, parts))


def make_fetch_options(feed: FeedState, *, linked_url: str | None = None) -> dict[str, Any]:
    """Return the options for fetching the feed; settings that are not set are left out.

    The extra headers are left out for a `linked_url` of another origin: they may be secrets.
    """
    options: dict[str, Any] = {}
    is_own = linked_url is None or parse(linked_url).get_origin() == parse(feed.url).get_origin()
    headers = load_headers(feed) if is_own else {}
    if feed.user_agent:
        headers["User-Agent"] = feed.user_agent
    if headers:
        options["headers"] = headers
    if feed.timeout_seconds is not None:
        options["timeout"] = float(feed.timeout_seconds)
    if feed.max_bytes is not None:
        options["max_bytes"] = feed.max_bytes
    return options


def load_headers(feed: FeedState) -> dict[str, str]:
    """Return the extra headers of a feed, by name."""
    return cast("dict[str, str]", json.loads(feed.headers))


def mask_headers(feed: FeedState) -> dict[str, str]:
    """Return the extra headers of a feed with their values masked: they may be secrets."""
    return dict.fromkeys(load_headers(feed), MASK)


def get_interval(feed: FeedState) -> timedelta | None:
    """Return the interval that a person has set for the feed."""
    return None if feed.interval_seconds is None else timedelta(seconds=feed.interval_seconds)


def _check_title(given: Any, _: FeedState) -> dict[str, Any]:
    return {"own_title": _check_text(given, _MAX_TITLE_CHARS)}


def _check_folder(given: Any, _: FeedState) -> dict[str, Any]:
    return {"folder": clean_folder(given)}


def _check_interval(given: Any, feed: FeedState) -> dict[str, Any]:
    # The feed becomes due, so that the interval takes effect at once, unless its server asked to wait.
    due = {"next_check_at": None} if feed.status is FeedStatus.ACTIVE and feed.retry_at is None else {}
    if given is None:
        return {"interval_seconds": None, **due}
    interval = parse_duration(given)
    if not MIN_INTERVAL <= interval <= MAX_INTERVAL:
        raise ValueError("must be between 1m and 7d")
    return {"interval_seconds": int(interval.total_seconds()), **due}


def _check_timeout(given: Any, _: FeedState) -> dict[str, Any]:
    if given is None:
        return {"timeout_seconds": None}
    timeout = parse_duration(given)
    if not timedelta(seconds=1) <= timeout <= MAX_TIMEOUT:
        raise ValueError("must be between 1s and 5m")
    return {"timeout_seconds": int(timeout.total_seconds())}


def _check_max_bytes(given: Any, _: FeedState) -> dict[str, Any]:
    if given is None:
        return {"max_bytes": None}
    size = parse_size(given)
    if not MIN_BYTES <= size <= MAX_BYTES:
        raise ValueError("must be between 1kB and 100MiB")
    return {"max_bytes": size}


def _check_user_agent(given: Any, _: FeedState) -> dict[str, Any]:
    text = _check_text(given, _MAX_USER_AGENT_CHARS)
    if not _HEADER_VALUE.fullmatch(text):
        raise ValueError("contains characters that a header cannot contain")
    return {"user_agent": text}


def _check_headers(given: Mapping[str, str | None] | None, feed: FeedState) -> dict[str, Any]:
    """Check the headers to set; None as a value removes a header, `***` keeps it."""
    headers = {} if given is None else load_headers(feed)
    for name, value in (given or {}).items():
        if not _HEADER_NAME.fullmatch(name):
            raise ValueError(f"{name[:40]!r} is not the name of a header")
        if name.lower() in _RESERVED_HEADERS:
            raise ValueError(f"{name} cannot be set here")
        if value == MASK and name in headers:
            continue
        for known in [known for known in headers if known.lower() == name.lower()]:
            del headers[known]
        if value is None:
            continue
        if len(value) > _MAX_HEADER_CHARS or not _HEADER_VALUE.fullmatch(value):
            raise ValueError(f"the value of {name} is too long or contains characters that a header cannot contain")
        headers[name] = value
    if len(headers) > _MAX_HEADERS:
        raise ValueError(f"more than {_MAX_HEADERS} headers")
    return {"headers": json.dumps(headers)}


def _check_paused(given: Any, feed: FeedState) -> dict[str, Any]:
    if given:
        return {"status": FeedStatus.PAUSED.value}
    if feed.status is FeedStatus.ACTIVE:
        return {}
    return {"status": FeedStatus.ACTIVE.value, "next_check_at": None, **NO_FAILURE}


def _check_text(given: str | None, limit: int) -> str:
    text = replace_unstorable(" ".join((given or "").split()))
    if len(text) > limit:
        raise ValueError(f"longer than {limit} characters")
    return text


_CHECKS: dict[str, Callable[[Any, FeedState], dict[str, Any]]] = {
    "title": _check_title,
    "folder": _check_folder,
    "interval": _check_interval,
    "timeout": _check_timeout,
    "max_bytes": _check_max_bytes,
    "user_agent": _check_user_agent,
    "headers": _check_headers,
    "paused": _check_paused,
}
assert set(_CHECKS) == set(FeedChanges.__annotations__)
