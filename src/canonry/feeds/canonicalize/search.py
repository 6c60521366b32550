"""The search for a feed's canonical URL (contract F); the story is `Search.canonical`.

Fetch the input, ask the caller's store, validate the self link, probe, test the variants cleanest
first, upgrade to https.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeAlias

from canonry.core.native import normalize
from canonry.core.policy import Policy
from canonry.core.score import score
from canonry.core.url import join, read_url
from canonry.core.url import parse as parse_url
from canonry.errors import CanonryError, FetchFailed, InvalidUrl, NotAFeed, UnsafeUrl, masked
from canonry.feeds.canonicalize.fetcher import Asker, CallbackRaised, plain, require_ok
from canonry.feeds.canonicalize.probes import PROBES
from canonry.feeds.canonicalize.result import (
    Candidate,
    CandidateVerdict,
    Canonical,
    EventKind,
    Existing,
    FeedSummary,
    Reason,
    Source,
)
from canonry.feeds.canonicalize.same_feed import Document, evidence, form

if TYPE_CHECKING:
    from canonry.net.html import FeedLink
    from canonry.net.response import Response, Validators

Exists: TypeAlias = Callable[[list[str]], Awaitable[Existing | None]]

_RANK = {Source.SELF: 0, Source.RESPONSE: 1, Source.INPUT: 2}
_FEED_SCHEME = r"(?:feed|rss|pcast|itpc|podcast):"
_WEB_SCHEME = rf"[\x00-\x20]*(?:{_FEED_SCHEME}[/ ]*)*https?:"
_AMPERSAND = r"&(?:amp|#38|#[xX]26);"


@dataclass(frozen=True, slots=True)
class _Best:
    """The best URL so far: it was fetched and served the feed."""

    url: str
    reason: Reason
    source: Source
    preset: str | None = None


@dataclass(slots=True)
class Search:
    """One call: what was asked for, what is known so far, and what was tried."""

    input: str
    is_assumed: bool  # https, because the person wrote no scheme
    asker: Asker
    exists: Exists | None
    read: Callable[[Response], Awaitable[Document]]
    presets: tuple[Policy, ...]
    tracking_params: tuple[str, ...] | None
    probes: tuple[str, ...]
    sites: tuple[str, ...]
    max_requests: int
    use_signature: bool
    prefer_https: bool
    discover: bool
    validators: Validators | None
    body: bytes | None
    candidates: list[Candidate] = field(default_factory=list[Candidate])
    aliases: dict[str, None] = field(default_factory=dict[str, None])
    discovered: tuple[FeedLink, ...] = ()
    self_url: str | None = None
    first_requests: int = 0
    first: Document | None = None
    best: _Best | None = None

    async def run(self, deadline: float, *, check_before_fetch: bool) -> Canonical:
        """The answer in time: what is proven when the deadline comes is returned, nothing else."""
        limit = asyncio.timeout(deadline)
        try:
            async with limit:
                return await self.canonical(check_before_fetch=check_before_fetch)
        except TimeoutError:
            if not limit.expired():
                raise
            if self.best is None:
                raise FetchFailed(self.input, f"no feed within {deadline:g} s", self._tried()) from None
            return self._result(self.best)
        except CallbackRaised as raised:
            raise raised.error from None
        except (FetchFailed, NotAFeed, UnsafeUrl) as error:
            error.tried = self._tried()
            raise

    async def canonical(self, *, check_before_fetch: bool) -> Canonical:
        """The story."""
        if check_before_fetch and (known := await self._known({self.input: Source.INPUT})):
            return known
        first = await self._open_input()
        self.first, self.first_requests = first, self.asker.total
        self.asker.came_from = first.response.address or None
        self._remember(first.response)
        self_urls = await self._safe_self_urls(first)
        self.self_url = self_urls[0] if self_urls else None
        sources = {self.input: Source.INPUT, first.url: Source.RESPONSE, **dict.fromkeys(self_urls, Source.SELF)}
        if known := await self._known(sources):
            return known
        best = self.best = _Best(first.url, Reason.RESPONSE_URL, Source.RESPONSE)
        best = self.best = await self._validated_self(first, best, self_urls)
        best = self.best = await self._probed(first, best)
        best = self.best = await self._cleanest(first, best)
        best = self.best = await self._upgraded(first, best)
        return self._result(best)

    async def _known(self, sources: dict[str, Source]) -> Canonical | None:
        """The URL the caller keeps already, among all candidates of these sources."""
        if self.exists is None:
            return None
        urls: dict[str, Source] = {}
        for url, source in sources.items():
            rewritten = [self._rewritten()] if source is Source.INPUT else []
            for each in (url, *rewritten, *(normalize(url, preset) for preset in self.presets)):
                urls.setdefault(each, source)
                urls.setdefault(_twin(each), source)
        existing = await self.exists(list(urls))
        if existing is None:
            return None
        await self.asker.say(EventKind.EXISTS, existing.url)
        best = _Best(existing.url, Reason.EXISTS_IN_DB, urls.get(existing.url, Source.INPUT))
        return replace(self._result(best), data=existing.data)

    async def _open_input(self) -> Document:
        """The feed at the input: rewritten by site rules or as given, over http where https was assumed."""
        failure: CanonryError | None = None
        for start in dict.fromkeys((self._rewritten(), self.input)):
            for url in self._schemes(start):
                try:
                    return await self._opened(url)
                except FetchFailed as error:
                    failure = error
                except NotAFeed as error:
                    failure = error
                    break
        assert failure is not None
        raise failure

    async def _opened(self, url: str) -> Document:
        """The feed at a URL, or with `discover` the first feed its page names."""
        started = response = None
        try:
            await self.asker.check(url)
            started = time.perf_counter()
            response = await self.asker.ask(url, validators=self.validators, body=self.body)
            require_ok(response, datetime.now(UTC))
            document = await self.read(response)
        except (FetchFailed, NotAFeed, UnsafeUrl) as error:
            self._record(url, Source.INPUT, None, _verdict(error), error.reason, started)
            if response is None or not isinstance(error, NotAFeed) or self.discovered:
                raise
            return await self._discovered(response, error)
        self._record(url, Source.INPUT, None, CandidateVerdict.FETCHED, "the first answer", started)
        return document

    async def _discovered(self, page: Response, error: NotAFeed) -> Document:
        from canonry.feeds.read import is_web_page
        from canonry.net.html import feed_links

        kind = page.header("content-type")
        if not is_web_page(page.body):
            raise error
        found = await asyncio.to_thread(feed_links, page.body, url=page.url, content_type=kind)
        if not self.discover or not found:
            hint = f"it names {len(found)}: discover them" if found else "it names none"
            raise NotAFeed(error.target, f"{error.reason} ({hint})")
        self.discovered = tuple(found)
        self.asker.came_from = page.address or None
        return await self._opened(plain(found[0].url))

    def _rewritten(self) -> str:
        return normalize(self.input, Policy("feed-sites", 1, sites=self.sites))

    def _schemes(self, url: str) -> list[str]:
        """https, then http, where https was only assumed; credentials are not for http."""
        parts = parse_url(url)
        is_only = not self.is_assumed or parts.scheme == "http" or parts.userinfo is not None
        return [url] if is_only else [url, _twin(url)]

    async def _safe_self_urls(self, first: Document) -> list[str]:
        """The URL the feed declares as its own; a second one over http where its scheme leaves that open."""
        declared = re.sub(_AMPERSAND, "&", first.feed.self_url.strip())
        if not declared:
            return []
        try:
            if re.match(_FEED_SCHEME, declared, re.IGNORECASE):
                url = plain(read_url(declared))
            else:
                url = plain(join(first.response.url, declared))
            url = _without_credentials(url)
        except InvalidUrl:
            return []
        try:
            await self.asker.check(url)
        except UnsafeUrl as error:
            self._record(url, Source.SELF, None, CandidateVerdict.UNSAFE, error.reason, None)
            return []
        is_open = re.match(_FEED_SCHEME, declared, re.IGNORECASE) and not has_web_scheme(declared)
        return [url, _twin(url)] if is_open else [url]

    async def _validated_self(self, first: Document, best: _Best, self_urls: list[str]) -> _Best:
        """A self link to another place that serves this feed becomes the source."""
        if self.self_url is None or form(self.self_url) == form(best.url):
            return best
        for url in self_urls:
            if found := await self._tested(url, Source.SELF, None, first, best):
                return found
        return best

    async def _probed(self, first: Document, best: _Best) -> _Best:
        """The address under which a publishing system serves this feed too becomes the source."""
        for probe in self.probes:
            url = PROBES[probe](best.url)
            if url and (found := await self._tested(url, best.source, None, first, best)):
                return found
        return best

    async def _cleanest(self, first: Document, source: _Best) -> _Best:
        """The cleanest URL that serves this feed, one request after the other."""
        listed: dict[str, tuple[str | None, Source]] = {}
        if self.self_url and self.self_url != first.url and form(self.self_url) == form(first.url):
            listed[self.self_url] = None, Source.SELF
        for preset in self.presets:
            listed.setdefault(normalize(source.url, preset), (preset.name, source.source))
        for url in sorted(listed, key=lambda url: (-self._score(url), _RANK[listed[url][1]])):
            preset_name, origin = listed[url]
            if url == source.url:
                return source
            if url == first.url:
                return _Best(url, Reason.RESPONSE_URL, Source.RESPONSE)
            found = await self._tested(url, origin, preset_name, first, source)
            # A clean URL that has moved to a worse one than we have is no gain.
            is_kept = found is None or found.url == url or found.reason is Reason.REDIRECT_VERIFIED
            if found and (is_kept or self._score(found.url) >= self._score(source.url)):
                return found
        return replace(source, reason=Reason.FALLBACK) if source.reason is Reason.RESPONSE_URL else source

    async def _upgraded(self, first: Document, best: _Best) -> _Best:
        """The https twin of an http URL, where it serves this feed."""
        if best.url.startswith("https:") or not self.prefer_https:
            return best
        found = await self._tested(_twin(best.url), best.source, best.preset, first, best)
        if found is None or found.url.startswith("http:"):
            return best
        return found if found.reason is Reason.REDIRECT_VERIFIED else replace(found, reason=Reason.UPGRADE_HTTPS)

    async def _tested(self, url: str, source: Source, preset: str | None, first: Document, best: _Best) -> _Best | None:
        """Put a URL to the test: what it proves to be the feed's URL, or nothing and a verdict."""
        started = found = None
        try:
            if not self.asker.has_asked(url):
                if reason := self._why_skipped(url, best):
                    self._record(url, source, preset, CandidateVerdict.SKIPPED, reason, None)
                    return None
                await self.asker.check(url)
                started = time.perf_counter()
            response = await self.asker.ask(url)
            require_ok(response, datetime.now(UTC))
            if found := _confirmed(response, (best, _Best(first.url, Reason.RESPONSE_URL, Source.RESPONSE))):
                verdict, reason = CandidateVerdict.CONFIRMS, f"leads to {masked(found.url)}"
            else:
                document = await self.read(response)
                if proof := evidence(first, document, use_signature=self.use_signature):
                    found = _Best(document.url, proof, source, preset)
                    verdict, reason = CandidateVerdict.SAME, _proven(proof, url, document.url)
                else:
                    verdict, reason = CandidateVerdict.DIFFERENT, "serves something else"
        except (FetchFailed, NotAFeed, UnsafeUrl) as error:
            verdict, reason = _verdict(error), error.reason
        else:
            if found:
                self._remember(response)
        self._record(url, source, preset, verdict, reason, started)
        if found:
            await self.asker.say(EventKind.MATCHED, url, reason)
        return found

    def _why_skipped(self, url: str, best: _Best) -> str:
        """Why a URL is not asked for: credentials, or the budget."""
        own, other = parse_url(best.url), parse_url(url)
        if other.userinfo is not None and (other.host != own.host or own.scheme == "https" != other.scheme):
            return "credentials stay with their host"
        left = self.max_requests - (self.asker.total - self.first_requests)
        twin = _twin(best.url)
        is_kept = self.prefer_https and own.scheme == "http" and url != twin and not self.asker.has_asked(twin)
        if left <= 0:
            return "no request left"
        return "the last request is kept for https" if left == 1 and is_kept else ""

    def _score(self, url: str) -> float:
        return score(url, tracking_params=self.tracking_params).total

    def _remember(self, response: Response) -> None:
        """Every URL up to where the feed has moved for good is another name of it."""
        for url in (*(hop.url for hop in response.hops), response.url):
            self.aliases[url] = None
            if url == response.permanent_url:
                break

    def _record(
        self,
        url: str,
        source: Source,
        preset: str | None,
        verdict: CandidateVerdict,
        reason: str,
        started: float | None,
    ) -> None:
        spent = 0 if started is None else round((time.perf_counter() - started) * 1000)
        self.candidates.append(Candidate(url, source, preset, self._score(url), verdict, reason, spent))

    def _tried(self) -> tuple[Candidate, ...]:
        """The candidates as an error shows them."""
        return tuple(replace(each, url=masked(each.url)) for each in self.candidates)

    def _result(self, best: _Best) -> Canonical:
        first = self.first
        return Canonical(
            url=best.url,
            reason=best.reason,
            source=best.source,
            preset=best.preset,
            requests=self.asker.total - self.first_requests if first else 0,
            total_requests=self.asker.total,
            candidates=tuple(self.candidates),
            aliases=tuple(url for url in self.aliases if url != best.url),
            feed=FeedSummary(first.feed.title, first.feed.format, len(first.feed.items)) if first else None,
            input_url=self.input,
            response_url=first.url if first else None,
            self_url=self.self_url,
            hops=first.response.hops if first else (),
            discovered=self.discovered,
        )


def _confirmed(response: Response, known: tuple[_Best, ...]) -> _Best | None:
    """The known URL that a redirect leads to."""
    for best in known:
        if response.hops and best.url in {response.permanent_url, response.url}:
            return replace(best, reason=Reason.REDIRECT_VERIFIED)
    return None


def _verdict(error: FetchFailed | NotAFeed | UnsafeUrl) -> CandidateVerdict:
    if isinstance(error, NotAFeed):
        return CandidateVerdict.NOT_A_FEED
    return CandidateVerdict.UNSAFE if isinstance(error, UnsafeUrl) else CandidateVerdict.FAILED


def _proven(proof: Reason, asked: str, url: str) -> str:
    how = "the same content" if proof is Reason.CONTENT_VERIFIED else "the same items"
    return how if url == asked else f"{how}, moved to {masked(url)}"


def _without_credentials(url: str) -> str:
    parts = parse_url(url)
    parts.userinfo = None
    return str(parts)


def _twin(url: str) -> str:
    """The same URL over the other scheme."""
    parts = parse_url(url)
    parts.set_scheme("http" if parts.scheme == "https" else "https")
    return str(parts)


def has_web_scheme(text: str) -> bool:
    """Did whoever wrote this say http or https, if only after a feed: scheme?"""
    return re.match(_WEB_SCHEME, text, re.IGNORECASE) is not None
