"""Judge an opened page: its result, verdicts on its links, and whether to follow its redirects. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from canonry.core.native import normalize
from canonry.core.scope import CRAWL_POLICY, LinkRule, LinkVerdict, Verdict, judge_target, judge_unresolved
from canonry.core.url import parse
from canonry.crawler.decide import is_unusable, may_follow
from canonry.crawler.hash_routes import find_route
from canonry.crawler.pages import PageLink
from canonry.crawler.path_patterns import PathPatterns
from canonry.crawler.reasons import SkipReason
from canonry.crawler.results import PageResult, PageState, PageUrl
from canonry.errors import FailureKind, InvalidUrl
from canonry.net.engine import OpenedPage, PageFailure
from canonry.net.response import REDIRECTS, drop_userinfo, find_host

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from canonry.core.policy import Policy
    from canonry.crawler.results import LeasedPage
    from canonry.net.engine import Link
    from canonry.net.origin import Origin

_REFUSED_TARGETS = frozenset({FailureKind.REFUSED, FailureKind.BAD_REDIRECT, FailureKind.INVALID_URL})
# The links of a site repeat. What a full cache forgets is judged, or sent to the frontier, once more.
_MAX_CACHED_VERDICTS = 20_000
_MAX_KNOWN_PAGES = 100_000
_MAX_SPELLINGS = 20_000


class _CachedVerdict(NamedTuple):
    """A verdict on a link target that holds for every page; `reason` is its sentence, made once."""

    verdict: Verdict
    url: str | None
    reason: str


class _FoundPage(NamedTuple):
    """How this process put a page into the frontier: the requested URL, whether it is https, and the depth."""

    requested_url: str
    is_https: bool
    depth: int


class Judge:
    """Judges the pages of one host, and knows which pages this process has put into the frontier."""

    def __init__(
        self,
        host: str,
        max_depth: int | None,
        *,
        policy: Policy | str = CRAWL_POLICY,
        patterns: PathPatterns | None = None,
        routes: bool = False,
        nofollow: bool = True,
    ) -> None:
        self._patterns = patterns or PathPatterns()
        self.host = host
        self.policy = policy
        self._routes = routes
        self._nofollow = nofollow
        self._max_depth = max_depth
        self._verdicts: dict[str, _CachedVerdict] = {}
        self._known: dict[str, _FoundPage] = {}  # by URL without scheme
        self._spellings: set[str] = set()  # further requested URLs of known pages
        self._redirects: dict[str, str] = {}  # redirects that were not followed, without schemes

    def judge_page(
        self, page: LeasedPage, opened: OpenedPage, *, engine: str, is_disallowed: Callable[[str], bool]
    ) -> PageResult:
        """Return the final result of a page; `is_disallowed` says whether robots.txt disallows a URL."""
        url, final_url = page.url, drop_userinfo(opened.final_url)
        if is_unusable(opened.status):
            return PageResult(
                page, PageState.FAILED, url, opened.status, final_url, engine=engine, failure=opened.failure
            )
        try:
            target = self._normalize(final_url)
        except InvalidUrl as error:
            failure = PageFailure(FailureKind.INVALID_URL, str(error))
            return PageResult(page, PageState.FAILED, url, opened.status, final_url, engine=engine, failure=failure)
        if parse(final_url).host != self.host:
            return _leave_host(page, opened.status, PageUrl(target, final_url, opened.origin), engine=engine)
        if self._routes and (route := find_route(page.requested_url)):  # Chrome does not report fragments
            target, final_url = target + route, final_url.partition("#")[0] + route
        is_same = _remove_scheme(target) == _remove_scheme(url)
        if is_same and target.startswith("https:"):
            url = target
        is_unfollowed = opened.is_target_unread or (
            opened.status in REDIRECTS and bool(opened.hops) and opened.hops[-1].location == opened.final_url
        )
        if final_url != page.requested_url and is_disallowed(final_url):  # Chrome has followed the redirect
            reason = SkipReason.REDIRECT_DISALLOWED
            return PageResult(page, PageState.SKIPPED, url, opened.status, final_url, engine=engine, skip_reason=reason)
        is_nofollow = self._nofollow and opened.facts.is_nofollow
        links = self._judge_links((*opened.links, *opened.added_links), page=target, is_nofollow=is_nofollow)
        return PageResult(
            page,
            PageState.DONE,
            url,
            opened.status,
            final_url,
            opened.title,
            engine,
            failure=opened.failure,
            links=links,
            followed=sum([link.verdict is Verdict.CRAWL for link in links]),
            found=self.find_pages(links, opened.origin, depth=page.depth + 1),
            redirects_to="" if is_same else target,
            is_target_read=not is_unfollowed,
            origin=opened.origin,
            facts=opened.facts,
        )

    def ignore_foreign_answer(self, opened: OpenedPage) -> OpenedPage:
        """Return a page that leads to another host without what that host answered: its status is that of the redirect.

        A refused target stays a failure.
        """
        is_refused = opened.failure is not None and opened.failure.kind in _REFUSED_TARGETS
        if is_refused or not opened.final_url or find_host(opened.final_url) == self.host.strip("[]"):
            return opened
        left = [hop.status for hop in opened.hops if find_host(hop.url) == self.host.strip("[]")]
        status = left[-1] if left else opened.first_status
        if not status:
            return opened
        return OpenedPage(
            opened.requested_url,
            opened.final_url,
            status,
            hops=opened.hops,
            address=opened.address,
            origin=opened.origin,
            first_status=opened.first_status,
            is_target_unread=opened.is_target_unread,
        )

    def may_open(self, url: str) -> bool:
        """Return whether a URL is on the host of the crawl."""
        return find_host(url) == self.host.strip("[]")

    def follows_redirect(self, url: str, target: str) -> bool:
        """Return whether to follow a redirect: not off the site, and not to a page that is opened anyway.

        Redirect loops are followed, so that the client reports them.
        """
        try:
            source, destination = self._normalize(url), self._normalize(target)
        except InvalidUrl:
            return False
        if parse(target).host != self.host:
            return False
        source, destination = _remove_scheme(source), _remove_scheme(destination)
        if source == destination or destination not in self._known or destination in self._redirects:
            return True
        if len(self._redirects) >= _MAX_KNOWN_PAGES:
            self._redirects.clear()
        self._redirects[source] = destination
        return False

    def judge_sitemap_url(self, url: str, origin: Origin) -> PageUrl | None:
        """Return the page that a sitemap of this origin names, or None if it is not crawled; its depth is 1.

        As with `find_pages`, it counts as known after `remember_pages`.
        """
        verdict = self._judge_target(url)
        if verdict.verdict is not Verdict.CRAWL or verdict.url is None or not may_follow(0, self._max_depth):
            return None
        return PageUrl(verdict.url, url.partition("#")[0], origin)

    def _judge_links(self, links: tuple[Link, ...], *, page: str, is_nofollow: bool) -> tuple[PageLink, ...]:
        judged: list[PageLink] = []
        for link in links:
            unresolved = None if self._find_route(link.url) else judge_unresolved(link.href)
            verdict = self._judge_target(link.url) if unresolved is None else _make_cached(unresolved)
            if verdict.url == page and verdict.verdict is not Verdict.SKIP:
                found = judge_target(link.url, page=page.partition("#")[0], host=self.host, policy=self.policy)
                verdict = _make_cached(found)
            if verdict.verdict is Verdict.CRAWL and (is_nofollow or (link.is_nofollow and self._nofollow)):
                rule = LinkRule.NOFOLLOW_PAGE if is_nofollow else LinkRule.NOFOLLOW_LINK
                verdict = _make_cached(LinkVerdict(Verdict.SKIP, rule, verdict.url))
            judged.append(PageLink(link.url, verdict.url, link.text, verdict.verdict, verdict.reason, link.source))
        return tuple(judged)

    def find_pages(self, links: tuple[PageLink, ...], origin: Origin, *, depth: int) -> tuple[PageUrl, ...]:
        """Return the pages that the frontier does not have yet, or has deeper, without https or in another spelling.

        They count as known only after `remember_pages`: the frontier does not take the pages of every result.
        """
        found: dict[PageUrl, None] = {}  # in the order in which they are linked
        for link in links:
            if link.verdict is not Verdict.CRAWL or link.url is None:
                continue
            page = PageUrl(link.url, link.href.partition("#")[0] + self._find_route(link.href), origin)
            if self._adds_to_known(page, depth):
                found[page] = None
        return tuple(found)

    def remember_pages(self, pages: Iterable[PageUrl], *, depth: int) -> None:
        """Remember that the frontier has these pages, so that further links to them are not sent to it."""
        for page in pages:
            if self._improves_known(page, depth):
                if len(self._known) >= _MAX_KNOWN_PAGES:
                    self._known.clear()
                is_https = page.url.startswith("https:")
                self._known[_remove_scheme(page.url)] = _FoundPage(page.requested_url, is_https, depth)
            elif self._adds_to_known(page, depth):
                if len(self._spellings) >= _MAX_SPELLINGS:
                    self._spellings.clear()
                self._spellings.add(page.requested_url)

    def _adds_to_known(self, page: PageUrl, depth: int) -> bool:
        """Return whether the frontier does not have a page, or not as near, with https or in this spelling."""
        if self._improves_known(page, depth):
            return True
        known = self._known[_remove_scheme(page.url)]
        return page.requested_url != known.requested_url and page.requested_url not in self._spellings

    def _improves_known(self, page: PageUrl, depth: int) -> bool:
        """Return whether a page is unknown, or known without https or deeper."""
        known = self._known.get(_remove_scheme(page.url))
        return known is None or page.url.startswith("https:") > known.is_https or depth < known.depth

    def _normalize(self, url: str) -> str:
        return normalize(url.partition("#")[0], self.policy)

    def _judge_target(self, target: str) -> _CachedVerdict:
        """Return the verdict on a link target that holds for every page."""
        verdict = self._verdicts.get(target)
        if verdict is None:
            if len(self._verdicts) >= _MAX_CACHED_VERDICTS:
                self._verdicts.clear()
            found = judge_target(target, page="", host=self.host, policy=self.policy)
            if found.verdict is Verdict.CRAWL and (obstacle := self._patterns.find_obstacle(target)) is not None:
                found = LinkVerdict(Verdict.SKIP, LinkRule.LEFT_OUT, found.url, (obstacle,))
            verdict = _make_cached(found)
            if verdict.verdict is Verdict.CRAWL and verdict.url is not None and (route := self._find_route(target)):
                verdict = verdict._replace(url=verdict.url + route)
            self._verdicts[target] = verdict
        return verdict

    def _find_route(self, url: str) -> str:
        """Return the route of a URL, if routes are pages of their own in this crawl."""
        return find_route(url) if self._routes else ""


def _make_cached(verdict: LinkVerdict) -> _CachedVerdict:
    return _CachedVerdict(verdict.verdict, verdict.url, verdict.reason)


def _leave_host(page: LeasedPage, status: int, target: PageUrl, *, engine: str) -> PageResult:
    """Return the result of a page that redirects to another host.

    A start page is skipped, because the crawl may move to that host; another page has the redirect as its only link.
    """
    final_url = target.requested_url
    if not page.depth:
        reason = SkipReason.OTHER_HOST
        return PageResult(
            page,
            PageState.SKIPPED,
            page.url,
            status,
            final_url,
            engine=engine,
            skip_reason=reason,
            origin=target.origin,
        )
    link = PageLink(final_url, target.url, "", Verdict.EXTERNAL, "the page redirects there")
    return PageResult(page, PageState.DONE, page.url, status, final_url, engine=engine, links=(link,))


def _remove_scheme(url: str) -> str:
    return url.partition(":")[2]
