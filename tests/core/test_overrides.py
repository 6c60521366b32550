"""contract N4 rule 12 and N5: what an overrides file does, and which files are refused."""

from __future__ import annotations

import json
import pickle
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import canonry
from canonry.core import rewrite_cycles
from canonry.core.overrides import Rewrite
from canonry.core.policy import Policy

ARTICLE = canonry.policy("article")


def entry(*rewrites: tuple[str, str], host: str = "e.com", drop: tuple[str, ...] = ()) -> dict[str, object]:
    rules = [{"from_prefix": old, "to_prefix": new} for old, new in rewrites]
    return {"match": {"host": host}, "drop_query_params": list(drop), "rewrite_rules": rules}


def text(*entries: object) -> str:
    return json.dumps({"overrides": entries})


def e(path: str) -> str:
    return f"https://e.com{path}"


APPLIED = [
    # why, file, given, wanted
    ("first match decides", text(entry(drop=("a",)), entry(drop=("b",))), e("/?a=1&b=2"), e("/?b=2")),
    ("case of names", text(entry(drop=("Src",))), e("/?SRC=1&sr%63=2&x=1"), e("/?x=1")),
    ("a prefix of names", text(entry(drop=("pk_*",))), e("/?pk_a=1&pk=2"), e("/?pk=2")),
    ("emptied query", text(entry(drop=("a",))), e("/?a=1"), e("/")),
    ("host in upper case", text(entry(host="E.COM", drop=("a",))), e("/?a=1"), e("/")),
    ("IDN host", text(entry(host="bücher.de", drop=("a",))), "https://bücher.de/?a=1", "https://xn--bcher-kva.de/"),
    ("prefix in upper case", text(entry(("HTTPS://E.com/amp/", "https://E.com/"))), e("/amp/x"), e("/x")),
    ("first rewrite that fits", text(entry((e("/a/"), e("/1/")), (e("/a/b/"), e("/2/")))), e("/a/b/c"), e("/1/b/c")),
    ("rewrites in turn", text(entry((e("/b/"), e("/c/")), (e("/a/"), e("/b/")))), e("/a/x"), e("/c/x")),
    ("prefix inside a name", text(entry((e("/x"), e("/")))), e("/xx..x"), e("/..x")),
    ("dot segments made by a rewrite", text(entry((e("/x"), e("/a/")))), e("/x../b"), e("/b")),
    ("to a longer prefix", text(entry((e("/x"), e("/a/b/c/")))), e("/xy"), e("/a/b/c/y")),
    ("a longer head is cut again", text(entry((e("/x"), e("/a/b/")), (e("/a/"), e("/")))), e("/xy"), e("/b/y")),
    ("to another host", text(entry(("https://m.e.com/", e("/")), host="m.e.com")), "https://m.e.com/a/", e("/a")),
    ("on to the other host's override", text(entry(("https://m.e.com/", e("/")), host="m.e.com"), entry(drop=("a",))), "https://m.e.com/?a", e("/")),
    ("scheme", text(entry(("http://e.com/", e("/")))), "http://e.com/a", e("/a")),
    ("prefix with a query", text(entry((e("/?p="), e("/posts/")))), e("/?p=12"), e("/posts/12")),
    ("prefix ending at the query", text(entry((e("/print?"), e("/?")))), e("/print?b=1"), e("/?b=1")),
    ("a prefix of another host never fits", text(entry(("https://f.com/", e("/")))), "https://f.com/a", "https://f.com/a"),
    ("prefix ending at the fragment", text(entry((e("/a#"), e("/b")))), e("/abc"), e("/abc")),
    ("prefix ending in a dot", text(entry((e("/a/."), e("/b/")))), e("/a/.c"), e("/b/c")),
    ("a dot is not the folder", text(entry((e("/a/."), e("/b/")))), e("/a/c"), e("/a/c")),
    ("an escaped dot is not the folder", text(entry((e("/%2e"), e("/b/")))), e("/c"), e("/c")),
    ("a space is a character", text(entry((e("/a "), e("/b")))), e("/abc"), e("/abc")),
    ("IPv6 host", text(entry(host="[::1]", drop=("a",))), "https://[::1]/?a=1", "https://[::1]/"),
    ("characters of the query encoded in the path", text(entry((e("/?p="), e("/")))), e("/?p={}"), e("/%7B%7D")),
    ("no rules at all", text({"match": {"host": "e.com"}}), e("/?a"), e("/?a")),
    ("no overrides at all", text(), e("/?a"), e("/?a")),
]  # fmt: skip


@pytest.mark.parametrize(("why", "file", "url", "wanted"), APPLIED, ids=[case[0] for case in APPLIED])
def test_an_override_changes_the_url(why: str, file: str, url: str, wanted: str) -> None:
    policy = ARTICLE.with_overrides(file)
    assert canonry.normalize(url, policy) == wanted, why
    assert canonry.normalize(wanted, policy) == wanted
    assert canonry.explain(url, policy).url == wanted


REFUSED = [
    # file, place, reason
    ("", "line 1 column 1", "Expecting value"),
    ('{"overrides": [,]}', "line 1 column 16", "Expecting value"),
    ("\ufeff{}", "line 1 column 1", "BOM"),
    ('{"overrides": [], "overrides": []}', "top level", "duplicate key 'overrides'"),
    ('{"a": 1, "overrides": [], "z": 1, "overrides": []}', "top level", "duplicate key 'overrides'"),
    ("[" * 200_000, "top level", "nested too deeply"),
    ('{"overrides": ' + "1" * 5_000 + "}", "top level", "Exceeds the limit"),
    ('{"overrides": ["\ud800"]}', "top level", "must be text"),
    ("[]", "top level", "must be an object"),
    ("{}", "top level", "key 'overrides' is missing"),
    ('{"overrides": {}}', "overrides", "must be a list"),
    ('{"overrides": [], "version": 1}', "top level", "unknown key 'version'"),
    (text([]), "overrides[0]", "must be an object"),
    (text(entry(), {"match": {}}), "overrides[1].match", "key 'host' is missing"),
    (text({"match": {"host": ""}}), "overrides[0].match.host", "must be a string"),
    (text({"match": {"host": 1}}), "overrides[0].match.host", "must be a string"),
    (text(entry(host="e.com:443")), "overrides[0].match.host", "must be a host without user, port"),
    (text(entry(host="[::1]:80")), "overrides[0].match.host", "must be a host without user, port"),
    (text(entry(host="e.com:80")), "overrides[0].match.host", "must be a host without user, port"),
    (text(entry(host="e.com:8080")), "overrides[0].match.host", "must be a host without user, port"),
    (text(entry(host="e.com/a")), "overrides[0].match.host", "must be a host without user, port"),
    (text(entry(host="u@e.com")), "overrides[0].match.host", "must be a host without user, port"),
    (text(entry(host="e.com?a")), "overrides[0].match.host", "must be a host without user, port"),
    (text(entry(host="e.com#a")), "overrides[0].match.host", "must be a host without user, port"),
    (text(entry(host="a b")), "overrides[0].match.host", "is not a host"),
    (text({"match": {"host": "e.com"}, "drop_query_params": "a"}), "overrides[0].drop_query_params", "must be a list"),
    (text(entry(drop=("a=b",))), "overrides[0].drop_query_params[0]", "not a parameter name"),
    (text(entry(drop=("\ud800",))), "overrides[0].drop_query_params[0]", "not a parameter name"),
    (text(entry(drop=("a", "*"))), "overrides[0].drop_query_params[1]", "not a parameter name"),
    (text({"match": {"host": "e.com"}, "rewrite_rules": [{"from_prefix": e("/a/")}]}), "overrides[0].rewrite_rules[0]", "key 'to_prefix' is missing"),
    (text(entry(("https://e.com", e("/")))), "overrides[0].rewrite_rules[0].from_prefix", "the / after the host"),
    (text(entry((e("/a/"), "https://e.com"))), "overrides[0].rewrite_rules[0].to_prefix", "the / after the host"),
    (text(entry(("https://e.com?a/", e("/")))), "overrides[0].rewrite_rules[0].from_prefix", "the / after the host"),
    (text(entry(("ftp://e.com/", e("/")))), "overrides[0].rewrite_rules[0].from_prefix", "is not an http(s) URL"),
    (text(entry(("/amp/", e("/")))), "overrides[0].rewrite_rules[0].from_prefix", "is not an http(s) URL"),
    (text(entry((e("/%4"), e("/")))), "overrides[0].rewrite_rules[0].from_prefix", "ends inside a percent escape"),
    (text(entry((e("/a"), e("/%")))), "overrides[0].rewrite_rules[0].to_prefix", "ends inside a percent escape"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "place", "reason"), REFUSED, ids=range(len(REFUSED)))
def test_an_invalid_file_is_refused_with_file_place_and_reason(file: str, place: str, reason: str) -> None:
    with pytest.raises(canonry.PolicyError) as caught:
        ARTICLE.with_overrides(file, file="o.json")
    assert caught.value.file == "o.json"
    assert caught.value.place == place
    assert reason in caught.value.reason
    assert str(caught.value).startswith(f"o.json: {place}")


AGGRESSIVE = canonry.policy("feed-aggressive")
ON_YOUTUBE = AGGRESSIVE.with_sites("youtube")
BOOKMARK = canonry.policy("bookmark")
BLOGGER = Policy("blogs", 1, sites=["blogger"])


def on(host: str, path: str, to: str) -> dict[str, object]:
    return entry((f"https://{host}{path}", to), host=host)


CYCLES = [
    ("onto itself", ARTICLE, (entry((e("/a/"), e("/a/"))),)),
    ("grows", ARTICLE, (entry((e("/"), e("/x/"))),)),
    ("grows in the middle", ARTICLE, (entry((e("/a/"), e("/a/a/"))),)),
    ("back and forth", ARTICLE, (entry((e("/a/"), e("/b/")), (e("/b/"), e("/a/"))),)),
    ("by a detour", ARTICLE, (entry((e("/a/"), e("/b/c/")), (e("/b/"), e("/d/")), (e("/d/c/"), e("/a/"))),)),
    ("across hosts", ARTICLE, (entry((e("/a/"), "https://f.com/a/")), entry(("https://f.com/", e("/")), host="f.com"))),
    ("across schemes", ARTICLE, (entry((e("/"), "http://e.com/"), ("http://e.com/", e("/"))),)),
    ("through a tail", ARTICLE, (entry((e("/ab"), e("/a")), (e("/a"), e("/ab"))),)),
    ("by way of the slashes", ARTICLE, (entry((e("/a/"), e("//a/"))),)),
    ("by way of the host", AGGRESSIVE, (entry((e("/a/"), "https://www.e.com/a/")),)),
    ("by way of the escapes", AGGRESSIVE, (entry((e("/A/"), e("/%41/"))),)),
    ("onto a short link", BOOKMARK, (on("www.youtube.com", "/watch?v=", "https://youtu.be/"),)),
    ("onto shorts", BOOKMARK, (on("www.youtube.com", "/watch?v=", "https://www.youtube.com/shorts/"),)),
    ("onto a mirror", BOOKMARK, (on("www.youtube.com", "/", "https://music.youtube.com/"),)),
    ("onto another spelling", BOOKMARK, (on("www.youtube.com", "/w", "https://www.youtube.com//w"),)),
    ("slashes on X", BOOKMARK, (on("x.com", "/u/", "https://x.com//u/"),)),
    ("case on X", BOOKMARK, (on("x.com", "/u/status/", "https://x.com/u/Status/"),)),
    ("escapes on Blogger", BLOGGER, (on("a.blogspot.com", "/feeds/", "https://a.blogspot.com/f%65eds/"),)),
    ("on a site", ON_YOUTUBE, (entry(("https://youtu.be/A/", "https://youtu.be/%41/"), host="youtu.be"),)),
]


@pytest.mark.parametrize(("why", "policy", "entries"), CYCLES, ids=[case[0] for case in CYCLES])
def test_cycles_are_refused_and_the_error_names_the_rules(
    why: str, policy: Policy, entries: tuple[dict[str, object], ...]
) -> None:
    with pytest.raises(canonry.PolicyError, match="repeat without end") as caught:
        policy.with_overrides(text(*entries), file="o.json")
    assert "overrides[0].rewrite_rules[0] (https://" in caught.value.reason, why


def test_the_error_names_all_rules_of_the_cycle_and_no_other() -> None:
    file = text(entry((e("/q/"), e("/r/")), (e("/r/"), e("/a/")), (e("/a/"), e("/b/")), (e("/b/"), e("/a/"))))
    with pytest.raises(canonry.PolicyError) as caught:
        ARTICLE.with_overrides(file)
    assert set(re.findall(r"rules\[(\d)\]", caught.value.reason)) == {"2", "3"}


@pytest.mark.parametrize("aside", ["/a/x/", "/b/x/"])
def test_a_rewrite_that_leaves_the_cycle_is_not_named(aside: str) -> None:
    rewrites = ((e(aside), e("/somewhere/else/")), (e("/a/"), e("/b/")), (e("/b/"), e("/a/")))
    with pytest.raises(canonry.PolicyError) as caught:
        Policy("p", 1).with_overrides(text(entry(*rewrites)))
    assert set(re.findall(r"rules\[(\d)\]", caught.value.reason)) == {"1", "2"}


def test_the_search_walks_back_into_the_cycle() -> None:
    there, back, aside = (Rewrite(name, name, name) for name in ("there", "back", "aside"))
    edges = {
        "a": [rewrite_cycles._Edge("b", 0, there)],
        "b": [rewrite_cycles._Edge("a", 0, back), rewrite_cycles._Edge("c", 0, aside)],
        "c": [],
    }
    assert set(rewrite_cycles._find_cycle(edges)) == {there, back}


def test_the_rules_of_a_cycle_are_named_in_the_order_of_application() -> None:
    file = text(entry((e("/a/"), e("/b/")), (e("/c/"), e("/a/")), (e("/b/"), e("/c/"))))
    with pytest.raises(canonry.PolicyError) as caught:
        ARTICLE.with_overrides(file)
    order = re.findall(r"rules\[(\d)\]", caught.value.reason)
    assert "".join(order) in ("021", "210", "102")
    assert caught.value.place == f"overrides[0].rewrite_rules[{order[0]}]"


def test_a_cycle_that_shrinks_the_url_is_allowed() -> None:
    policy = Policy("p", 1).with_overrides(text(entry((e("/aaa/"), e("/bb/")), (e("/bb/"), e("/aaa")))))
    assert canonry.normalize(e("/aaa//x"), policy) == e("/aaax")


def test_many_rewrites_of_many_hosts_load() -> None:
    entries = [entry((f"https://h{n}.com/amp/", f"https://h{n}.com/"), host=f"h{n}.com") for n in range(2_000)]
    policy = ARTICLE.with_overrides(text(*entries))
    assert canonry.normalize("https://h1999.com/amp/amp/x", policy) == "https://h1999.com/x"


@pytest.mark.slow
def test_ten_megabytes_of_repeated_rewrites_take_one_pass() -> None:
    policy = ARTICLE.with_overrides(text(entry((e("/amp/"), e("/")))))
    assert canonry.normalize(e("/amp" * 2_500_000 + "/x"), policy) == e("/x")


def test_rewrites_on_a_site_that_its_rules_do_not_undo_are_allowed() -> None:
    policy = BOOKMARK.with_overrides(text(on("www.youtube.com", "/@old/", "https://www.youtube.com/@new/")))
    assert canonry.normalize("https://m.youtube.com/@old/videos", policy) == "https://www.youtube.com/@new/videos"


def test_deriving_a_policy_checks_for_cycles_again() -> None:
    policy = Policy("p", 1).with_overrides(text(entry((e("/A/"), e("/%41/")))))
    with pytest.raises(canonry.PolicyError, match="repeat without end"):
        policy.with_rules("normalize_escapes")
    moved = Policy("p", 1).with_overrides(text(on("x.com", "/", "https://twitter.com/")))
    with pytest.raises(canonry.PolicyError, match="repeat without end"):
        moved.with_sites("x")


def test_long_chains_of_rewrites_are_allowed() -> None:
    hosts = [on(f"h{n}.com", "/", f"https://h{n + 1}.com/") for n in range(500)]
    assert canonry.normalize("https://h0.com/x", ARTICLE.with_overrides(text(*hosts))) == "https://h500.com/x"
    by_www = AGGRESSIVE.with_overrides(text(entry((e("/amp/"), "https://www.e.com/"))))
    assert canonry.normalize(e("/amp" * 300 + "/x"), by_www) == e("/x")
    doubling = [(e(f"/{n}/"), e(f"/{n - 1}/{n - 1}/")) for n in range(1, 8)]
    assert ARTICLE.with_overrides(text(entry(*doubling, (e("/0/"), e("/"))))).overrides is not None


def test_a_url_that_needs_too_many_rounds_is_refused() -> None:
    # Each round leaves one more dot segment for the next round: ten thousand of them are hostile.
    policy = ARTICLE.with_overrides(text(entry((e("/x"), e("/")))))
    for function in (canonry.normalize, canonry.explain):
        with pytest.raises(canonry.InvalidUrl, match="the overrides rewrite it without end"):
            function(e("/" + "x../" * 10_000 + "y"), policy)
    assert canonry.normalize(e("/" + "x../" * 200 + "y"), policy) == e("/y")


def test_the_policy_id_contains_the_digest_of_the_overrides() -> None:
    import hashlib

    file = text(entry())
    policy = ARTICLE.with_overrides(file)
    assert policy.id == f"{ARTICLE.id}+{hashlib.sha256(file.encode()).hexdigest()[:8]}"
    assert policy != ARTICLE
    assert policy.digest != ARTICLE.digest
    assert policy.without_overrides() == ARTICLE


def test_a_policy_with_overrides_can_be_pickled() -> None:
    policy = ARTICLE.with_overrides(text(entry((e("/amp/"), e("/")), drop=("a",))), file="o.json")
    sent = pickle.loads(pickle.dumps(policy))
    assert (sent, hash(sent), sent.id, sent.digest) == (policy, hash(policy), policy.id, policy.digest)
    assert canonry.normalize(e("/amp/x?a=1"), sent) == e("/x")


_PATHS = st.text(alphabet="ab/", max_size=4).map(lambda path: e(f"/{path}"))
_REWRITES = st.lists(st.tuples(_PATHS, _PATHS), min_size=1, max_size=4)
_POLICIES = st.builds(
    Policy,
    st.just("p"),
    st.just(1),
    collapse_slashes=st.booleans(),
    strip_trailing_slash=st.booleans(),
)


@pytest.mark.slow
@settings(max_examples=300)
@given(_POLICIES, _REWRITES, st.text(alphabet="ab/", max_size=12))
def test_overrides_that_are_accepted_give_a_fixed_point(
    policy: Policy, rewrites: list[tuple[str, str]], path: str
) -> None:
    try:
        overridden = policy.with_overrides(text(entry(*rewrites)))
    except canonry.PolicyError:
        return
    once = canonry.normalize(e(f"/{path}"), overridden)
    assert canonry.normalize(once, overridden) == once
    assert canonry.explain(e(f"/{path}"), overridden).url == once
