"""What a URL showed when it was fetched, as the store keeps it (contract E4)."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from canonry.core.url import parse
from canonry.evidence.page_view import is_root
from canonry.evidence.resolve_decisions import find_declared_url, is_temporarily_elsewhere, selects_route, strip_index
from canonry.evidence.same_page import Evidence, find_evidence
from canonry.net.moved_urls import strip_cosmetics

if TYPE_CHECKING:
    from collections.abc import Iterable

    from canonry.evidence.fingerprint import Fingerprint
    from canonry.evidence.page_view import PageView

_SURROGATES = re.compile("[\ud800-\udfff\x00]")


@dataclass(frozen=True, slots=True)
class PageFact:
    """What a URL, without its fragment, showed at `fetched_at`.

    `permanent_url` is where permanent redirects ended, empty if there were none; `canonical_url` is what the page
    declares, empty if that is the URL itself, or if it declares nothing or several URLs.
    """

    url: str
    permanent_url: str
    canonical_url: str
    status: int
    title: str
    fingerprint: Fingerprint
    body_hash: str
    fetched_at: str


@dataclass(frozen=True, slots=True)
class PageAlias:
    """Two URLs that are proven to show the same page."""

    url: str
    target_url: str
    evidence: Evidence


def make_fact(url: str, page: PageView, fetched_at: str) -> PageFact:
    """Return the fact that a response to `url` is; what a temporary redirect leads to declares nothing about it."""
    declares_one = len(page.declared.canonical_urls) <= 1 and not is_temporarily_elsewhere(page)
    declared = find_declared_url(page) if declares_one else ""
    return PageFact(
        url,
        page.url if page.url != url else "",
        declared if declared != url else "",
        page.response.status,
        _SURROGATES.sub("\ufffd", page.title),
        page.fingerprint,
        page.body_hash,
        fetched_at,
    )


def make_url_key(url: str) -> str:
    """Return the key of a URL: the SHA-256 digest of its text."""
    return hashlib.sha256(url.encode("utf-8", "surrogatepass")).hexdigest()


def make_form_key(url: str) -> str:
    """Return a key that is equal for URLs that differ only in form.

    These are: scheme, `www.`, slashes, index file, order of parameters, tracking, a fragment that names a place.
    """
    fragment = parse(url).fragment or ""
    route = f"#{fragment}" if selects_route(fragment) else ""
    return make_url_key(strip_cosmetics(strip_index(url)) + route)


def find_alias(one: PageFact, other: PageFact) -> PageAlias | None:
    """Return the alias that two facts prove, or None (contract E2).

    Proof is a permanent redirect, a declared canonical that shows the same, or the same text under URLs that differ
    only in form. The same text under two unrelated URLs may be a login form, so it proves nothing.
    """
    for fact, target in ((one, other), (other, one)):
        if fact.permanent_url and fact.permanent_url == (target.permanent_url or target.url):
            is_lost = is_root(fact.permanent_url) and not is_root(strip_index(fact.url))
            if not is_lost or make_form_key(fact.url) == make_form_key(fact.permanent_url):
                return PageAlias(fact.url, target.url, Evidence.REDIRECT)
    if one.status != other.status or not 200 <= one.status < 300:
        return None
    evidence = find_evidence(one, other)
    if evidence is None:
        return None
    if make_form_key(one.url) == make_form_key(other.url):
        return PageAlias(one.url, other.url, evidence)
    for fact, target in ((one, other), (other, one)):
        if fact.canonical_url and fact.canonical_url == target.url and _is_believable(fact, target):
            return PageAlias(fact.url, target.url, Evidence.DECLARED)
    return None


def _is_believable(fact: PageFact, target: PageFact) -> bool:
    """Return whether a declared canonical that shows the same text may stand for the page."""
    is_lost = is_root(target.url) and not is_root(strip_index(fact.url))
    declares_another = bool(target.canonical_url) and make_form_key(target.canonical_url) != make_form_key(target.url)
    return not is_lost and not declares_another and parse(fact.url).host == parse(target.url).host


def find_redirect_alias(fact: PageFact) -> PageAlias | None:
    """Return the alias that a permanent redirect alone proves: not one to the root of a site."""
    if not fact.permanent_url:
        return None
    is_lost = is_root(fact.permanent_url) and not is_root(strip_index(fact.url))
    if is_lost and make_form_key(fact.url) != make_form_key(fact.permanent_url):
        return None
    return PageAlias(fact.url, fact.permanent_url, Evidence.REDIRECT)


def list_aliases_of(fact: PageFact, others: Iterable[PageFact]) -> list[PageAlias]:
    """List the aliases that a fact proves together with other facts."""
    found = [find_alias(fact, other) for other in others if other.url != fact.url]
    return [alias for alias in (find_redirect_alias(fact), *found) if alias is not None]
