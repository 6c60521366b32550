"""Why a page was skipped, and why a crawl failed: values that code decides by, with a sentence for people."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class SkipReason(StrEnum):
    """Why a known page of the site is not recorded."""

    ROBOTS_DISALLOWED = "robots_disallowed"
    REDIRECT_DISALLOWED = "redirect_disallowed"
    REDIRECT_TO_PAGE = "redirect_to_page"  # the target has a record, or will have one
    DUPLICATE = "duplicate"  # a redirect showed that another URL, which is recorded, serves this page
    OTHER_HOST = "other_host"  # a start page that redirects to another host
    SESSION_ID = "session_id"  # differs from a page that was read only in its session identifier
    LEARNED_RULE = "learned_rule"  # another URL, which was read, shows this page by a rule that was learned
    TRAP = "trap"  # its pattern showed nothing new for many pages

    @property
    def sentence(self) -> str:
        return _SKIP_SENTENCES[self]


_SKIP_SENTENCES = {
    SkipReason.ROBOTS_DISALLOWED: "disallowed by robots.txt",
    SkipReason.REDIRECT_DISALLOWED: "redirects to a URL that robots.txt disallows",
    SkipReason.REDIRECT_TO_PAGE: "redirects to another page of the site",
    SkipReason.DUPLICATE: "the same page as another URL",
    SkipReason.OTHER_HOST: "redirects to another host",
    SkipReason.SESSION_ID: "differs from another page only in its session identifier",
    SkipReason.LEARNED_RULE: "the same page as another URL, by a rule learned in this crawl",
    SkipReason.TRAP: "many URLs of this pattern showed no new text",
}


class CrawlFailureKind(StrEnum):
    """Why a crawl could not begin, or not continue."""

    START_MOVED = "start_moved"  # the start page redirects to another host
    NO_ANSWER = "no_answer"  # the site stopped answering; the crawl can be resumed
    ENGINE = "engine"  # no page can be opened, for example because Chrome is not installed


@dataclass(frozen=True, slots=True)
class CrawlFailure:
    """Why a crawl failed or paused.

    `target` is the URL on the other host, `detail` the message of the engine, or why the last request failed.
    """

    kind: CrawlFailureKind
    detail: str = ""
    target: str = ""

    def __str__(self) -> str:
        if self.kind is CrawlFailureKind.START_MOVED:
            return f"the start page redirects to another host: {self.target}"
        if self.kind is CrawlFailureKind.NO_ANSWER:
            return f"the site stopped answering: {self.detail}"
        return self.detail
