"""What a page that was opened means for a crawl: its links judged, its redirects understood. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

from canonry.core.native import normalize
from canonry.core.scope import CRAWL_POLICY, LinkVerdict, Verdict, judge_target, judge_unresolved
from canonry.core.url import parse
from canonry.crawler.frontier import PageResult, PageState, PageUrl
from canonry.errors import InvalidUrl
from canonry.net.response import REDIRECTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from canonry.crawler.frontier import LeasedPage
    from canonry.net.engine import Link, Opened

_KEPT = 50_000  # verdicts that are remembered; the links of a site repeat
_KNOWN = 1_000_000  # pages that are remembered as known


class Judge:
    """The site, how deep it is crawled, and the pages this process knows to be in the frontier."""

    def __init__(self, host: str, depth: int | None) -> None:
        self.host = host
        self._depth = depth
        self._verdicts: dict[str, LinkVerdict] = {}
        self._known: dict[str, bool] = {}  # by URL without scheme: was https seen?
        self._leads: dict[str, str] = {}  # pages that were left for others they lead to

    def judged(self, page: LeasedPage, opened: Opened, engine: str, refuses: Callable[[str], bool]) -> PageResult:
        """What is kept of a page."""
        url = page.url
        if not opened.status or opened.status == 429 or opened.status >= 500:
            return PageResult(
                page, PageState.FAILED, url, opened.status, _plain(opened.final_url), engine=engine, error=opened.error
            )
        final_url = _plain(opened.final_url)
        try:
            final = normalize(final_url, CRAWL_POLICY)
        except InvalidUrl as error:
            return PageResult(page, PageState.FAILED, url, opened.status, final_url, engine=engine, error=str(error))
        if parse(final).host != self.host:
            # Where it leads is another site's; the start page may be allowed to go there.
            row = (final_url, final, "", Verdict.EXTERNAL, "the page redirects there")
            return PageResult(page, PageState.DONE, url, opened.status, final_url, engine=engine, links=[row])
        is_same = _schemeless(final) == _schemeless(url)
        if is_same and final.startswith("https:"):
            url = final
        is_left = opened.status in REDIRECTS and bool(opened.hops) and opened.hops[-1].location == opened.final_url
        if is_left and refuses(final_url):
            why = "redirects to what robots.txt refuses"
            return PageResult(page, PageState.SKIPPED, url, opened.status, final_url, engine=engine, error=why)
        rows, found = self._links(opened.links, page=final, depth=page.depth)
        return PageResult(
            page,
            PageState.DONE,
            url,
            opened.status,
            final_url,
            opened.title,
            engine,
            opened.error,
            rows,
            sum(row[3] == Verdict.CRAWL for row in rows),
            found,
            "" if is_same else final,
            is_fetched=not is_left,
        )

    def follows(self, url: str, target: str) -> bool:
        """Is a redirect to be followed? Not off the site, nor to a page that is known, unless it leads in a circle."""
        try:
            here, there = normalize(url, CRAWL_POLICY), normalize(target, CRAWL_POLICY)
        except InvalidUrl:
            return False
        if parse(there).host != self.host:
            return False
        here, there = _schemeless(here), _schemeless(there)
        if here == there or there not in self._known or there in self._leads:
            return True
        self._leads[here] = there
        return False

    def listed(self, url: str) -> PageUrl | None:
        """A page that a sitemap names, if it is to be crawled."""
        verdict = judge_target(url, page="", host=self.host)
        if verdict.verdict is not Verdict.CRAWL or verdict.url is None or self._depth == 0:
            return None
        self._known[_schemeless(verdict.url)] = verdict.url.startswith("https:")
        return PageUrl(verdict.url, url.partition("#")[0])

    def _links(
        self, links: tuple[Link, ...], *, page: str, depth: int
    ) -> tuple[list[tuple[str | None, ...]], list[PageUrl]]:
        rows: list[tuple[str | None, ...]] = []
        found: list[PageUrl] = []
        goes_on = self._depth is None or depth < self._depth
        for link in links:
            verdict = judge_unresolved(link.href) or self._verdict(link.url)
            if verdict.url == page and verdict.verdict is not Verdict.SKIP:
                verdict = judge_target(link.url, page=page, host=self.host)
            rows.append((link.url, verdict.url, link.text, verdict.verdict, verdict.reason))
            if goes_on and verdict.verdict is Verdict.CRAWL and verdict.url is not None:
                key, is_https = _schemeless(verdict.url), verdict.url.startswith("https:")
                was_https = self._known.get(key)
                if was_https is None or (is_https and not was_https):
                    if len(self._known) >= _KNOWN:
                        self._known.clear()
                    self._known[key] = is_https
                    found.append(PageUrl(verdict.url, link.url.partition("#")[0]))
        return rows, found

    def _verdict(self, target: str) -> LinkVerdict:
        """The verdict on a link wherever it stands."""
        verdict = self._verdicts.get(target)
        if verdict is None:
            if len(self._verdicts) >= _KEPT:
                self._verdicts.clear()
            self._verdicts[target] = verdict = judge_target(target, page="", host=self.host)
        return verdict


def _schemeless(url: str) -> str:
    return url.partition(":")[2]


def _plain(url: str) -> str:
    """A URL without the credentials it was asked with."""
    if "@" not in url:
        return url
    try:
        parts = parse(url)
    except InvalidUrl:
        return url
    parts.userinfo = None
    return str(parts)
