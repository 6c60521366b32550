"""Decide whether an equal text is evidence, from two more requests (contract E2). Decisions only.

The control is a made-up URL beside the page; the repeat is the page once more.
"""

from __future__ import annotations

import re
from collections import Counter
from hashlib import sha256
from typing import TYPE_CHECKING

from canonry.core.url import parse
from canonry.errors import FailureKind, FetchFailed, UnsafeUrl
from canonry.evidence.fingerprint import fold_text
from canonry.evidence.page_view import PageView
from canonry.evidence.resolve_decisions import PageDoubt, find_declared_url
from canonry.evidence.same_page import find_evidence, looks_alike
from canonry.net.moved_urls import strip_cosmetics
from canonry.net.response import is_unavailable_status
from canonry.net.visible_text import read_visible_text

if TYPE_CHECKING:
    from canonry.evidence.same_page import PageLike
    from canonry.net.response import Response

_DEVICE_PREFIX = re.compile(r"^//(?:m|mobile|touch|amp|wap)\.(?=[^/]*\.)")
# OTHER: a failure of the caller's fetch.
_REFUSED_CONNECTION = frozenset({FailureKind.CONNECT, FailureKind.DISCONNECTED, FailureKind.OTHER})
_SCRIPT = re.compile(r"\.(?:php|aspx?|jsp|cgi|pl|do|cfm)$", re.IGNORECASE)


def make_control_url(url: str, candidate_url: str = "") -> str:
    """Return a made-up URL beside a page: the last part of its path replaced, without query.

    A script chooses the page by its query, so there the values of the query are replaced instead: those that the
    candidate has, too, or else all.
    """
    parts = parse(url)
    name = f"canonry-check-{sha256(url.encode()).hexdigest()[:12]}"
    if parts.query and _SCRIPT.search(parts.path):
        params = parts.query.split("&")
        candidate = parse(candidate_url or url)
        kept = set((candidate.query or "").split("&")) if candidate.path == parts.path else set[str]()
        varied = kept & set(params) or set(params)
        replaced = [f"{each.partition('=')[0]}={name}" if each in varied else each for each in params]
        parts.query = "&".join(replaced)
        return str(parts)
    folder = parts.path.rstrip("/").rpartition("/")[0]
    parts.path = f"{folder}/{name}"
    parts.query = None
    return str(parts)


def judge_control(
    control: PageView | FetchFailed | UnsafeUrl, first: PageLike, input_url: str, *, final_url: str, own_url: str
) -> PageDoubt | None:
    """Return why the text of a page proves nothing, or None if the site does not show it for a made-up URL.

    `input_url` was requested, `final_url` answered, and `own_url` is where the permanent redirects ended.
    """
    if not isinstance(control, PageView):
        status = control.status if isinstance(control, FetchFailed) else None
        return None if status and not is_unavailable_status(status) else PageDoubt.NOT_CONTROLLED
    is_same_target = control.response.url == final_url
    if is_same_target and strip_cosmetics(final_url) == strip_cosmetics(input_url):
        return None  # the server finds the page by another part of the path, and redirects to its URL
    if is_same_target or _is_mirrored(control.response, input_url, final_url):
        return PageDoubt.SHOWN_EVERYWHERE
    if find_evidence(first, control) is None and not looks_alike(first, control):
        return None
    declared = find_declared_url(control)
    names_the_page = bool(declared) and strip_cosmetics(declared) == strip_cosmetics(own_url)
    return None if names_the_page else PageDoubt.SHOWN_EVERYWHERE


def is_refused_connection(error: FetchFailed | UnsafeUrl) -> bool:
    """Return whether a made-up URL was refused: the connection was refused or closed, or the caller's fetch failed.

    Unlike a timeout or "too many requests", that is no sign of a busy server, which answered for the page just now.
    """
    return isinstance(error, FetchFailed) and error.status is None and error.kind in _REFUSED_CONNECTION


def _is_mirrored(control: Response, input_url: str, final_url: str) -> bool:
    """Return whether a made-up URL redirects like the page, to its own name: `/gone` → `/search?q=gone`."""
    if not control.hops or input_url == final_url:
        return False
    made_up, own = (_get_name(url) for url in (control.hops[0].url, input_url))
    return bool(own) and made_up in control.url and control.url.replace(made_up, own) == final_url


def _get_name(url: str) -> str:
    return parse(url).path.rstrip("/").rpartition("/")[2]


def needs_control(input_url: str, page: PageView) -> bool:
    """Return whether the permanent redirect of a page changed more than the form of its URL."""
    return strip_cosmetics(input_url) != strip_cosmetics(page.url)


def may_be_siblings(url: str, candidate_url: str) -> bool:
    """Return whether two URLs may name two pages of one large template, such as two articles.

    They do not if they differ only in form, or in the prefix that a host has for some devices: `m.example.com/a`.
    """
    one, other = (_DEVICE_PREFIX.sub("//", strip_cosmetics(each)) for each in (url, candidate_url))
    return one != other


def judge_repeat(repeat: PageView | FetchFailed | UnsafeUrl, first: PageView) -> PageDoubt | None:
    """Return why a nearly equal text proves nothing, or None if the page itself differs from request to request.

    If the same URL shows the same text again, the difference is no advertisement.
    """
    if not isinstance(repeat, PageView):
        return PageDoubt.NOT_CONTROLLED
    return PageDoubt.STEADY if repeat.fingerprint.text_hash == first.fingerprint.text_hash else None


def lacks_lasting_words(candidate: PageView, first: PageView, repeat: PageView) -> bool:
    """Return whether a candidate lacks words that both responses of a page have.

    What differs between two responses of one URL is advertisements; what they share is the page.
    """
    return not _count_words(first) & _count_words(repeat) <= _count_words(candidate)


def _count_words(page: PageView) -> Counter[str]:
    response = page.response
    return Counter(fold_text(read_visible_text(response.body, response.header("content-type"))).split(" "))
