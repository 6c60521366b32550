"""What a URL showed when it was fetched, as the store keeps it (contract E4)."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING

from canonry.core.rules import strip_www
from canonry.core.url import parse
from canonry.evidence.page_view import is_root
from canonry.evidence.resolve_decisions import (
    find_declared_url,
    is_shell,
    is_temporarily_elsewhere,
    selects_route,
    strip_index,
)
from canonry.evidence.same_page import Evidence, find_evidence
from canonry.net.moved_urls import is_stopgap, strip_cosmetics
from canonry.net.response import NO_VALIDATORS, Validators

if TYPE_CHECKING:
    from collections.abc import Iterable

    from canonry.evidence.fingerprint import Fingerprint
    from canonry.evidence.page_view import PageView

_MAX_REDIRECTED_PAGES = 2  # of other hosts, to one page
_SURROGATES = re.compile("[\ud800-\udfff\x00]")


class ControlResult(StrEnum):
    """The result of a request for a made-up URL beside a page (contract E2)."""

    NONE = "none"  # no such request was answered
    PASSED = "passed"  # it shows something else
    SHOWN_EVERYWHERE = "shown_everywhere"  # it shows the same, so neither a redirect nor the text proves anything


@dataclass(frozen=True, slots=True)
class PageFact:
    """The facts about a URL, without its fragment, at `fetched_at`.

    `permanent_url` is where permanent redirects ended, empty if there were none; `canonical_url` is what the page
    declares, empty if that is the URL itself, or if it declares nothing or several URLs. Where one of them differs from
    the URL in more than its form, it proves something only after a `control`.
    """

    url: str
    permanent_url: str
    canonical_url: str
    status: int
    title: str
    fingerprint: Fingerprint
    body_hash: str  # empty if the bytes are not known
    fetched_at: str
    validators: Validators = NO_VALIDATORS
    control: ControlResult = ControlResult.NONE


@dataclass(frozen=True, slots=True)
class PageAlias:
    """Two URLs that are proven to show the same page."""

    url: str
    target_url: str
    evidence: Evidence


def make_fact(url: str, page: PageView, fetched_at: str) -> PageFact:
    """Return the fact from a response to `url`; a page behind a temporary redirect declares nothing about `url`."""
    declares_one = len(page.declared.canonical_urls) <= 1 and not is_temporarily_elsewhere(page) and not is_shell(page)
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
        page.response.validators,
    )


def hash_url(url: str) -> str:
    """Return the SHA-256 digest of a URL, by which facts and aliases are found."""
    return hashlib.sha256(url.encode("utf-8", "surrogatepass")).hexdigest()


@lru_cache(maxsize=4096)  # saving a fact asks for the key of its URL several times
def make_form_key(url: str) -> str:
    """Return a key that is equal for URLs that differ only in form.

    These are: scheme, `www.`, slashes, index file, order of parameters, tracking, a fragment that names a place.
    """
    fragment = (parse(url).fragment or "") if "#" in url else ""
    route = f"#{fragment}" if selects_route(fragment) else ""
    return hash_url(strip_cosmetics(strip_index(url)) + route)


def find_alias(one: PageFact, other: PageFact) -> PageAlias | None:
    """Return the alias that two facts prove, or None (contract E2).

    Proof is a permanent redirect, a declared canonical that shows the same, or the same text under URLs that differ
    only in form. The same text under two unrelated URLs may be a login form, so it proves nothing. A redirect or a
    canonical to another path may be that of a login form, too, so it is believed after a control only.
    """
    for fact, target in ((one, other), (other, one)):
        is_target = bool(fact.permanent_url) and fact.permanent_url == (target.permanent_url or target.url)
        if is_target and _is_redirect_proven(fact) and (not target.permanent_url or _is_redirect_proven(target)):
            return PageAlias(fact.url, target.url, Evidence.REDIRECT)
    if one.status != other.status or not 200 <= one.status < 300:
        return None
    evidence = find_evidence(one, other)
    if evidence is None:
        return None
    if differ_only_in_form(one.url, other.url):
        return PageAlias(one.url, other.url, evidence)
    if evidence is Evidence.SIMILAR_TEXT:
        return None  # most of a page is its template: a sibling with another short text is nearly equal, too
    for fact, target in ((one, other), (other, one)):
        if fact.control is ControlResult.PASSED and declares(fact, target):
            return PageAlias(fact.url, target.url, Evidence.DECLARED)
    return None


def declares(fact: PageFact, target: PageFact) -> bool:
    """Return whether a page declares another one as its canonical, which shows the same and may stand for it."""
    if not fact.canonical_url or fact.canonical_url != target.url or find_evidence(fact, target) is None:
        return False
    if is_stopgap(target.url, fact.url):
        return False
    if not fact.fingerprint.words:
        return False  # a page made by scripts has the same bytes for everything that it shows
    leads_to_root = is_root(strip_index(target.url)) and not is_root(strip_index(fact.url))
    declares_another = bool(target.canonical_url) and not differ_only_in_form(target.canonical_url, target.url)
    return not leads_to_root and not declares_another and parse(fact.url).host == parse(target.url).host


def differ_only_in_form(one: str, other: str) -> bool:
    """Return whether two URLs differ in their form only, or not at all."""
    return make_form_key(one) == make_form_key(other)


def has_unproven_redirect(fact: PageFact) -> bool:
    """Return whether a permanent redirect proves nothing before a control."""
    is_moved = bool(fact.permanent_url) and not differ_only_in_form(fact.url, fact.permanent_url)
    return is_moved and not _redirects_to_root(fact) and fact.control is ControlResult.NONE


def find_landings(redirects: Iterable[tuple[str, str]]) -> set[str]:
    """Return the targets of several different pages, given pairs of a URL and the URL that it redirects to.

    Sites send what they removed to one such page. Two are enough on one host, where two products may end at their
    category; two short links may mean one article.
    """
    forms: dict[str, set[str]] = defaultdict(set)
    forms_on_host: dict[str, set[str]] = defaultdict(set)
    for url, target in redirects:
        if not differ_only_in_form(url, target):
            forms[target].add(make_form_key(url))
            if _get_site(url) == _get_site(target):
                forms_on_host[target].add(make_form_key(url))
    many = {url for url, each in forms.items() if len(each) > _MAX_REDIRECTED_PAGES}
    return many | {url for url, each in forms_on_host.items() if len(each) > 1}


def _get_site(url: str) -> str:
    return strip_www(parse(url).host)


def _is_redirect_proven(fact: PageFact) -> bool:
    """Return whether the permanent redirect of a page proves that its target shows the page."""
    if differ_only_in_form(fact.url, fact.permanent_url):
        return True
    return fact.control is ControlResult.PASSED and not _redirects_to_root(fact)


def _redirects_to_root(fact: PageFact) -> bool:
    """Return whether a page redirects to the root of a site, as sites do with pages that they removed."""
    return is_root(strip_index(fact.permanent_url)) and not is_root(strip_index(fact.url))


def find_redirect_alias(fact: PageFact) -> PageAlias | None:
    """Return the alias that a permanent redirect alone proves: not one to the root of a site."""
    if not fact.permanent_url or not _is_redirect_proven(fact):
        return None
    return PageAlias(fact.url, fact.permanent_url, Evidence.REDIRECT)


def is_still_proven(alias: PageAlias, one: PageFact | None, other: PageFact | None) -> bool:
    """Return whether the latest facts about the two URLs of a stored alias, if there are any, still prove it."""
    if one is None:
        return True
    if (
        alias.evidence is Evidence.REDIRECT
        and (found := find_redirect_alias(one))
        and found.target_url == alias.target_url
    ):
        return True
    if other is None:
        return alias.evidence is not Evidence.REDIRECT
    return find_alias(one, other) is not None


def list_aliases_of(fact: PageFact, others: Iterable[PageFact]) -> list[PageAlias]:
    """List the aliases that a fact proves together with other facts."""
    found = [find_alias(fact, other) for other in others if other.url != fact.url]
    return [alias for alias in (find_redirect_alias(fact), *found) if alias is not None]
