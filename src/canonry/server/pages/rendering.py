"""Render templates: filters for values, and the CSRF token that every form carries."""

from __future__ import annotations

import math
import re
import secrets
from contextvars import ContextVar
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast
from zoneinfo import ZoneInfo

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import canonry
from canonry.bookmarks.search_query import quote_term
from canonry.bookmarks.search_words import find_site
from canonry.core.url import parse
from canonry.core.url_diff import diff_tokens
from canonry.errors import InvalidUrl, mask_credentials
from canonry.server.pages.navigation import MENU, ROW, list_entries
from canonry.server.service import Service

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from canonry.core.explain import Step

CSRF_COOKIE, CSRF_FIELD = "canonry_csrf", "csrf"
# Choices of this browser. Without them: the theme of the system, and UTC until canonry.js has stored the zone.
THEME_COOKIE, ZONE_COOKIE = "canonry_theme", "canonry_zone"
THEMES = ("light", "dark")
MAX_SHOWN_CHARS = 300  # of a URL in a list
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")
_LINK = re.compile(r"https?://[^\s\x00-\x1f]", re.IGNORECASE)
_MAX_ZONE_CHARS = 60
_ZONE_NAME = re.compile(r"[A-Za-z]+(?:[/_+-][A-Za-z0-9]+)*")
_zone: ContextVar[tzinfo] = ContextVar("zone", default=UTC)  # of the page that is being rendered
_URL_PARTS = ("scheme", "userinfo", "host", "port", "path", "query", "fragment")


def render(
    request: Request, template: str, /, *, status: int = 200, headers: Mapping[str, str] | None = None, **context: Any
) -> HTMLResponse:
    """Return a page, or a fragment of one."""
    token = get_csrf_token(request)
    previous = _zone.set(get_zone(request))
    try:
        text = _ENVIRONMENT.get_template(template).render(_make_base_context(request), csrf=token, **context)
    finally:
        _zone.reset(previous)
    answer = HTMLResponse(text, status, headers)
    if request.cookies.get(CSRF_COOKIE, "") != token:
        # Lax, not strict: the bookmarklet opens our form from another site. A strict cookie would not be
        # sent then, and the new one set here would break the forms that are open in other tabs.
        answer.set_cookie(CSRF_COOKIE, token, httponly=True, samesite="lax", secure=is_secure(request))
    return answer


def get_csrf_token(request: Request) -> str:
    """Return the CSRF token of this browser: the value of its cookie, or a new one."""
    given = request.cookies.get(CSRF_COOKIE, "")
    if _TOKEN.fullmatch(given):
        return given
    state: dict[str, Any] = request.scope.setdefault("state", {})
    return str(state.setdefault("csrf", secrets.token_urlsafe(32)))


def is_secure(request: Request) -> bool:
    """Return whether the request came over TLS."""
    return request.url.scheme == "https"


def wants_fragment(request: Request) -> bool:
    """Return whether htmx sent the request and will insert the response into the current page."""
    return request.headers.get("hx-request") == "true"


def is_link(url: object) -> bool:
    """Return whether a URL may be rendered as a link: http and https only."""
    return isinstance(url, str) and _LINK.match(url) is not None


def get_theme(request: Request) -> str:
    """Return the theme that the user has chosen: light, dark, or empty for that of the system."""
    given = request.cookies.get(THEME_COOKIE, "")
    return given if given in THEMES else ""


def get_zone(request: Request) -> tzinfo:
    """Return the time zone of the viewer; UTC if it is not known."""
    return find_zone(request.cookies.get(ZONE_COOKIE, "")) or UTC


@lru_cache(maxsize=1000)
def find_zone(name: str) -> tzinfo | None:
    """Return the time zone of this IANA name; None if there is none."""
    if len(name) > _MAX_ZONE_CHARS or not _ZONE_NAME.fullmatch(name):
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, or a folder of the database
        return None


def _make_base_context(request: Request) -> dict[str, Any]:
    """Return the variables that every page needs."""
    state: dict[str, Any] = request.scope.get("state", {})
    service = request.app.state.service
    assert isinstance(service, Service)
    user = state.get("user")
    is_admin = user is not None and user.is_admin
    return {
        "user": user,
        "signs_in": bool(state.get("has_users")) or service.options.require_token,
        "path": request.url.path,
        "version": canonry.__version__,
        "theme": get_theme(request),
        "zone": str(get_zone(request)),
        "navigation_row": list_entries(ROW, is_admin=is_admin),
        "navigation_menu": list_entries(MENU, is_admin=is_admin),
    }


def _format_time(text: str | None) -> Markup:
    """Return a time for people, in the viewer's zone; a text that is not a time is returned unchanged."""
    return _mark_time(text, "time", lambda local: f"{local.day} {local.strftime('%b %Y, %H:%M')}")


def _format_day(text: str | None) -> Markup:
    """Return the day of a time, in the viewer's zone."""
    return _mark_time(text, "day", lambda local: f"{local.day} {local.strftime('%b %Y')}")


def _format_recent(text: str | None, now: datetime) -> Markup:
    """Return a time for dense lists: the hour if it is of today, otherwise the day, with the year if it is another."""

    def show(local: datetime) -> str:
        today = now.astimezone(local.tzinfo)
        if local.date() == today.date():
            return local.strftime("%H:%M")
        return f"{local.day} {local.strftime('%b' if local.year == today.year else '%b %Y')}"

    return _mark_time(text, "recent", show)


def _mark_time(text: str | None, form: str, show: Callable[[datetime], str]) -> Markup:
    """Return a time as an element; canonry.js formats it again by `form` if the viewer's zone was not known yet."""
    if not text:
        return Markup("")
    zone = _zone.get()
    try:
        moment = datetime.fromisoformat(text)
        moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
        local = moment.astimezone(zone)
    except (ValueError, OverflowError):  # not a time, or the first or last hours of the calendar
        return Markup("{}").format(text)
    return Markup('<time datetime="{}" title="{}" data-form="{}">{}</time>').format(
        moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
        f"{local.strftime('%Y-%m-%d %H:%M:%S')} {zone}",
        form,
        show(local),
    )


def _format_month(text: str) -> str:
    """Return the month of a time in the viewer's zone: `in March 2026`."""
    try:
        return datetime.fromisoformat(text).astimezone(_zone.get()).strftime("in %B %Y")
    except (ValueError, OverflowError):
        return text


def _make_term(value: str, name: str) -> str:
    return quote_term(name, value)


def _weigh(count: int, most: int) -> int:
    """Return the size of a tag in a cloud, from 1 to 4; each is about twice as frequent as the one before."""
    return max(1, 4 - int(math.log2(max(most / max(count, 1), 1))))


def _strip_scheme(url: str) -> str:
    return re.sub(r"^https?://(?:www\.)?", "", url, count=1, flags=re.IGNORECASE)


def _shorten(text: str, max_chars: int = MAX_SHOWN_CHARS) -> str:
    return text if len(text) <= max_chars else f"{text[:max_chars]}…"


def _list_changed_parts(step: Step) -> list[str]:
    """Return the parts of the URL that a step changed."""
    if step.rule == "parse":
        return ["spelling"]
    try:
        old, new = parse(step.before), parse(step.after)
    except InvalidUrl:
        return []
    return [part for part in _URL_PARTS if getattr(old, part) != getattr(new, part)]


def _make_environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("canonry.server.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Jinja's type stubs allow only its own filters.
    tests, filters = cast("Any", environment.tests), cast("Any", environment.filters)
    tests["link"] = is_link
    filters["changed_parts"] = _list_changed_parts
    filters["masked"] = mask_credentials
    filters["number"] = "{:,}".format
    filters["short"] = _shorten
    filters["diff_tokens"] = diff_tokens
    filters["when"] = _format_time
    filters["day"] = _format_day
    filters["recent"] = _format_recent
    filters["month"] = _format_month
    filters["site"] = find_site
    filters["term"] = _make_term
    filters["weight"] = _weigh
    filters["without_scheme"] = _strip_scheme
    return environment


_ENVIRONMENT = _make_environment()
