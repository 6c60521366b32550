"""A site with every trap, as pages for `LoopbackWeb`, and the pages that a crawl of it must return."""

from __future__ import annotations

from typing import Any

HOST = "site.example.com"
SEED = f"http://{HOST}/"
EXTENSIONS = "pdf jpg jpeg png gif svg webp css js ico zip tar gz mp4 mov avi mp3 wav".split()
_HTML = {"Content-Type": "text/html; charset=utf-8"}


def html(body: str, **more: Any) -> dict[str, Any]:
    return {"status": 200, "headers": _HTML, "body": f"<!doctype html>{body}", **more}


def links(*hrefs: str) -> str:
    return "".join(f'<a href="{href}">to {number}</a> ' for number, href in enumerate(hrefs))


def moved(to: str, status: int = 301) -> dict[str, Any]:
    return {"status": status, "headers": {"Location": to}, "body": ""}


SKIPPED = [
    *(f"/file.{extension}?v=1" for extension in EXTENSIONS),
    "/FILE.PDF#page=2",
    "mailto:a@example.com",
    "tel:123",
    "javascript:void(0)",
    "data:text/html,x",
    "ftp://site.example.com/x",
    "",
    "#top",
    "http://[",
]
# Path → page. Paths that must not be requested are missing: the server closes the connection for them.
_PATHS: dict[str, dict[str, Any]] = {
    "/": html(
        "<title>Home</title>"
        + links("/about/", "/about", "/about#team", "http://SITE.example.com:80/about/", "/%61bout", "/", "/?")
        + links(
            "/twins/", "/based/", "/moved/", "/params?id=1&utm_source=x", "/params?id=1", "/calendar/1", "/soft-404"
        )
        + links("https://www.example.com/", "http://www.site.example.com/", "https://other.example.org/a.html")
        + links(*SKIPPED)
    ),
    "/about/": html("<title>About</title>" + links("/", "../about", ".", "/data", "/deep/1")),
    "/twins/": html(links("http://site.example.com/tls", "/plain")),
    "/tls": html(links("https://site.example.com/tls", "https://site.example.com/about")),
    "/plain": html(links("https://site.example.com/secure", "http://site.example.com/secure")),
    "/based/": html('<base href="/base/dir/">' + links("x", "../y", "?q=1", "#z", "//site.example.com/base/z")),
    "/base/dir/x": html(""),
    "/base/y": html(""),
    "/base/dir/?q=1": html(""),
    "/base/z": html(""),
    "/base/dir/": html(""),
    "/moved/": html(links("/old", "/new", "/only-old", "/loop/a", "/loop/b", "/self-loop", "/leaves", "/to-file")),
    "/old": moved("/new"),
    "/new": html("<title>New</title>"),
    "/only-old": moved("/only-new/", 302),
    "/only-new/": html("<title>Only new</title>" + links("/only-new", "/only-old")),
    "/loop/a": moved("/loop/b"),
    "/loop/b": moved("/loop/a"),
    "/self-loop": moved("/self-loop"),
    "/leaves": moved("https://other.example.org/landing"),
    "/to-file": moved("file:///etc/passwd"),
    "/params?id=1&utm_source=x": html(""),
    "/params?id=1": html(""),
    "/soft-404": html("<title>Not found</title>" + links("/")),
    "/data": {"status": 200, "headers": {"Content-Type": "application/json"}, "body": '{"a": "<a href=/no>"}'},
    "/deep/1": html(links("/deep/2", "/gone", "/broken")),
    "/deep/2": html(links("/deep/1", "/")),
    "/gone": {"status": 404, "headers": _HTML, "body": links("/")},
    "/broken": {"status": 500, "headers": _HTML, "body": links("/never")},
    "/robots.txt": {"status": 404, "headers": {}, "body": ""},
    **{f"/calendar/{day}": html(links(f"/calendar/{day + 1}", f"/calendar/{max(day - 1, 0)}")) for day in range(60)},
}
PAGES = {f"http://{HOST}{path}": page for path, page in _PATHS.items()} | {
    f"https://{HOST}/secure": html(""),
    f"https://{HOST}/robots.txt": {"status": 404, "headers": {}, "body": ""},
}
MAX_DEPTH = 5
# Normalized URL without scheme and host → depth: exactly the pages of a crawl with a depth of MAX_DEPTH.
# The calendar has no end. Two pages that redirect to each other are one failed page, which is not listed here.
WANTED = {
    "/": 0,
    "/about": 1,
    "/twins": 1,
    "/based": 1,
    "/moved": 1,
    "/params?id=1": 1,
    "/soft-404": 1,
    "/data": 2,
    "/deep/1": 2,
    "/tls": 2,
    "/plain": 2,
    "/base/dir/x": 2,
    "/base/y": 2,
    "/base/dir?q=1": 2,
    "/base/z": 2,
    "/new": 2,
    "/only-old": 2,
    "/self-loop": 2,
    "/leaves": 2,
    "/to-file": 2,
    "/secure": 3,
    "/deep/2": 3,
    "/gone": 3,
    "/broken": 3,
    **{f"/calendar/{day}": day for day in range(1, MAX_DEPTH + 1)},
    "/calendar/0": 2,
}
