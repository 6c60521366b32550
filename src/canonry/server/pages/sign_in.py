"""Sign in with a token, and out again (contract B6)."""

from __future__ import annotations

from fastapi import Request, Response

from canonry.accounts import SESSION_LIFETIME
from canonry.server.access import SESSION_COOKIE, read_cookie
from canonry.server.dependencies import get_service
from canonry.server.pages.forms import page_router, see, text_of
from canonry.server.pages.rendering import is_secure, render
from canonry.server.problems import RequestRefused

router = page_router()


@router.get("/signin")
async def sign_in_form(request: Request) -> Response:
    if not _signs_in(request):
        return see("/")
    return render(request, "signin.html", error="", after=_after(request.query_params.get("next", "")))


@router.post("/signin")
async def sign_in(request: Request) -> Response:
    """A session for whoever has a token."""
    if not _signs_in(request):
        return see("/")
    form = await request.form()
    after = _after(text_of(form, "next"))
    try:
        request.app.state.sign_in_limits.take(request.client.host if request.client else "")
    except RequestRefused as error:
        said = "Too many attempts: wait a minute."
        return render(request, "signin.html", status=error.status, headers=error.headers, error=said, after=after)
    service = get_service(request)
    user = await service.users.find_by_token(text_of(form, "token").strip())
    if user is None:
        return render(request, "signin.html", status=401, error="This token is not known.", after=after)
    secret = await service.users.open_session(user.id, service.clock())
    answer = see(after)
    answer.set_cookie(
        SESSION_COOKIE,
        secret,
        max_age=int(SESSION_LIFETIME.total_seconds()),
        httponly=True,
        samesite="lax",
        secure=is_secure(request),
    )
    return answer


@router.post("/signout")
async def sign_out(request: Request) -> Response:
    if secret := read_cookie(request.headers, SESSION_COOKIE):
        await get_service(request).users.close_session(secret)
    answer = see("/signin")
    answer.delete_cookie(SESSION_COOKIE, httponly=True, samesite="lax", secure=is_secure(request))
    return answer


def _after(path: str) -> str:
    """Where to go on: a page of ours, whatever a link to the form says."""
    is_ours = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if is_ours else "/"


def _signs_in(request: Request) -> bool:
    """In personal mode everybody is the owner, and there is nothing to sign in to."""
    return bool(request.state.has_users) or get_service(request).options.require_token
