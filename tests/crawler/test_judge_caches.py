"""The caches of links of a crawl are bounded, and forget no page (contract C1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from canonry.core.scope import Verdict
from canonry.crawler import judge
from canonry.crawler.judge import Judge
from canonry.crawler.pages import PageLink
from canonry.net.origin import Origin

if TYPE_CHECKING:
    import pytest

E = "https://example.com"
MAX = 10


def find(judging: Judge, *urls: str) -> list[str]:
    links = tuple(PageLink(url, url.partition("?")[0], "", Verdict.CRAWL, "") for url in urls)
    found = judging.find_pages(links, Origin.PERSON, depth=1)
    assert found == judging.find_pages(links, Origin.PERSON, depth=1), "not known before the frontier has them"
    judging.remember_pages(found, depth=1)
    return [each.requested_url for each in found]


def test_full_caches_forget_and_report_pages_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_MAX_KNOWN_PAGES", "_MAX_SPELLINGS", "_MAX_CACHED_VERDICTS"):
        monkeypatch.setattr(judge, name, MAX)
    judging = Judge("example.com", None)
    pages = [f"{E}/{number}" for number in range(4 * MAX)]
    spellings = [f"{E}/0?from={number}" for number in range(4 * MAX)]
    for url in pages:
        judging._judge_target(url)
        assert find(judging, url, url) == [url], "each page once"
    assert find(judging, pages[-1]) == [] and find(judging, pages[0]) == [pages[0]], "the frontier knows it"
    assert find(judging, *spellings) == spellings
    assert len(judging._known) <= MAX and len(judging._spellings) <= MAX and len(judging._verdicts) <= MAX
