"""Render templates: filters for values, and the CSRF token that every form carries."""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import canonry
from canonry.core.url import parse
from canonry.core.url_diff import diff_tokens
from canonry.errors import InvalidUrl, mask_credentials
from canonry.server.service import Service

if TYPE_CHECKING:
    from collections.abc import Mapping

    from canonry.core.explain import Step

CSRF_COOKIE, CSRF_FIELD = "canonry_csrf", "csrf"
MAX_SHOWN_CHARS = 300  # of a URL in a list
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")
_LINK = re.compile(r"https?://[^\s\x00-\x1f]", re.IGNORECASE)
_URL_PARTS = ("scheme", "userinfo", "host", "port", "path", "query", "fragment")


def render(
    request: Request, template: str, /, *, status: int = 200, headers: Mapping[str, str] | None = None, **context: Any
) -> HTMLResponse:
    """Return a page, or a fragment of one."""
    token = get_csrf_token(request)
    answer = HTMLResponse(
        _ENVIRONMENT.get_template(template).render(_make_base_context(request), csrf=token, **context), status, headers
    )
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


def _make_base_context(request: Request) -> dict[str, Any]:
    """Return the variables that every page needs."""
    state: dict[str, Any] = request.scope.get("state", {})
    service = request.app.state.service
    assert isinstance(service, Service)
    return {
        "user": state.get("user"),
        "signs_in": bool(state.get("has_users")) or service.options.require_token,
        "path": request.url.path,
        "version": canonry.__version__,
    }


def _format_time(text: str | None) -> Markup:
    """Return a time for people, in UTC; a text that is not a time is returned unchanged."""
    if not text:
        return Markup("")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return Markup("{}").format(text)
    moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    stamp = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        stamp, moment.strftime("%Y-%m-%d %H:%M:%S UTC"), f"{moment.day} {moment.strftime('%b %Y, %H:%M')}"
    )


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
    return environment


_ENVIRONMENT = _make_environment()
