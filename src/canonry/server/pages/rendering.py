"""Templates into answers: how values look, and the token that every form carries."""

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
SHOWN = 300  # characters of a URL in a list
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")
_LINK = re.compile(r"https?://[^\s\x00-\x1f]", re.IGNORECASE)
_PARTS = ("scheme", "userinfo", "host", "port", "path", "query", "fragment")


def render(
    request: Request, template: str, /, *, status: int = 200, headers: Mapping[str, str] | None = None, **context: Any
) -> HTMLResponse:
    """A page, or a piece of one."""
    token = csrf_token(request)
    answer = HTMLResponse(
        _ENVIRONMENT.get_template(template).render(_around(request), csrf=token, **context), status, headers
    )
    if request.cookies.get(CSRF_COOKIE, "") != token:
        # Lax, not strict: the bookmarklet opens a page of ours from another site. A strict cookie would not
        # come along, and the new one set here would break the forms that are open in other tabs.
        answer.set_cookie(CSRF_COOKIE, token, httponly=True, samesite="lax", secure=is_secure(request))
    return answer


def csrf_token(request: Request) -> str:
    """What the forms of this browser carry: the value of its cookie, or a new one."""
    given = request.cookies.get(CSRF_COOKIE, "")
    if _TOKEN.fullmatch(given):
        return given
    state: dict[str, Any] = request.scope.setdefault("state", {})
    return str(state.setdefault("csrf", secrets.token_urlsafe(32)))


def is_secure(request: Request) -> bool:
    """Did it come over TLS?"""
    return request.url.scheme == "https"


def wants_piece(request: Request) -> bool:
    """Does htmx ask, which puts the answer into the page that is there?"""
    return request.headers.get("hx-request") == "true"


def is_link(url: object) -> bool:
    """May it be a link? Nothing but http and https, whatever came through whichever door."""
    return isinstance(url, str) and _LINK.match(url) is not None


def _around(request: Request) -> dict[str, Any]:
    """What every page shows besides its own."""
    state: dict[str, Any] = request.scope.get("state", {})
    service = request.app.state.service
    assert isinstance(service, Service)
    return {
        "user": state.get("user"),
        "signs_in": bool(state.get("has_users")) or service.options.require_token,
        "path": request.url.path,
        "version": canonry.__version__,
    }


def _when(text: str | None) -> Markup:
    """A time people can read, in UTC; a text that is none stays what it is."""
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


def _short(text: str, most: int = SHOWN) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _changed_parts(step: Step) -> list[str]:
    """Which parts of the URL a step changed."""
    if step.rule == "parse":
        return ["spelling"]
    try:
        old, new = parse(step.before), parse(step.after)
    except InvalidUrl:
        return []
    return [part for part in _PARTS if getattr(old, part) != getattr(new, part)]


def _made() -> Environment:
    made = Environment(
        loader=PackageLoader("canonry.server.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # The stubs know the filters that come with Jinja only.
    tests, filters = cast("Any", made.tests), cast("Any", made.filters)
    tests["link"] = is_link
    filters["changed_parts"] = _changed_parts
    filters["masked"] = mask_credentials
    filters["number"] = "{:,}".format
    filters["short"] = _short
    filters["diff_tokens"] = diff_tokens
    filters["when"] = _when
    return made


_ENVIRONMENT = _made()
