"""contract N5: which overrides a policy id with a digest uses."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import canonry
from canonry.core import configured_overrides, presets
from canonry.core.configured_overrides import DEFAULT_OVERRIDES, DIGEST_DIGITS, SETTINGS_FILE, remember_overrides
from canonry.core.native import shortcut
from canonry.core.overrides import Overrides, parse_overrides

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file is configured, and no overrides are known from another test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CANONRY_OVERRIDES", raising=False)
    monkeypatch.setattr(configured_overrides, "_remembered", {})
    monkeypatch.setattr(presets, "_WITH_OVERRIDES", {})


def make_overrides(param: str, file: str = "o.json") -> Overrides:
    text = f'{{"overrides": [{{"match": {{"host": "e.com"}}, "drop_query_params": ["{param}"]}}]}}'
    return parse_overrides(text, file)


def configure(overrides: Overrides, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(overrides.file).write_text(overrides.text)
    monkeypatch.setenv("CANONRY_OVERRIDES", overrides.file)


def make_id(overrides: Overrides, policy: str = "article@1") -> str:
    return f"{policy}+{overrides.digest[:DIGEST_DIGITS]}"


def test_an_id_with_the_digest_of_the_configured_file_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    overrides = make_overrides("a")
    configure(overrides, monkeypatch)
    named = canonry.policy(make_id(overrides))
    assert named.id == make_id(overrides)
    assert canonry.normalize("https://e.com/?a=1&b=2", named) == "https://e.com/?b=2"
    assert canonry.policy("article") is named  # checked once
    assert canonry.policy("article@1").overrides is None


def test_remembered_overrides_are_used_whatever_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    configured, remembered = make_overrides("a"), make_overrides("b", "of-a-store.json")
    configure(configured, monkeypatch)
    remember_overrides(remembered)
    assert canonry.normalize("https://e.com/?a=1&b=2", make_id(remembered)) == "https://e.com/?a=1"
    assert canonry.normalize("https://e.com/?a=1&b=2", make_id(configured)) == "https://e.com/?b=2"


def test_an_id_whose_overrides_are_unknown_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted, other = make_overrides("a"), make_overrides("b", "other.json")
    with pytest.raises(canonry.PolicyError) as without_file:
        canonry.policy(make_id(wanted))
    assert without_file.value.file != other.file
    configure(other, monkeypatch)
    with pytest.raises(canonry.PolicyError, match=other.digest[:DIGEST_DIGITS]) as with_other:
        canonry.policy(make_id(wanted))
    assert with_other.value.file == other.file


@pytest.mark.parametrize("normalize", [canonry.normalize, shortcut.normalize])
def test_a_name_means_what_is_configured_at_each_call(
    normalize: Callable[[str, str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, changed, name = "https://e.com/?a=1&b=2", "https://e.com/?b=2", "article"
    file = tmp_path / DEFAULT_OVERRIDES
    file.parent.mkdir()
    (tmp_path / "o.json").write_text(make_overrides("a").text)
    assert normalize(url, name) == url
    file.write_text(make_overrides("a").text)
    assert normalize(url, name) == changed
    monkeypatch.setenv("CANONRY_OVERRIDES", "none")
    assert normalize(url, name) == url
    monkeypatch.delenv("CANONRY_OVERRIDES")
    assert normalize(url, name) == changed
    file.unlink()
    assert normalize(url, name) == url
    (tmp_path / SETTINGS_FILE).write_text('overrides = "o.json"')
    assert normalize(url, name) == changed
    monkeypatch.chdir(file.parent)
    assert normalize(url, name) == url
    file.symlink_to("missing.json")
    monkeypatch.chdir(tmp_path)
    (tmp_path / SETTINGS_FILE).unlink()
    with pytest.raises(canonry.PolicyError):
        normalize(url, name)


def test_only_some_policies_with_overrides_are_kept() -> None:
    known = [make_overrides(f"p{number}") for number in range(presets._MAX_WITH_OVERRIDES + 1)]
    for overrides in known:
        remember_overrides(overrides)
        assert canonry.policy(make_id(overrides, "entry@1")).overrides == overrides
        assert 0 < len(presets._WITH_OVERRIDES) <= presets._MAX_WITH_OVERRIDES
    assert canonry.policy(make_id(known[0], "entry@1")).overrides == known[0]
