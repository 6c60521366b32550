"""The account: tokens, sessions, theme, time zone and export (contract U4)."""

from __future__ import annotations

from typing import Annotated
from zoneinfo import available_timezones

from fastapi import Query, Request, Response

from canonry.accounts import MAX_TOKEN_NAME_CHARS, AccountAccess
from canonry.core.keys import replace_unstorable
from canonry.server.access import SESSION_COOKIE, read_cookie
from canonry.server.dependencies import get_owner_id, get_service
from canonry.server.pages.forms import get_text, page_router, redirect
from canonry.server.pages.rendering import (
    THEME_COOKIE,
    THEMES,
    ZONE_COOKIE,
    find_zone,
    get_theme,
    get_zone,
    is_secure,
    render,
)
from canonry.server.problems import RequestRefused

router = page_router()
_COOKIE_SECONDS = 365 * 24 * 3600
_NOTICES = {
    "revoked": "The token was revoked. Programs that use it no longer have access.",
    "signed-out": "All other browsers were signed out.",
    "saved": "Saved for this browser.",
}


@router.get("/account")
async def show_account(request: Request, notice: Annotated[str, Query(max_length=20)] = "") -> Response:
    return await _render_account(request, notice=notice if notice in _NOTICES else "")


@router.post("/account/tokens")
async def create_token(request: Request) -> Response:
    """Create a token and show it, this once."""
    service = get_service(request)
    name = replace_unstorable(get_text(await request.form(), "name").strip())
    if not name or len(name) > MAX_TOKEN_NAME_CHARS:
        error = f"Give the token a name of at most {MAX_TOKEN_NAME_CHARS} characters."
        return await _render_account(request, error=error, name=name, status=400)
    token = await AccountAccess(service.database).create_token(get_owner_id(request), name, service.clock())
    return await _render_account(request, token=token, name=name)


@router.post("/account/tokens/revoke")
async def revoke_token(request: Request) -> Response:
    token_id = get_text(await request.form(), "token_id")
    await AccountAccess(get_service(request).database).revoke_token(get_owner_id(request), token_id)
    return redirect("/account?notice=revoked")


@router.post("/account/sessions/close")
async def close_other_sessions(request: Request) -> Response:
    current = read_cookie(request.headers, SESSION_COOKIE)
    await AccountAccess(get_service(request).database).close_other_sessions(get_owner_id(request), current=current)
    return redirect("/account?notice=signed-out")


@router.post("/account/display")
async def save_display(request: Request) -> Response:
    """Save theme and time zone in cookies of this browser."""
    form = await request.form()
    theme, zone = get_text(form, "theme"), get_text(form, "zone").strip()
    if zone and find_zone(zone) is None:
        error = f"There is no time zone {zone[:60]!r}. Choose one such as Europe/Vienna."
        return await _render_account(request, zone=zone, zone_error=error, status=400)
    if theme and theme not in THEMES:
        raise RequestRefused(400, "Unknown theme.")
    response = redirect("/account?notice=saved")
    for cookie, value in ((THEME_COOKIE, theme), (ZONE_COOKIE, zone)):
        if value:
            response.set_cookie(cookie, value, max_age=_COOKIE_SECONDS, samesite="lax", secure=is_secure(request))
        else:
            response.delete_cookie(cookie, samesite="lax", secure=is_secure(request))
    return response


async def _render_account(
    request: Request,
    *,
    notice: str = "",
    token: str = "",
    name: str = "",
    error: str = "",
    zone: str = "",
    zone_error: str = "",
    status: int = 200,
) -> Response:
    service, owner = get_service(request), get_owner_id(request)
    access = AccountAccess(service.database)
    current = read_cookie(request.headers, SESSION_COOKIE)
    has_sessions = bool(request.state.has_users) or service.options.require_token
    return render(
        request,
        "account.html",
        status=status,
        tokens=await access.list_tokens(owner),
        sessions=await access.list_sessions(owner, service.clock(), current=current) if has_sessions else [],
        has_sessions=has_sessions,
        is_personal=not request.state.has_users,
        chosen_theme=get_theme(request),
        themes=THEMES,
        chosen_zone=zone or str(get_zone(request)),
        zones=sorted(available_timezones()),
        notice=_NOTICES.get(notice, ""),
        notice_name=notice,
        token=token,
        name=name,
        max_name=MAX_TOKEN_NAME_CHARS,
        errors={key: text for key, text in (("name", error), ("zone", zone_error)) if text},
    )
