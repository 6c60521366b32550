"""The decisions of canonicalize, one table each, without a web (contract F3–F10)."""

from __future__ import annotations

from itertools import pairwise

import pytest

from canonry.core.presets import policy
from canonry.core.score import score
from canonry.errors import FetchFailed, NotAFeed, UnsafeUrl
from canonry.feeds.canonicalize import decisions
from canonry.feeds.canonicalize.decisions import Best, CandidateSkip, Judgement, Trial
from canonry.feeds.canonicalize.result import CandidateVerdict, DifferenceKind, FeedDifference, Reason, Source
from canonry.net import moved_urls
from canonry.net.response import Hop, Response

SITES = ("blogger", "feedburner")
PRESETS = tuple(policy(name) for name in ("feed-aggressive", "feed-moderate", "feed-conservative"))


def get_total_score(url: str) -> float:
    return score(url).total


def make_best(url: str, reason: Reason = Reason.RESPONSE_URL, source: Source = Source.RESPONSE) -> Best:
    return Best(url, reason, source)


def make_response(*steps: tuple[int, str]) -> Response:
    """Redirects and a final answer, each a status and a URL."""
    status, url = steps[-1]
    hops = tuple(Hop(step[0], step[1], following[1]) for step, following in pairwise(steps))
    return Response(status, url, {}, b"", hops)


START_URLS = [
    # why                            input                                   https assumed  wanted
    ("https given", "https://a.com/feed", False, [("https://a.com/feed",)]),
    ("http given", "http://a.com/feed", False, [("http://a.com/feed",)]),
    ("https assumed", "https://a.com/feed", True, [("https://a.com/feed", "http://a.com/feed")]),
    ("credentials never over http", "https://u:p@a.com/feed", True, [("https://u:p@a.com/feed",)]),
    (
        "rewritten by a site rule, then as given",
        "https://feedproxy.google.com/Blog",
        False,
        [("https://feeds.feedburner.com/Blog",), ("https://feedproxy.google.com/Blog",)],
    ),
    (
        "both with their http twin",
        "https://feedproxy.google.com/Blog",
        True,
        [
            ("https://feeds.feedburner.com/Blog", "http://feeds.feedburner.com/Blog"),
            ("https://feedproxy.google.com/Blog", "http://feedproxy.google.com/Blog"),
        ],
    ),
]


@pytest.mark.parametrize(("url", "is_assumed", "wanted"), [pytest.param(*row[1:], id=row[0]) for row in START_URLS])
def test_which_urls_are_opened_first(url: str, is_assumed: bool, wanted: list[tuple[str, ...]]) -> None:
    assert decisions.list_start_urls(url, sites=SITES, is_https_assumed=is_assumed) == wanted


def test_without_site_rules_the_input_is_opened_as_given() -> None:
    wanted = [("https://feedproxy.google.com/Blog",)]
    assert decisions.list_start_urls("https://feedproxy.google.com/Blog", sites=(), is_https_assumed=False) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("https://a.com", True),
        (" \tHTTP://a.com", True),
        ("feed:https://a.com", True),
        ("feed://https://a.com", True),
        ("a.com", False),
        ("feed://a.com", False),
        ("//a.com/http:", False),
    ],
)
def test_a_scheme_counts_only_if_the_text_names_http_or_https(text: str, wanted: bool) -> None:
    assert decisions.has_web_scheme(text) is wanted


def test_known_urls_are_all_variants_over_both_schemes() -> None:
    sources = {"https://www.a.com/f/": Source.INPUT, "https://b.com/f": Source.SELF}
    found = decisions.list_known_urls(sources, presets=PRESETS, sites=SITES)
    from_input = {f"{scheme}://{rest}" for scheme in ("http", "https") for rest in ("www.a.com/f/", "www.a.com/f", "a.com/f")}  # fmt: skip
    assert {url for url, source in found.items() if source is Source.INPUT} == from_input
    assert {url for url, source in found.items() if source is Source.SELF} == {"https://b.com/f", "http://b.com/f"}


def test_known_urls_include_the_input_rewritten_by_site_rules() -> None:
    given = {"https://feedproxy.google.com/Blog": Source.INPUT}
    assert "https://feeds.feedburner.com/Blog" in decisions.list_known_urls(given, presets=(), sites=SITES)


BASE = "https://a.com/dir/feed"
SELF_URLS = [
    # why                        declared                             wanted
    ("missing", "", []),
    ("blank", " \n", []),
    ("absolute", "https://b.com/f", ["https://b.com/f"]),
    ("relative", "f.xml", ["https://a.com/dir/f.xml"]),
    ("fragment dropped", "https://b.com/f#x", ["https://b.com/f"]),
    ("credentials dropped", "https://u:p@b.com/f", ["https://b.com/f"]),
    ("named entity decoded once", "https://b.com/f?a=1&amp;amp;b=2", ["https://b.com/f?a=1&amp;b=2"]),
    ("numeric entities", "https://b.com/f?a=1&#38;b=2&#x26;c=3", ["https://b.com/f?a=1&b=2&c=3"]),
    ("other entities stay", "https://b.com/f?a=1&copy;=2", ["https://b.com/f?a=1&copy;=2"]),
    ("no semicolon, no entity", "https://b.com/f?a=1&amp=2", ["https://b.com/f?a=1&amp=2"]),
    ("feed scheme: https, then http", "feed://b.com/f", ["https://b.com/f", "http://b.com/f"]),
    ("feed scheme before http", "feed:http://b.com/f", ["http://b.com/f"]),
    ("not a URL", "https://", []),
    ("another scheme", "mailto:me@b.com", []),
]


@pytest.mark.parametrize(("declared", "wanted"), [pytest.param(*row[1:], id=row[0]) for row in SELF_URLS])
def test_the_urls_that_a_feed_declares_as_its_own(declared: str, wanted: list[str]) -> None:
    assert decisions.parse_self_urls(declared, BASE) == wanted


@pytest.mark.parametrize(
    ("self_url", "wanted"),
    [
        (None, False),
        ("https://a.com/feed", False),
        ("http://www.a.com/feed/?utm_id=1", False),  # differs only in form
        ("https://a.com/rss", True),
        ("https://b.com/feed", True),
    ],
)
def test_only_a_self_url_elsewhere_is_fetched_on_its_own(self_url: str | None, wanted: bool) -> None:
    assert decisions.is_self_elsewhere(self_url, "https://a.com/feed") is wanted


@pytest.mark.parametrize(
    ("self_url", "prefer_https", "wanted"),
    [
        ("http://a.com/f", True, "https://a.com/f"),
        ("http://a.com/f", False, None),
        ("https://a.com/f", True, None),
    ],
)
def test_only_an_http_self_url_has_a_twin_to_test(self_url: str, prefer_https: bool, wanted: str | None) -> None:
    assert decisions.make_self_twin(self_url, prefer_https=prefer_https) == wanted


TEMPORARY = [
    # why                               response                                                                  wanted
    ("no redirect", [(200, "https://a.com/f")], set()),
    ("permanent", [(301, "https://a.com/f"), (200, "https://b.com/f")], set()),
    ("temporary", [(302, "https://a.com/f"), (200, "https://b.com/f")], {"//b.com/f"}),
    ("all after the first temporary one", [(301, "https://a.com/f"), (302, "https://b.com/f"), (301, "https://c.com/f"), (200, "https://d.com/f")], {"//c.com/f", "//d.com/f"}),
    ("without cosmetics", [(302, "https://a.com/f"), (200, "http://www.b.com/f/")], {"//b.com/f"}),
    ("another form of the kept URL", [(302, "http://a.com/f"), (200, "https://www.a.com/f/")], set()),
]  # fmt: skip


@pytest.mark.parametrize(("steps", "wanted"), [pytest.param(*row[1:], id=row[0]) for row in TEMPORARY])
def test_the_targets_of_temporary_redirects(steps: list[tuple[int, str]], wanted: set[str]) -> None:
    assert moved_urls.find_temporary_targets(make_response(*steps)) == wanted


TRIALS = [
    # why                          source                                    self URL                wanted: URL, source, preset
    ("clean already", "https://a.com/f", None, [("https://a.com/f", Source.RESPONSE, "feed-aggressive")]),
    (
        "cleanest first",
        "https://www.a.com/f/?utm_id=1",
        None,
        [
            ("https://a.com/f", Source.RESPONSE, "feed-aggressive"),
            ("https://www.a.com/f", Source.RESPONSE, "feed-moderate"),
            ("https://www.a.com/f/", Source.RESPONSE, "feed-conservative"),
        ],
    ),
    (
        "a self URL that differs only in form joins",
        "https://www.a.com/f",
        "https://a.com/f",
        [("https://a.com/f", Source.SELF, None), ("https://www.a.com/f", Source.RESPONSE, "feed-moderate")],
    ),
    (
        "a self URL elsewhere does not",
        "https://a.com/f",
        "https://b.com/f",
        [("https://a.com/f", Source.RESPONSE, "feed-aggressive")],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("source", "self_url", "wanted"), [pytest.param(*row[1:], id=row[0]) for row in TRIALS])
def test_variants_are_tested_cleanest_first(
    source: str, self_url: str | None, wanted: list[tuple[str, Source, str | None]]
) -> None:
    found = decisions.list_trials(
        make_best(source), response_url=source, self_url=self_url, presets=PRESETS, score=get_total_score
    )
    assert [(trial.url, trial.source, trial.preset) for trial in found] == wanted


def test_among_equal_scores_the_self_url_comes_first() -> None:
    found = decisions.list_trials(
        make_best("https://www.a.com/f"),
        response_url="https://www.a.com/f",
        self_url="https://a.com/f/",
        presets=PRESETS,
        score=lambda _: 1.0,
    )
    assert [trial.source for trial in found] == [Source.SELF, Source.RESPONSE, Source.RESPONSE]


def test_source_and_response_url_are_accepted_without_a_test() -> None:
    source = make_best("https://b.com/f", Reason.CONTENT_VERIFIED, Source.SELF)
    response_url = "https://a.com/f"
    accept = decisions.accept_without_test
    assert accept(Trial(source.url, Source.SELF), source, response_url) is source
    assert accept(Trial(response_url, Source.SELF), source, response_url) == make_best(response_url)
    assert accept(Trial("https://c.com/f", Source.SELF), source, response_url) is None


@pytest.mark.parametrize(
    ("why", "proven", "wanted"),
    [
        ("the variant itself", make_best("https://a.com/f", Reason.CONTENT_VERIFIED), True),
        ("a redirect to what is known", make_best("http://old.com/f/", Reason.REDIRECT_VERIFIED), True),
        ("moved to a cleaner URL", make_best("https://b.com/f", Reason.CONTENT_VERIFIED), True),
        ("moved to a worse URL", make_best("http://old.com/f/?utm_id=1", Reason.CONTENT_VERIFIED), False),
    ],
)
def test_a_proven_variant_replaces_the_source_unless_it_moved_to_a_less_clean_url(
    why: str, proven: Best, wanted: bool
) -> None:
    source = make_best("https://www.a.com/f")
    trial = Trial("https://a.com/f", Source.RESPONSE)
    assert decisions.is_improvement(proven, trial, source, get_total_score) is wanted, why


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Reason.RESPONSE_URL, Reason.FALLBACK),
        (Reason.CONTENT_VERIFIED, Reason.CONTENT_VERIFIED),
        (Reason.REDIRECT_VERIFIED, Reason.REDIRECT_VERIFIED),
    ],
)
def test_a_response_url_that_no_variant_improved_is_a_fallback(before: Reason, after: Reason) -> None:
    assert decisions.keep_source(make_best("https://a.com/f", before)).reason is after


HTTP, HTTPS = "http://a.com/f", "https://a.com/f"
SKIPS = [
    # why                                   tested                     best                     left  reserve  wanted
    ("requests left", "https://a.com/x", HTTPS, 1, True, None),
    ("none left", "https://a.com/x", HTTPS, 0, True, CandidateSkip.NO_REQUESTS_LEFT),
    ("overdrawn", "https://a.com/x", HTTPS, -1, True, CandidateSkip.NO_REQUESTS_LEFT),
    ("the last one, best is http", "http://a.com/x", HTTP, 1, True, CandidateSkip.RESERVED_FOR_HTTPS),
    ("two left, best is http", "http://a.com/x", HTTP, 2, True, None),
    ("the last one is for this URL", HTTPS, HTTP, 1, True, None),
    ("nothing to reserve", "http://a.com/x", HTTP, 1, False, None),
    ("credentials, same host", "https://u:p@a.com/x", "https://u:p@a.com/f", 3, True, None),
    ("credentials, another host", "https://u:p@b.com/f", "https://u:p@a.com/f", 3, True, CandidateSkip.CREDENTIALS),
    ("credentials, https to http", "http://u:p@a.com/f", "https://u:p@a.com/f", 3, True, CandidateSkip.CREDENTIALS),
    ("credentials, http to https", "https://u:p@a.com/f", "http://u:p@a.com/f", 3, True, None),
    ("credentials before the budget", "https://u:p@b.com/f", "https://u:p@a.com/f", 0, True, CandidateSkip.CREDENTIALS),
]


@pytest.mark.parametrize(("url", "best", "left", "reserve", "wanted"), [pytest.param(*row[1:], id=row[0]) for row in SKIPS])  # fmt: skip
def test_which_urls_are_not_fetched(
    url: str, best: str, left: int, reserve: bool, wanted: CandidateSkip | None
) -> None:
    found = decisions.find_skip_reason(url, make_best(best), requests_left=left, may_reserve_https=reserve)
    assert found is wanted


REDIRECTS = [
    # why                                  response                                                    confirmed
    ("no redirect", [(200, "https://a.com/x")], None),
    ("no redirect, known URL", [(200, HTTPS)], None),
    ("permanent, to a known URL", [(301, "https://a.com/x"), (200, HTTPS)], HTTPS),
    ("temporary, to a known URL", [(302, "https://a.com/x"), (200, HTTPS)], HTTPS),
    ("moved to a known URL, served elsewhere", [(301, "https://a.com/x"), (302, HTTPS), (200, "https://cdn.com/1")], HTTPS),
    ("to another URL", [(301, "https://a.com/x"), (200, "https://a.com/y")], None),
]  # fmt: skip


@pytest.mark.parametrize(("steps", "wanted"), [pytest.param(*row[1:], id=row[0]) for row in REDIRECTS])
def test_a_redirect_to_a_known_url_confirms_it(steps: list[tuple[int, str]], wanted: str | None) -> None:
    found = decisions.judge_redirect(make_response(*steps), (make_best("https://b.com/"), make_best(HTTPS)))
    if wanted is None:
        assert found is None
    else:
        assert found == Judgement(CandidateVerdict.CONFIRMS, make_best(wanted, Reason.REDIRECT_VERIFIED))


def test_a_feed_with_evidence_is_the_same() -> None:
    trial = Trial("https://a.com/f", Source.SELF, "feed-moderate")
    same = decisions.judge_feed(trial, "https://a.com/moved", Reason.SIGNATURE_VERIFIED)
    proven = Best("https://a.com/moved", Reason.SIGNATURE_VERIFIED, Source.SELF, "feed-moderate")
    assert same == Judgement(CandidateVerdict.SAME, proven)
    assert decisions.judge_feed(trial, "https://a.com/f", None) == Judgement(CandidateVerdict.DIFFERENT)


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (FetchFailed("u", "r"), CandidateVerdict.FAILED),
        (NotAFeed("u", "r"), CandidateVerdict.NOT_A_FEED),
        (UnsafeUrl("u", "r"), CandidateVerdict.UNSAFE),
    ],
)
def test_an_error_has_a_verdict(error: FetchFailed | NotAFeed | UnsafeUrl, verdict: CandidateVerdict) -> None:
    assert decisions.judge_error(error) == Judgement(verdict, error=error)


def test_only_an_http_url_has_an_https_trial() -> None:
    best = Best(HTTP, Reason.CONTENT_VERIFIED, Source.SELF, "feed-moderate")
    assert decisions.make_https_trial(best, prefer_https=True) == Trial(HTTPS, Source.SELF, "feed-moderate")
    assert decisions.make_https_trial(best, prefer_https=False) is None
    assert decisions.make_https_trial(make_best(HTTPS), prefer_https=True) is None


UPGRADES = [
    # why                       proven                                          wanted
    ("nothing proven", None, make_best(HTTP, Reason.FALLBACK)),
    ("https proven", make_best(HTTPS, Reason.CONTENT_VERIFIED), make_best(HTTPS, Reason.UPGRADE_HTTPS)),
    ("back to http", make_best(HTTP, Reason.REDIRECT_VERIFIED), make_best(HTTP)),
    ("moved to http", make_best("http://b.com/f", Reason.CONTENT_VERIFIED), make_best(HTTP)),
    ("to the known https URL", make_best(HTTPS, Reason.REDIRECT_VERIFIED), make_best(HTTPS, Reason.REDIRECT_VERIFIED)),
]


@pytest.mark.parametrize(("proven", "wanted"), [pytest.param(*row[1:], id=row[0]) for row in UPGRADES])
def test_only_a_url_proven_over_https_replaces_the_best_one(proven: Best | None, wanted: Best) -> None:
    assert decisions.choose_upgrade(make_best(HTTP), proven) == wanted


@pytest.mark.parametrize(
    ("steps", "wanted"),
    [
        ([(200, "https://a/")], ["https://a/"]),
        ([(301, "https://a/"), (308, "https://b/"), (200, "https://c/")], ["https://a/", "https://b/", "https://c/"]),
        ([(301, "https://a/"), (302, "https://b/"), (200, "https://c/")], ["https://a/", "https://b/"]),
        ([(302, "https://a/"), (301, "https://b/"), (200, "https://c/")], ["https://a/"]),
    ],
)
def test_aliases_end_at_the_first_temporary_redirect(steps: list[tuple[int, str]], wanted: list[str]) -> None:
    assert moved_urls.list_aliases(make_response(*steps)) == wanted


def test_swapping_the_scheme_twice_changes_nothing() -> None:
    for url in (HTTP, HTTPS, "https://u:p@a.com:8443/f?x=1"):
        assert moved_urls.swap_scheme(url).partition(":")[0] != url.partition(":")[0]
        assert moved_urls.swap_scheme(moved_urls.swap_scheme(url)) == url


TITLE, ITEMS = FeedDifference(DifferenceKind.TITLE, "A", "B" * 81), FeedDifference(DifferenceKind.ITEMS, "2", "3")
SENTENCES = [
    # judgement                                                                              tested  wanted
    (Judgement(CandidateVerdict.FETCHED), HTTPS, "first response"),
    (Judgement(CandidateVerdict.DIFFERENT), HTTPS, "a different feed"),
    (Judgement(CandidateVerdict.DIFFERENT, differences=(TITLE, ITEMS)), HTTPS, f"a different feed: the title is '{'B' * 80}', not 'A'; 2 items are missing and 3 are new"),
    (Judgement(CandidateVerdict.SAME, make_best(HTTPS, Reason.CONTENT_VERIFIED)), HTTPS, "same content"),
    (Judgement(CandidateVerdict.SAME, make_best(HTTPS, Reason.SIGNATURE_VERIFIED)), HTTPS, "same items"),
    (Judgement(CandidateVerdict.SAME, make_best("https://u:p@b.com/f", Reason.CONTENT_VERIFIED)), HTTPS, "same content, moved to https://***@b.com/f"),
    (Judgement(CandidateVerdict.CONFIRMS, make_best(HTTPS, Reason.REDIRECT_VERIFIED)), HTTP, f"redirects to {HTTPS}"),
    (Judgement(CandidateVerdict.FAILED, error=FetchFailed("u", "answered 404")), HTTPS, "answered 404"),
    (Judgement(CandidateVerdict.SKIPPED, skip_reason=CandidateSkip.NO_REQUESTS_LEFT), HTTPS, "max_requests is used up"),
    (Judgement(CandidateVerdict.SKIPPED, skip_reason=CandidateSkip.RESERVED_FOR_HTTPS), HTTPS, "the last request is reserved for the https upgrade"),
    (Judgement(CandidateVerdict.SKIPPED, skip_reason=CandidateSkip.CREDENTIALS), HTTPS, "credentials are not sent to another host or over http"),
]  # fmt: skip


@pytest.mark.parametrize(("judgement", "tested", "wanted"), SENTENCES, ids=[row[2] for row in SENTENCES])
def test_the_sentence_of_a_judgement(judgement: Judgement, tested: str, wanted: str) -> None:
    assert judgement.describe(tested) == wanted
