"""The data files are complete, have sources, and equal the generated tables."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

import canonry
import tables
from canonry.core import sites
from canonry.core.tables import SHORTENERS, SKIPPED_EXTENSIONS
from canonry.site_files import TrackingParameter, list_tracking_parameters

NOT_TRACKING = "ref ref_src ref_url source via cid ts id page q".split()
IN_THE_SEEDS = "utm_* fbclid gclid dclid msclkid igshid mc_cid mc_eid cmpid icid ocid".split()


def data(name: str) -> dict[str, Any]:
    return tomllib.loads((tables.DATA / name).read_text(encoding="utf-8"))


def test_the_tables_are_generated_from_the_data() -> None:
    assert tables.TABLES.read_text(encoding="utf-8") == tables.make_tables_text(), "run: make tables"


@pytest.mark.parametrize("name", sorted(tables.LISTS))
def test_the_newest_policy_drops_the_listed_parameters(name: str) -> None:
    everywhere, by_host = tables.list_params(tables.LISTS[name])
    everywhere = sorted({*everywhere, *tables.OWN_PARAMS.get(name, ())})
    policy = canonry.policy(name)
    advice = f"params.toml and {policy.id} differ: python tools/tables.py bump {name}"
    assert list(policy.strip_params) == everywhere, advice
    assert {host: list(names) for host, names in policy.strip_params_on} == by_host, advice


@pytest.mark.parametrize("which", ["feed", "tracking"])
def test_the_lists_have_the_required_names_and_no_functional_ones(which: str) -> None:
    names, _ = tables.list_params(which)
    assert set(IN_THE_SEEDS) <= set(names)
    assert not set(NOT_TRACKING) & set(names)
    prefixes = tuple(name[:-1] for name in names if name.endswith("*"))
    assert not [name for name in NOT_TRACKING if name.startswith(prefixes)]


def test_every_parameter_has_an_owner_a_purpose_and_a_source() -> None:
    params = data("params.toml")
    hosted = [note for names in params.pop("on").values() for note in names.values()]
    for note in [*params.values(), *hosted]:
        assert note["owner"]
        assert note["what"]
        assert note["source"].startswith("https://")
        assert set(note["lists"]) <= {"feed", "tracking"}
        assert note["lists"]


def test_tracking_parameters_are_values_that_name_their_host() -> None:
    parameters = {each.label: each for each in list_tracking_parameters()}
    assert parameters["utm_*"].host is None
    assert parameters["si (on open.spotify.com)"] == TrackingParameter(
        name="si",
        host="open.spotify.com",
        owner="Spotify",
        what="id of the share",
        source="https://github.com/zhanghai/Untracker/issues/26",
        lists=("tracking",),
    )


def test_a_name_of_the_second_list_is_on_two_maintained_lists() -> None:
    """What the second versions drop and the first ones do not was found on two lists at least."""
    first = set(canonry.policy("bookmark@1").strip_params)
    params = data("params.toml")
    second = set(canonry.policy("bookmark@2").strip_params) - first
    assert {name for name in second if len(set(params[name].get("agreed_by", ()))) < 2} == set()
    assert second >= set("fb_action_ids fb_source fb_ref fb_comment_id hsa_* mc_tc gs_l unicorn_click_id".split())


def test_every_shortener_has_an_owner_and_a_source() -> None:
    shorteners = data("shorteners.toml")
    assert set(shorteners) == SHORTENERS
    assert {"bit.ly", "bitly.com", "t.co", "tinyurl.com"} <= SHORTENERS
    for host, note in shorteners.items():
        assert canonry.normalize(f"https://{host}/") == f"https://{host}/", "a site rule understands it already"
        assert note["owner"]
        assert note["source"].startswith("https://")


def test_every_site_and_skip_has_a_source() -> None:
    for note in [*data("sites.toml").values(), *data("skip.toml").values()]:
        assert note["source"]
    assert set("pdf jpg jpeg png gif svg webp css js ico zip tar gz mp4 mov avi mp3 wav".split()) == SKIPPED_EXTENSIONS


def test_no_host_of_a_site_is_too_short_for_its_ending() -> None:
    for table in data("sites.toml").values():
        hosts = [*table.get("hosts", []), *table.get("short_hosts", []), *table.get("hosts_for_paths", [])]
        assert all(len(host) >= sites._ENDING_CHARACTERS for host in [table["target"], *hosts])


def test_a_new_version_is_written_next_to_the_old(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("data")
    (folder / "policies").mkdir()
    (folder / "sites").mkdir()
    files = [str(path.relative_to(tables.DATA)) for path in (tables.DATA / "sites").glob("*.toml")]
    for file in (*files, "policies/bookmark@2.toml", "policies/exact@1.toml", "params.toml"):
        (folder / file).write_text((tables.DATA / file).read_text(encoding="utf-8"), encoding="utf-8")
    with (folder / "params.toml").open("a", encoding="utf-8") as params:
        params.write('\n["newclid"]\nlists = ["tracking"]\n')
    monkeypatch.setattr(tables, "DATA", folder)
    bumped = tomllib.loads(tables.bump("bookmark").read_text(encoding="utf-8"))
    assert bumped["version"] == 3
    assert "newclid" in bumped["strip_params"]
    assert bumped["strip_params_on"] == dict(canonry.policy("bookmark").options()["strip_params_on"])  # type: ignore[call-overload]
    assert bumped["sites"] == list(canonry.policy("bookmark").sites)
    assert tables.bump("exact").name == "exact@2.toml"
