"""The decisions of resolve, as tables of cases (contract E1, E2)."""

from __future__ import annotations

import re

import pytest

from canonry.core.presets import policy
from canonry.errors import FetchFailed, UnsafeUrl
from canonry.evidence.no_vary_search import parse_no_vary_search
from canonry.evidence.page_controls import (
    judge_control,
    judge_repeat,
    lacks_lasting_words,
    make_control_url,
    needs_control,
)
from canonry.evidence.page_view import PageView, read_page_view
from canonry.evidence.resolve_decisions import (
    PageDoubt,
    PageTrial,
    choose_declared_url,
    doubt_declared_url,
    find_declared_url,
    find_skip_doubt,
    is_declared_url,
    judge_page,
    list_form_makers,
    selects_route,
)
from canonry.evidence.resolved import PageSource, PageVerdict
from canonry.evidence.same_page import Evidence, find_evidence, looks_alike
from canonry.net.response import Hop, Response
from page_texts import make_article, make_html

E = "https://example.com"


def view(url: str = f"{E}/a", *, text: str = "", hops: tuple[Hop, ...] = (), **page: str) -> PageView:
    body = make_html(text or make_article(1), {"title": "One", **page}).encode()
    return read_page_view(Response(200, url, {"content-type": "text/html"}, body, hops))


def canonical(url: str) -> str:
    return f'<link rel="canonical" href="{url}">'


SAME = [
    # why                          one                            other                              evidence
    ("equal text", view(), view(head="<style>x</style>"), Evidence.SAME_TEXT),
    ("another text", view(), view(text=make_article(2)), None),
    ("few words, equal bytes", view(text="hello"), view(text="hello"), Evidence.SAME_BYTES),
    ("few words, equal text", view(text="hello"), view(text="hello", head="<meta>"), None),
    ("few words on one side", view(text="hello"), view(), None),
    ("nearly equal", view(text=make_article(*range(9)), extra="a"), view(text=make_article(*range(9)), extra="b"), Evidence.SIMILAR_TEXT),
    ("nearly equal, other title", view(text=make_article(*range(9)), extra="a"), view(text=make_article(*range(9)), extra="b", title="Two"), None),
]  # fmt: skip


@pytest.mark.parametrize(("why", "one", "other", "wanted"), SAME, ids=[row[0] for row in SAME])
def test_what_proves_that_two_pages_are_the_same(
    why: str, one: PageView, other: PageView, wanted: Evidence | None
) -> None:
    assert find_evidence(one, other) is find_evidence(other, one) is wanted


def test_no_bytes_prove_nothing() -> None:
    empty = read_page_view(Response(200, f"{E}/a", {"content-type": "text/html"}, b""))
    assert find_evidence(empty, empty) is None
    assert looks_alike(empty, empty)


FORMS = [
    # input                                     forms: normal, https, no www, no index file, no slash
    ("http://www.example.com/a/?utm_source=x", ["http://www.example.com/a/", "https://www.example.com/a/?utm_source=x", "http://example.com/a/?utm_source=x", "http://www.example.com/a/?utm_source=x", "http://www.example.com/a?utm_source=x"]),
    (f"{E}/index.html", [f"{E}/index.html"] * 3 + [f"{E}/", f"{E}/index.html"]),
    (f"{E}/d/Default.aspx?x=1", [f"{E}/d/Default.aspx?x=1"] * 3 + [f"{E}/d/?x=1", f"{E}/d/Default.aspx?x=1"]),
    (f"{E}/", [f"{E}/"] * 5),
    ("https://www.com/a", ["https://www.com/a"] * 5),
]  # fmt: skip


@pytest.mark.parametrize(("url", "wanted"), FORMS, ids=[row[0] for row in FORMS])
def test_which_cleaner_forms_of_a_url_are_tested(url: str, wanted: list[str]) -> None:
    assert [make(url) for _, make in list_form_makers(view(url), policy("bookmark"))] == wanted


def test_the_host_and_the_slash_of_a_declared_url_stay() -> None:
    forms = list_form_makers(view(), policy("bookmark"), is_declared=True)
    assert [source for source, _ in forms] == [PageSource.NORMAL_FORM, PageSource.HTTPS]


DECLARED_URLS = [
    # declared                       is /a/ the declared URL
    (f"{E}/a/", True),
    ("http://example.com/a/", True),
    (f"{E}/a/?utm_source=x", True),
    (f"{E}/a", False),
    ("https://www.example.com/a/", False),
]


@pytest.mark.parametrize(("declared", "wanted"), DECLARED_URLS)
def test_which_url_counts_as_the_declared_one(declared: str, wanted: bool) -> None:
    assert is_declared_url(f"{E}/a/", view(head=canonical(declared)), policy("bookmark")) is wanted
    several = view(head=canonical(declared) + canonical(f"{E}/b"))
    assert not is_declared_url(f"{E}/a/", several, policy("bookmark")) and not is_declared_url(
        E, view(), policy("bookmark")
    )


CHOSEN = [
    # page                      declared                       tested
    (f"{E}/a", "http://www.example.com/b", "https://www.example.com/b"),
    (f"{E}/a", "http://other.test/b", "http://other.test/b"),
    (f"{E}/a", "http://example.com/a", "http://example.com/a"),
    ("http://example.com/a", "http://example.com/b", "http://example.com/b"),
]


@pytest.mark.parametrize(("url", "declared", "wanted"), CHOSEN)
def test_the_https_twin_of_a_declared_url_is_tested(url: str, declared: str, wanted: str) -> None:
    assert choose_declared_url(view(url, head=canonical(declared))) == wanted


NO_VARY_SEARCH = [
    ('params=("b")', f"{E}/a?a=1&c=3"),
    ('params=("a" "b"), key-order', f"{E}/a?c=3"),
    ("params", f"{E}/a"),
    ("params=?1", f"{E}/a"),
    ("params=?0", None),
    ('params, except=("c")', f"{E}/a?c=3"),
    ("key-order", f"{E}/a?a=1&b=2&c=3"),
    ("key-order, key-order=?0", None),
    ('params=("b";x=1);y', f"{E}/a?a=1&c=3"),
    ('params, params=("b")', f"{E}/a?a=1&c=3"),
    ("", None),
    ("=;nonsense((", None),
    ("params=yes", None),
    ("key-order=1, params", None),
    ('except=("c")', None),
    ('params=("a"), except=("c")', None),
    ("params, except", None),
    ("params, except=(c)", None),
    # not a structured dictionary
    ('params=("b" c)', None),
    ('params=("b"', None),
    ('params=("b"),', None),
    ('Params=("b")', None),
    ('params=("b") key-order', None),
]


@pytest.mark.parametrize(("header", "wanted"), NO_VARY_SEARCH)
def test_which_parameters_a_no_vary_search_header_drops(header: str, wanted: str | None) -> None:
    parsed = parse_no_vary_search(header)
    assert (parsed.apply(f"{E}/a?a=1&b=2&c=3") if parsed else None) == wanted
    assert parsed is None or parsed.apply(f"{E}/a") == f"{E}/a"


def test_a_no_vary_search_header_can_sort_the_parameters() -> None:
    parsed = parse_no_vary_search('key-order, params=("%62")')
    assert parsed is not None
    assert parsed.apply(f"{E}/a?c=3&b=2&a=1&c=1") == f"{E}/a?a=1&c=3&c=1"


DECLARED = [
    # why                        page                                                            doubt
    ("one", view(head=canonical(f"{E}/b")), None),
    ("og:url", view(head=f'<meta property="og:url" content="{E}/b">'), None),
    ("several", view(head=canonical(f"{E}/b") + canonical(f"{E}/c")), PageDoubt.SEVERAL_CANONICALS),
    ("root", view(head=canonical(f"{E}/")), PageDoubt.SITE_ROOT),
    ("index file of the root", view(head=canonical(f"{E}/index.html")), PageDoubt.SITE_ROOT),
    ("root from its index", view(f"{E}/index.html", head=canonical(f"{E}/")), None),
    ("root with a query", view(f"{E}/?a=1", head=canonical(f"{E}/")), None),
    ("session", view(head=canonical(f"{E}/a;jsessionid=1")), PageDoubt.TRANSIENT),
    ("login form", view(head=canonical(f"{E}/login")), PageDoubt.WALL),
    ("after a temporary redirect", view(f"{E}/b", hops=(Hop(302, f"{E}/a", f"{E}/b"),), head=canonical(f"{E}/b")), PageDoubt.TEMPORARY_TARGET),
]  # fmt: skip


@pytest.mark.parametrize(("why", "page", "wanted"), DECLARED, ids=[row[0] for row in DECLARED])
def test_which_declared_urls_are_refused_before_they_are_fetched(
    why: str, page: PageView, wanted: PageDoubt | None
) -> None:
    url = find_declared_url(page)
    assert url
    assert doubt_declared_url(url, page) is wanted


FIRST = view(head=canonical(f"{E}/b"))
MOVED = (Hop(301, f"{E}/b", f"{E}/c"),)
JUDGED = [
    # why                   source               page                                           verdict               doubt
    ("declared", PageSource.DECLARED, view(f"{E}/b"), PageVerdict.SAME, None),
    ("declares itself", PageSource.DECLARED, view(f"{E}/b", head=canonical(f"{E}/b/")), PageVerdict.SAME, None),
    ("declares another", PageSource.DECLARED, view(f"{E}/b", head=canonical(f"{E}/c")), PageVerdict.REFUSED, PageDoubt.DECLARES_ANOTHER),
    ("declares several", PageSource.DECLARED, view(f"{E}/b", head=canonical(f"{E}/b") + canonical(f"{E}/c")), PageVerdict.REFUSED, PageDoubt.DECLARES_ANOTHER),
    ("other text", PageSource.DECLARED, view(f"{E}/b", text=make_article(2)), PageVerdict.DIFFERENT, PageDoubt.DIFFERENT_TEXT),
    ("too short", PageSource.DECLARED, view(f"{E}/b", text="short"), PageVerdict.DIFFERENT, PageDoubt.TOO_SHORT),
    ("redirects", PageSource.DECLARED, view(f"{E}/c", hops=MOVED), PageVerdict.REFUSED, PageDoubt.REDIRECTS_ELSEWHERE),
    ("redirects back", PageSource.DECLARED, view(f"{E}/a", hops=(Hop(301, f"{E}/b", f"{E}/a"),)), PageVerdict.CONFIRMS, None),
    ("redirects back for now", PageSource.DECLARED, view(f"{E}/a", hops=(Hop(302, f"{E}/b", f"{E}/a"),)), PageVerdict.REFUSED, PageDoubt.REDIRECTS_ELSEWHERE),
    ("a form moved by form", PageSource.HTTPS, view(f"{E}/b/", hops=(Hop(301, f"{E}/b", f"{E}/b/"),)), PageVerdict.SAME, None),
    ("a form moved", PageSource.HTTPS, view(f"{E}/c", hops=MOVED), PageVerdict.REFUSED, PageDoubt.REDIRECTS_ELSEWHERE),
    ("a form declares another", PageSource.HTTPS, view(f"{E}/b", head=canonical(f"{E}/c")), PageVerdict.SAME, None),
    ("AMP pair", PageSource.DECLARED, view(f"{E}/b", text=make_article(2), head=f'<link rel="amphtml" href="{E}/a">'), PageVerdict.SAME, None),
    ("AMP of another title", PageSource.DECLARED, view(f"{E}/b", text=make_article(2), title="Two", head=f'<link rel="amphtml" href="{E}/a">'), PageVerdict.DIFFERENT, PageDoubt.DIFFERENT_TEXT),
]  # fmt: skip


@pytest.mark.parametrize(("why", "source", "page", "verdict", "doubt"), JUDGED, ids=[row[0] for row in JUDGED])
def test_what_a_candidate_proves(
    why: str, source: PageSource, page: PageView, verdict: PageVerdict, doubt: PageDoubt | None
) -> None:
    judgement = judge_page(PageTrial(f"{E}/b", source), page, FIRST, FIRST.url)
    assert (judgement.verdict, judgement.doubt) == (verdict, doubt)
    assert judgement.describe(PageTrial(f"{E}/b", PageSource.DECLARED))


@pytest.mark.parametrize(
    ("status", "verdict"), [(301, PageVerdict.CONFIRMS), (302, PageVerdict.REFUSED)], ids=["permanent", "temporary"]
)
def test_a_redirect_to_where_the_page_is_for_now_confirms_nothing(status: int, verdict: PageVerdict) -> None:
    """Else a start page to which everything redirects would be an alias of every page."""
    first = view(f"{E}/start", hops=(Hop(status, "http://example.com/a", f"{E}/start"),))
    twin = view(f"{E}/start", hops=(Hop(301, f"{E}/a", f"{E}/start"),))
    assert judge_page(PageTrial(f"{E}/a", PageSource.HTTPS), twin, first, first.url).verdict is verdict


def test_a_foreign_canonical_must_declare_itself() -> None:
    trial = PageTrial("https://other.test/b", PageSource.DECLARED)
    silent, self_declared = view(trial.url), view(trial.url, head=canonical(trial.url))
    assert judge_page(trial, silent, FIRST, FIRST.url).doubt is PageDoubt.NOT_SELF_DECLARED
    assert judge_page(trial, self_declared, FIRST, FIRST.url).verdict is PageVerdict.SAME


def test_a_control_url_is_beside_the_page() -> None:
    made = make_control_url(f"{E}/docs/a?x=1")
    assert made.startswith(f"{E}/docs/canonry-check-") and made == make_control_url(f"{E}/docs/a?x=1")
    assert make_control_url(f"{E}/").startswith(f"{E}/canonry-check-")
    assert make_control_url(f"{E}/a/b/").startswith(f"{E}/a/canonry-check-")


def failed(status: int | None) -> FetchFailed:
    return FetchFailed(f"{E}/x", "failed", status=status)


CONTROL = f"{E}/canonry-check-1"
CONTROLS = [
    # why                      control                                                         doubt
    ("missing", failed(404), None),
    ("forbidden", failed(403), None),
    ("busy", failed(503), PageDoubt.NOT_CONTROLLED),
    ("asks to wait", failed(429), PageDoubt.NOT_CONTROLLED),
    ("no answer", failed(None), PageDoubt.NOT_CONTROLLED),
    ("unsafe", UnsafeUrl(f"{E}/x", "private"), PageDoubt.NOT_CONTROLLED),
    ("another text", view(CONTROL, text=make_article(2)), None),
    ("the same text", view(CONTROL), PageDoubt.SHOWN_EVERYWHERE),
    ("the same text, advertisements", view(CONTROL, extra="buy"), PageDoubt.SHOWN_EVERYWHERE),
    ("the same text, declares the page", view(CONTROL, head=canonical(f"{E}/a")), None),
    ("moves to the page", view(f"{E}/a", hops=(Hop(301, CONTROL, f"{E}/a"),)), None),
]


@pytest.mark.parametrize(("why", "control", "wanted"), CONTROLS, ids=[row[0] for row in CONTROLS])
def test_when_a_made_up_url_shows_that_the_text_proves_nothing(
    why: str, control: PageView | FetchFailed | UnsafeUrl, wanted: PageDoubt | None
) -> None:
    assert judge_control(control, view(), f"{E}/a", final_url=f"{E}/a", own_url=f"{E}/a") is wanted


def test_every_url_that_leads_to_one_page_proves_nothing() -> None:
    start = view(f"{E}/start", hops=(Hop(301, f"{E}/a", f"{E}/start"),))
    control = view(f"{E}/start", hops=(Hop(301, CONTROL, f"{E}/start"),))
    assert (
        judge_control(control, start, f"{E}/a", final_url=f"{E}/start", own_url=f"{E}/start")
        is PageDoubt.SHOWN_EVERYWHERE
    )
    assert needs_control(f"{E}/a", start)
    assert not needs_control("http://www.example.com/start/", start)


SKIPS = [
    # why                url                              left  controlled  doubt
    ("enough for both", f"{E}/b", 2, False, None),
    ("not for both", f"{E}/b", 1, False, PageDoubt.NO_REQUESTS_LEFT),
    ("controlled", f"{E}/b", 1, True, None),
    ("used up", f"{E}/b", 0, True, PageDoubt.NO_REQUESTS_LEFT),
    ("password to another host", "https://u:p@other.test/b", 3, True, PageDoubt.CREDENTIALS),
    ("password over http", "http://u:p@example.com/b", 3, True, PageDoubt.CREDENTIALS),
    ("password", "https://u:p@example.com/b", 3, True, None),
]


@pytest.mark.parametrize(("why", "url", "left", "controlled", "wanted"), SKIPS, ids=[row[0] for row in SKIPS])
def test_which_urls_are_not_fetched(why: str, url: str, left: int, controlled: bool, wanted: PageDoubt | None) -> None:
    assert find_skip_doubt(url, view(), requests_left=left, is_controlled=controlled) is wanted


def test_a_temporary_target_is_never_tested() -> None:
    page = view(f"{E}/login", hops=(Hop(302, f"{E}/a", f"{E}/login"),))
    assert find_skip_doubt(f"{E}/login", page, requests_left=3, is_controlled=True) is PageDoubt.TEMPORARY_TARGET


def test_which_fragments_select_what_a_page_shows() -> None:
    assert [selects_route(each) for each in ("!x", "/x", "x", "", None)] == [True, True, False, False, False]


REPEATS = [
    # why                            the page once more                                  doubt
    ("the same text", view(), PageDoubt.STEADY),
    ("other advertisements", view(extra="buy hats"), None),
    ("no answer", FetchFailed(f"{E}/a", "no answer"), PageDoubt.NOT_CONTROLLED),
]


@pytest.mark.parametrize(("why", "repeat", "doubt"), REPEATS, ids=[row[0] for row in REPEATS])
def test_a_nearly_equal_text_proves_something_only_if_the_page_changes(
    why: str, repeat: PageView | FetchFailed, doubt: PageDoubt | None
) -> None:
    assert judge_repeat(repeat, view()) is doubt


def test_what_a_page_shows_at_each_request_is_on_the_other_page() -> None:
    first, repeat = view(extra="anna won buy hats"), view(extra="anna won buy shoes")
    assert not lacks_lasting_words(view(extra="anna won buy gloves"), first, repeat)
    assert lacks_lasting_words(view(extra="bob won buy gloves"), first, repeat)
    assert lacks_lasting_words(view(extra="won"), view(extra="won won"), view(extra="won won"))


CONTROL_URLS = [
    # why                        page                      candidate                 made-up URL, `*` for the made-up name
    ("path", "/x/a?b=1", "", "/x/*"),
    ("script, one value kept", "/a.php?id=5&from=x", "/a.php?id=5", "/a.php?id=*&from=x"),
    ("script, another value", "/a.php?id=5", "/a.php?id=login", "/a.php?id=*"),
    ("script, other path", "/a.php?id=5&x=1", "/login.php", "/a.php?id=*&x=*"),
    ("script without a query", "/x/a.php", "/x/b.php", "/x/*"),
]


@pytest.mark.parametrize(("why", "url", "candidate", "wanted"), CONTROL_URLS, ids=[row[0] for row in CONTROL_URLS])
def test_the_made_up_url_beside_a_page(why: str, url: str, candidate: str, wanted: str) -> None:
    found = make_control_url(f"{E}{url}", f"{E}{candidate}" if candidate else "")
    assert re.sub("canonry-check-[0-9a-f]{12}", "*", found) == f"{E}{wanted}"
