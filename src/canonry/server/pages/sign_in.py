"""Sign in with a token, and out again (contract B6)."""

from __future__ import annotations

from fastapi import Request, Response

from canonry.accounts import SESSION_LIFETIME
from canonry.server.access import SESSION_COOKIE, read_cookie
from canonry.server.dependencies import get_service
from canonry.server.pages.forms import choose_own_path, get_text, page_router, redirect
from canonry.server.pages.rendering import is_secure, render
from canonry.server.peers import name_customer
from canonry.store.shared_limits import SharedLimit

router = page_router()


@router.get("/signin")
async def show_sign_in_form(request: Request) -> Response:
    if not _needs_sign_in(request):
        return redirect("/")
    return render(request, "signin.html", error="", after=choose_own_path(request.query_params.get("next", "")))


@router.post("/signin")
async def sign_in(request: Request) -> Response:
    """Open a session for a valid token."""
    if not _needs_sign_in(request):
        return redirect("/")
    form = await request.form()
    after = choose_own_path(get_text(form, "next"))
    service = get_service(request)
    limit = SharedLimit(service.database, "sign-in", per_minute=service.options.sign_ins_per_minute)
    attempt = await limit.take(name_customer(request.client.host if request.client else None), service.clock())
    if not attempt.is_allowed:
        headers = {"Retry-After": str(attempt.wait_seconds)}
        message = "Too many attempts. Wait a minute and try again."
        return render(request, "signin.html", status=429, headers=headers, error=message, after=after)
    user = await service.users.find_by_token(get_text(form, "token").strip())
    if user is None:
        return render(request, "signin.html", status=401, error="Unknown token.", after=after)
    secret = await service.users.open_session(
        user.id, service.clock(), user_agent=request.headers.get("user-agent", "")
    )
    response = redirect(after)
    response.set_cookie(
        SESSION_COOKIE,
        secret,
        max_age=int(SESSION_LIFETIME.total_seconds()),
        httponly=True,
        samesite="lax",
        secure=is_secure(request),
    )
    return response


@router.post("/signout")
async def sign_out(request: Request) -> Response:
    if secret := read_cookie(request.headers, SESSION_COOKIE):
        await get_service(request).users.close_session(secret)
    response = redirect("/signin")
    response.delete_cookie(SESSION_COOKIE, httponly=True, samesite="lax", secure=is_secure(request))
    return response


def _needs_sign_in(request: Request) -> bool:
    """Return whether there is anything to sign in to: in personal mode every request acts as the owner."""
    return bool(request.state.has_users) or get_service(request).options.require_token
