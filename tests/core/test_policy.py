"""contract N5: policies as values, shipped and users' own."""

from __future__ import annotations

import copy
import pickle
import re
from typing import TYPE_CHECKING

import pytest

import canonry
from canonry.core.configured_overrides import DEFAULT_OVERRIDES
from canonry.core.policy import OPTIONS, Policy
from canonry.core.policy_toml import parse_policy
from canonry.core.site_tables import SITE_PAGES
from canonry.core.tables import POLICIES
from canonry.policy_files import choose_policy

if TYPE_CHECKING:
    from collections.abc import Callable

ALL_SITES = {site.partition("@")[0] for site in SITE_PAGES}
FEED_SITES = ("blogger", "exceptions", "feedburner")
SHIPPED = {
    # id: www, slash, collapse, escapes, sort, fragment, sites (the table of contract N5)
    "feed-aggressive@1": (True, True, True, True, True, "drop", ("blogger", "feedburner")),
    "feed-moderate@1": (False, True, True, True, True, "drop", ("blogger", "feedburner")),
    "feed-conservative@1": (False, False, True, True, True, "drop", ("blogger", "feedburner")),
    "entry@1": (False, False, False, False, False, "drop", ()),
    "crawl@1": (False, True, False, True, False, "drop", ()),
    "article@0": (False, True, True, False, True, "drop", ()),
    "bookmark@1": (False, False, False, False, True, "keep", ("x", "youtube")),
    "exact@1": (False, False, False, False, False, "keep", ()),
    "feed-aggressive@2": (True, True, True, True, True, "drop", FEED_SITES),
    "feed-moderate@2": (False, True, True, True, True, "drop", FEED_SITES),
    "feed-conservative@2": (False, False, True, True, True, "drop", FEED_SITES),
    "entry@2": (False, False, False, False, False, "drop", ALL_SITES),
    "crawl@2": (False, True, False, True, False, "drop", ("exceptions",)),
    "article@1": (False, True, True, False, True, "drop", ALL_SITES),
    "bookmark@2": (False, False, False, True, True, "clean", ALL_SITES),
}


def test_the_shipped_policies_are_those_of_the_contract() -> None:
    assert {policy.id for policy in canonry.policies()} == set(SHIPPED)
    for policy_id, options in SHIPPED.items():
        policy = canonry.policy(policy_id)
        names = (
            "strip_www",
            "strip_trailing_slash",
            "collapse_slashes",
            "normalize_escapes",
            "sort_params",
            "fragment",
            "sites",
        )
        found = tuple(getattr(policy, name) for name in names[:-1])
        assert (*found, {site.partition("@")[0] for site in policy.sites}) == (*options[:-1], set(options[-1])), (
            policy_id
        )
        assert policy.parse is (policy.name != "exact")
        assert not policy.strip_auth
        assert policy.about


@pytest.mark.parametrize("policy_id", SHIPPED)
def test_every_shipped_policy_passes_the_checks(policy_id: str) -> None:
    """The tables are trusted when canonry starts, so here they are checked: nothing refused, nothing changed."""
    trusted, checked = canonry.policy(policy_id), Policy(**POLICIES[policy_id])
    for field in (*OPTIONS, "name", "version", "about", "overrides", "origin"):
        assert getattr(trusted, field) == getattr(checked, field), field
    assert trusted == checked
    assert (trusted.id, trusted.digest) == (policy_id, checked.digest)


def test_parameters_of_the_shipped_policies() -> None:
    assert canonry.policy("entry@1").strip_params == ("fbclid", "gclid", "ref", "source", "utm_*")
    assert set(canonry.policy("article@0").strip_params) == set(
        "utm_* gclid fbclid mc_cid mc_eid ref ref_src cmpid icid ocid".split()
    )
    assert canonry.policy("crawl@1").strip_params == canonry.policy("exact").strip_params == ()


@pytest.mark.parametrize(
    ("old", "new"), [("bookmark@1", "bookmark@2"), ("crawl@1", "crawl@2"), ("entry@1", "entry@2"), ("article@0", "article@1"),
                     *((f"feed-{level}@1", f"feed-{level}@2") for level in ("aggressive", "moderate", "conservative"))],
)  # fmt: skip
def test_a_second_version_drops_what_the_first_one_dropped_and_more(old: str, new: str) -> None:
    first, second = canonry.policy(old), canonry.policy(new)
    assert set(first.strip_params) < set(second.strip_params)
    assert set(dict(first.strip_params_on)) <= set(dict(second.strip_params_on))
    for option in ("strip_www", "strip_auth", "collapse_slashes", "strip_trailing_slash", "sort_params"):
        assert getattr(first, option) == getattr(second, option)
    assert {site.partition("@")[0] for site in first.sites} <= {site.partition("@")[0] for site in second.sites}


def test_a_name_is_the_newest_version() -> None:
    newest = {policy_id.partition("@")[0]: policy_id for policy_id in POLICIES}
    assert {canonry.policy(name).id for name in newest} == set(newest.values())
    assert (canonry.policy("bookmark").id, canonry.policy("article").id) == ("bookmark@2", "article@1")


@pytest.mark.parametrize("name", ["nope", "bookmark@99", "", "bookmark@", "@1"])
def test_the_error_for_an_unknown_name_lists_the_shipped_policies(name: str) -> None:
    with pytest.raises(canonry.PolicyError, match="the shipped policies are article@0, article@1, bookmark@1"):
        canonry.normalize("https://a.com/", name)


SUGGESTIONS = [
    # given               suggested
    ("bookmrk@2",         " (did you mean bookmark@2?);"),
    ("Bookmark",          " (did you mean bookmark?);"),
    ("bookmark@99",       " (did you mean bookmark@2?);"),
    ("feed-moderated@1",  " (did you mean feed-moderate@1?);"),
    ("nope",              "'nope';"),
    ("x" * 1_000_000,     "x';"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "suggested"), SUGGESTIONS, ids=lambda text: text[:20])
def test_the_error_for_an_unknown_name_suggests_the_nearest(given: str, suggested: str) -> None:
    with pytest.raises(canonry.PolicyError) as caught:
        canonry.policy(given)
    assert f"{suggested} the shipped policies are" in str(caught.value)


def test_policies_are_values() -> None:
    one, other = Policy("p", 1, strip_params=["b", "a", "A"]), Policy("p", 1, strip_params=("a", "b"))
    assert one == other
    assert hash(one) == hash(other)
    assert one.digest == other.digest
    assert one != Policy("p", 2, strip_params=("a", "b"))
    assert one != Policy("q", 1, strip_params=("a", "b"))
    assert one != "p@1"
    assert repr(one) == "<Policy p@1>"
    assert pickle.loads(pickle.dumps(one)) == copy.deepcopy(one) == one
    with pytest.raises(AttributeError, match="frozen"):
        one.strip_www = True
    with pytest.raises(AttributeError, match="frozen"):
        del one.strip_www


def test_a_policy_that_was_used_can_be_pickled() -> None:
    policy = canonry.policy("bookmark").with_rules("strip_www")
    wanted = canonry.normalize("https://www.a.com/", policy)
    assert canonry.normalize("https://www.a.com/", pickle.loads(pickle.dumps(policy))) == wanted
    assert pickle.loads(pickle.dumps(policy)).id == policy.id


def test_the_digest_is_over_every_option_and_nothing_else() -> None:
    changes: dict[str, object] = {
        "parse": False, "strip_www": True, "strip_auth": True, "normalize_escapes": True, "collapse_slashes": True,
        "strip_trailing_slash": True, "sort_params": True, "keep_embedded": True, "fragment": "drop", "sites": ["x"], "strip_params": ["a"],
        "strip_params_on": {"a.com": ["a"]},
    }  # fmt: skip
    assert set(changes) == set(OPTIONS)
    base = Policy("p", 1)
    digests = {Policy("p", 1, **{option: value}).digest for option, value in changes.items()}  # type: ignore[arg-type]
    assert len({base.digest, *digests}) == len(changes) + 1
    assert Policy("q", 2, about="x").digest == base.digest


def test_deriving_a_policy_changes_only_the_named_options() -> None:
    base = canonry.policy("bookmark@1")
    derived = base.with_params("ref").without_params("fbclid").with_rules("strip_www").without_rules("sort_params")
    assert canonry.normalize("https://www.a.com/?ref=1&fbclid=2&b&a", derived) == "https://a.com/?fbclid=2&b&a"
    assert derived.id == f"bookmark@1~{derived.id[-8:]}"
    assert derived.with_name("mine", 3).id == "mine@3"
    assert base.with_fragment("drop").fragment == "drop"
    assert base.with_sites("feedburner").sites == ("feedburner@2", "x@1", "youtube@1")
    assert base.without_sites("x", "youtube@1").sites == ()
    assert base.id == "bookmark@1"
    assert base.with_params("a", host="a.com").with_params("b", host="a.com").strip_params_on[0] == (
        "a.com",
        ("a", "b"),
    )
    assert base.with_params("a", host="a.com").without_params("a", host="a.com") == base
    assert base.with_rules("sort_params").id == base.id
    assert base.with_rules("strip_www").without_rules("strip_www") == base
    assert base.with_rules("strip_www").without_rules("strip_www").id == base.id
    assert base.with_rules("strip_www").id != base.with_rules("strip_auth").id


BAD_VALUES: list[tuple[str, object, str]] = [
    ("strip_www", 1, "must be true or false"),
    ("strip_www", "yes", "must be true or false"),
    ("about", 1, "must be a string"),
    ("fragment", "sometimes", "must be one of drop, keep, routes, clean"),
    ("sites", ["myspace"], "unknown site 'myspace'; known are airbnb@1"),
    ("sites", "x", "must be a list of strings"),
    ("strip_params", ["*"], "'*' is not a parameter name"),
    ("strip_params", ["a=b"], "'a=b' is not a parameter name"),
    ("strip_params", ["a&b"], "'a&b' is not a parameter name"),
    ("strip_params", ["a*b"], "'a*b' is not a parameter name"),
    ("strip_params", [""], "'' is not a parameter name"),
    ("strip_params", ["\ud800"], "is not a parameter name"),
    ("strip_params", [1], "must be a list of strings"),
    ("strip_params", "utm", "must be a list of strings"),
    ("strip_params_on", {"A.com": ["a"]}, "is not a host in lower case, without port"),
    ("strip_params_on", {"a.com:80": ["a"]}, "is not a host in lower case, without port"),
    ("strip_params_on", {"a.com": ["*"]}, "'*' is not a parameter name"),
]


@pytest.mark.parametrize(("option", "value", "reason"), BAD_VALUES)
def test_a_bad_option_is_refused(option: str, value: object, reason: str) -> None:
    with pytest.raises(canonry.PolicyError, match=re.escape(reason)) as caught:
        Policy("p", 1, **{option: value})  # type: ignore[arg-type]
    assert caught.value.place.startswith(option)


@pytest.mark.parametrize("name", ["", "A", "a b", "1a", "a@1", "a" * 65, None])
def test_a_bad_name_is_refused(name: str) -> None:
    with pytest.raises(canonry.PolicyError, match="name: must start with a letter"):
        Policy(name, 1)


@pytest.mark.parametrize("version", [-1, "1", 1.0, True, None])
def test_a_bad_version_is_refused(version: int) -> None:
    with pytest.raises(canonry.PolicyError, match="version: must be"):
        Policy("p", version)


def test_a_policy_that_does_not_parse_allows_no_other_rule() -> None:
    exact = canonry.policy("exact")
    changes: list[Callable[[], Policy]] = [
        lambda: exact.with_rules("sort_params"),
        lambda: exact.with_fragment("drop"),
        lambda: exact.with_sites("x"),
        lambda: exact.with_params("a"),
        lambda: exact.with_params("a", host="a.com"),
        lambda: exact.with_overrides('{"overrides": []}'),
    ]
    for change in changes:
        with pytest.raises(canonry.PolicyError, match="must be true if any other rule is on"):
            change()


def test_a_shipped_name_means_the_shipped_answers() -> None:
    assert Policy("bookmark", 1, strip_www=True).id.startswith("bookmark@1~")
    assert Policy("bookmark", 1, strip_www=True) != canonry.policy("bookmark@1")
    with pytest.raises(canonry.PolicyError, match="is the name of a shipped policy"):
        Policy("bookmark", 99)
    with pytest.raises(canonry.PolicyError, match="is the name of a shipped policy"):
        Policy("p", 1).with_name("bookmark")


def test_a_changed_policy_differs_from_one_declared_with_the_same_options() -> None:
    declared, changed = Policy("p", 1, strip_www=True), Policy("p", 1).with_rules("strip_www")
    assert (declared.id, changed.id == declared.id, changed == declared) == ("p@1", False, False)
    assert changed.with_name("p") == declared


def test_overrides_are_made_from_text() -> None:
    with pytest.raises(canonry.PolicyError, match="must be made with Policy.with_overrides"):
        Policy("p", 1, overrides="x")  # type: ignore[arg-type]
    with pytest.raises(canonry.PolicyError, match="must be text"):
        Policy("p", 1).with_overrides(None)  # type: ignore[arg-type]


def test_unknown_switches_and_names_are_refused() -> None:
    with pytest.raises(canonry.PolicyError, match="is not a rule that is on or off"):
        canonry.policy("bookmark").with_rules("fragment")
    with pytest.raises(canonry.PolicyError, match="does not list nope"):
        canonry.policy("bookmark").without_params("nope", "fbclid")
    with pytest.raises(canonry.PolicyError, match="unknown site 'nope'"):
        canonry.policy("bookmark").without_sites("nope")


TOML = """
name = "my-reader"
version = 3
about = "mine"
base = "feed-moderate@1"
strip_www = true
fragment = "routes"
with_params = ["ref"]
without_params = ["mc_eid"]
[strip_params_on]
"a.com" = ["si"]
"""


def test_a_toml_policy_starts_from_its_base() -> None:
    policy = parse_policy(TOML)
    assert policy.id == "my-reader@3"
    assert (
        canonry.normalize("https://www.a.com/b/?ref=1&mc_eid=2&si=3&utm_x=4#/r", policy)
        == "https://a.com/b?mc_eid=2#/r"
    )
    assert parse_policy('name = "p"\nversion = 1\nstrip_params = ["a"]') == Policy("p", 1, strip_params=["a"])


BAD_TOML = [
    # text, place, reason
    ("name = ", "end of document", "Invalid value"),
    ("name = 'p'\nversion 1", "line 2, column 9", "Expected '='"),
    ("name = 'p'", "version", "is missing"),
    ("version = 1", "name", "is missing"),
    (
        "name = 'p'\nversion = 1\nstrip_wwww = true",
        "strip_wwww",
        "unknown key (did you mean strip_www?); the known keys are name, version",
    ),
    ("name = 'p'\nversion = 1\nstrip_www = 1", "strip_www", "must be true or false"),
    ("name = 'bookmark'\nversion = 9", "name", "the name of a shipped policy"),
    ("name = 'p'\nversion = 1\nbase = 'nope'", "base", "no policy 'nope'"),
    ("name = 'p'\nversion = 1\nbase = 1", "base", "must be the name of a shipped policy"),
    ("name = 'p'\nversion = 1\nwith_params = 'a'", "with_params", "must be a list of strings"),
    ("name = 'p'\nversion = 1\nwithout_params = [1]", "without_params", "must be a list of strings"),
    ("name = 'p'\nversion = 1\nwithout_params = ['a']", "strip_params", "does not list a"),
    ("name = 'p'\nversion = 1\nstrip_params_on = ['a']", "strip_params_on", "must be a table of hosts"),
    ("name = 'p'\nversion = 1\nstrip_params = 'a'", "strip_params", "must be a list"),
    ("name = 'p'\nversion = 1\nsites = {x = 1}", "sites", "must be a list"),
    ("name = 'p'\nversion = 1\nsites = 1", "sites", "must be a list"),
    ("x = " + "[" * 100_000, "top level", "nested too deeply"),
    ("version = " + "1" * 5_000, "top level", "Exceeds the limit"),
]


@pytest.mark.parametrize(("text", "place", "reason"), BAD_TOML, ids=range(len(BAD_TOML)))
def test_bad_toml_is_refused_with_file_place_and_reason(text: str, place: str, reason: str) -> None:
    with pytest.raises(canonry.PolicyError) as caught:
        parse_policy(text, file="mine.toml")
    assert (caught.value.file, caught.value.place) == ("mine.toml", place)
    assert reason in caught.value.reason


def test_load_policy_and_choose_policy(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("policies")
    monkeypatch.chdir(folder)
    (folder / "mine.toml").write_text(TOML)
    (folder / "o.json").write_text('{"overrides": []}')
    assert canonry.load_policy(folder / "mine.toml") == parse_policy(TOML)
    assert canonry.load_policy("mine.toml", overrides="o.json").overrides is not None
    assert choose_policy("mine.toml").id == "my-reader@3"
    assert choose_policy("crawl", "o.json").id.startswith("crawl@2+")
    assert choose_policy("article").id == "article@1"
    (folder / "config").mkdir()
    (folder / DEFAULT_OVERRIDES).write_text('{"overrides": []}')
    assert choose_policy("article").id.startswith("article@1+")
    assert choose_policy("crawl").id == "crawl@2"


def test_unreadable_files_are_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("policies")
    with pytest.raises(canonry.PolicyError, match="nope.toml: cannot be read: No such file"):
        canonry.load_policy(folder / "nope.toml")
    (folder / "latin.toml").write_bytes(b"name = '\xe9'")
    with pytest.raises(canonry.PolicyError, match="latin.toml: byte 8: is not UTF-8"):
        canonry.load_policy(folder / "latin.toml")
