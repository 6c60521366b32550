"""Texts of feeds, and responses for the dict and loopback webs of the tests."""

from __future__ import annotations

from typing import Any


def rss(*posts: object, title: str = "Blog", self_url: str = "", extra: str = "", text: str = "Text of") -> str:
    """Return an RSS feed with these posts, or with three."""
    self_link = f'<atom:link rel="self" href="{self_url}"/>' if self_url else ""
    items = "".join(
        f"<item><title>Post {post}</title><link>https://posts.example.com/{post}</link>"
        f'<guid isPermaLink="false">id-{post}</guid><description>{text} {post}</description></item>'
        for post in (posts or (1, 2, 3))
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?><rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom">'
        f"<channel><title>{title}</title><link>https://example.com/</link>{self_link}{extra}{items}</channel></rss>"
    )


def empty_rss(title: str = "Blog") -> str:
    """Return a feed without items."""
    return f'<rss version="2.0"><channel><title>{title}</title></channel></rss>'


def ok(body: str, **headers: str) -> dict[str, Any]:
    """Return a 200 response with this body."""
    return {"status": 200, "headers": {"content-type": "application/rss+xml; charset=utf-8", **headers}, "body": body}


def moved(location: str, status: int = 301) -> dict[str, Any]:
    """Return a redirect."""
    return {"status": status, "headers": {"location": location}, "body": ""}


def gone(status: int = 404, **headers: str) -> dict[str, Any]:
    """Return an error response."""
    return {"status": status, "headers": headers, "body": ""}
