"""Decide for each link of a crawled page: follow it, record it as external, or skip it (contract C2, C3)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from canonry.core.native import normalize
from canonry.core.tables import SKIPPED_EXTENSIONS
from canonry.core.url import join, parse
from canonry.url_errors import InvalidUrl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from canonry.core.policy import Policy

CRAWL_POLICY = "crawl@2"
_HTML_WHITESPACE = "\t\n\f\r "


class Verdict(StrEnum):
    """How a crawl treats a link."""

    CRAWL = "crawl"
    EXTERNAL = "external"
    SKIP = "skip"


class LinkRule(StrEnum):
    """The rule that decided the verdict on a link."""

    SAME_HOST = "same_host"
    OTHER_HOST = "other_host"
    EMPTY = "empty"
    FRAGMENT_ONLY = "fragment_only"
    PAGE_ITSELF = "page_itself"
    NOT_HTTP = "not_http"
    FILE_EXTENSION = "file_extension"
    INVALID_URL = "invalid_url"
    LEFT_OUT = "left_out"
    NOFOLLOW_LINK = "nofollow_link"
    NOFOLLOW_PAGE = "nofollow_page"


# The sentence for each rule; the placeholders are `LinkVerdict.details`.
_SENTENCES = {
    LinkRule.SAME_HOST: "on {}",
    LinkRule.OTHER_HOST: "host {} is not {}",
    LinkRule.EMPTY: "the link is empty",
    LinkRule.FRAGMENT_ONLY: "links to a fragment of the same page",
    LinkRule.PAGE_ITSELF: "links to the page itself",
    LinkRule.NOT_HTTP: "scheme {}: is not http or https",
    LinkRule.FILE_EXTENSION: "a .{} file is not a page",
    LinkRule.INVALID_URL: "{}",
    LinkRule.LEFT_OUT: "left out by {}",
    LinkRule.NOFOLLOW_LINK: "the link asks not to be followed (nofollow)",
    LinkRule.NOFOLLOW_PAGE: "the page asks that its links are not followed (nofollow)",
}


@dataclass(frozen=True, slots=True)
class LinkVerdict:
    """The verdict on one link, and the rule that decided it.

    `url` is the normalized target, or None if the link has none. `details` are the values that the
    sentence in `reason` names: a host, a scheme, a file extension.
    """

    verdict: Verdict
    rule: LinkRule
    url: str | None = None
    details: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """The rule as a sentence for people; code decides by `rule`."""
        return _SENTENCES[self.rule].format(*self.details)


def judge_link(href: str, page_url: str, seed_url: str) -> LinkVerdict:
    """Judge a link as written on the page `page_url`, in a crawl of the host of `seed_url`."""
    page, seed = normalize(page_url, CRAWL_POLICY), parse(seed_url)
    verdict = judge_unresolved(href)
    if verdict is not None:
        return verdict
    try:
        target = join(page_url, href.strip(_HTML_WHITESPACE))
    except InvalidUrl as error:
        return _skip(LinkRule.INVALID_URL, error.reason)
    return judge_target(target, page=page, host=seed.host)


def judge_unresolved(href: str) -> LinkVerdict | None:
    """Return the verdict on a link that is empty or only a fragment, None for any other link."""
    reference = href.strip(_HTML_WHITESPACE)
    if not reference:
        return _skip(LinkRule.EMPTY)
    if reference.startswith("#"):
        return _skip(LinkRule.FRAGMENT_ONLY)
    return None


def judge_target(target: str, *, page: str, host: str, policy: Policy | str = CRAWL_POLICY) -> LinkVerdict:
    """Judge the absolute URL of a link; `page` is the normalized URL of its page, `host` the crawled host.

    The host of the link as found decides, because a policy may strip `www.`, which is significant here.
    """
    scheme = target.partition(":")[0]
    if scheme not in ("http", "https"):
        return _skip(LinkRule.NOT_HTTP, scheme)
    try:
        url = normalize(target.partition("#")[0], policy)
    except InvalidUrl as error:
        return _skip(LinkRule.INVALID_URL, error.reason)
    _, _, authority, path = url.split("/", 3)
    extension = _find_extension(target, path.partition("?")[0])
    if extension in SKIPPED_EXTENSIONS:
        return _skip(LinkRule.FILE_EXTENSION, extension, url=url)
    if url == page:
        return _skip(LinkRule.PAGE_ITSELF, url=url)
    target_host = authority.rpartition("@")[2]
    is_crawl_policy = policy == CRAWL_POLICY
    if (target_host != host or not is_crawl_policy) and (
        target_host := parse(url if is_crawl_policy else target).host
    ) != host:
        return LinkVerdict(Verdict.EXTERNAL, LinkRule.OTHER_HOST, url, (target_host, host))
    return LinkVerdict(Verdict.CRAWL, LinkRule.SAME_HOST, url, (host,))


def _find_extension(target: str, path: str) -> str:
    """Return the extension of the last segment; empty for a folder, `/tags/node.js/`.

    The slash at the end is that of the link as found, because the policy strips it from `path`.
    """
    if target.partition("#")[0].partition("?")[0].endswith("/"):
        return ""
    name = path.rpartition("/")[2]
    return name.rpartition(".")[2].lower() if "." in name else ""


def _skip(rule: LinkRule, *details: str, url: str | None = None) -> LinkVerdict:
    return LinkVerdict(Verdict.SKIP, rule, url, details)
