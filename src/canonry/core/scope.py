"""Scope: does a crawl follow a link, only record it, or skip it, and why (contract C2, C3)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from canonry.core.native import normalize
from canonry.core.tables import SKIPPED_EXTENSIONS
from canonry.core.url import join, parse
from canonry.errors import InvalidUrl

CRAWL_POLICY = "crawl@1"
_SPACES = "\t\n\f\r "


class Verdict(StrEnum):
    """What a crawl does with a link."""

    CRAWL = "crawl"
    EXTERNAL = "external"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class LinkVerdict:
    """The verdict on one link; `url` is its normalized form, None where it has none."""

    verdict: Verdict
    reason: str
    url: str | None


def judge_link(href: str, page_url: str, seed_url: str) -> LinkVerdict:
    """Crawl, external or skip, for a link as written on a page of the site that `seed_url` names."""
    page, seed = normalize(page_url, CRAWL_POLICY), parse(seed_url)
    try:
        target = join(page_url, href.strip(_SPACES))
    except InvalidUrl as error:
        return judge_unresolved(href) or _skip(error.reason)
    return judge_unresolved(href) or judge_target(target, page=page, host=seed.host)


def judge_unresolved(href: str) -> LinkVerdict | None:
    """Skip, for a link that leads nowhere else by the way it is written; None for any other."""
    reference = href.strip(_SPACES)
    if not reference:
        return _skip("the link is empty")
    if reference.startswith("#"):
        return _skip("leads to a place on the same page")
    return None


def judge_target(target: str, *, page: str, host: str) -> LinkVerdict:
    """Crawl, external or skip, for the absolute URL of a link; `page` is normalized, `host` the one of the site."""
    scheme = target.partition(":")[0]
    if scheme not in ("http", "https"):
        return _skip(f"scheme {scheme}: is not http or https")
    url = normalize(target, CRAWL_POLICY)
    _, _, authority, path = url.split("/", 3)
    name = path.partition("?")[0].rpartition("/")[2]
    extension = name.rpartition(".")[2].lower() if "." in name else ""
    if extension in SKIPPED_EXTENSIONS:
        return _skip(f"a .{extension} file is not a page", url)
    if url == page:
        return _skip("leads to the page itself", url)
    found = authority.rpartition("@")[2]
    if found != host and (found := parse(url).host) != host:
        return LinkVerdict(Verdict.EXTERNAL, f"host {found} is not {host}", url)
    return LinkVerdict(Verdict.CRAWL, f"on {host}", url)


def _skip(reason: str, url: str | None = None) -> LinkVerdict:
    return LinkVerdict(Verdict.SKIP, reason, url)
