"""contract O: what canonry installs is under licences that fit MIT; LGPL and MPL only unmodified and named in NOTICE."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from importlib.metadata import Distribution

NOTICE = (Path(__file__).parent.parent / "NOTICE").read_text()
EXTRAS = {"feeds", "crawl", "serve", "bulk", "spark", "mcp", "all"}  # those for users; the others are for us


def installed() -> dict[str, Distribution]:
    """Every package that canonry with all its extras brings, as far as it is installed here."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [("canonry", extra) for extra in ("", *EXTRAS)]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            continue  # an extra that is not installed, or a package for another system
        for text in found[name].requires or ():
            wanted = Requirement(text)
            if wanted.marker is None or wanted.marker.evaluate({"extra": extra}):
                waiting += [(canonicalize_name(wanted.name), more) for more in ("", *wanted.extras)]
    return found


def licence(package: Distribution) -> str:
    """All that the metadata says of it."""
    told: Any = package.metadata
    classifiers = [line for line in told.get_all("Classifier") or () if line.startswith("License ::")]
    expression = told.get("License-Expression") or ""
    return str("; ".join(filter(None, [expression, *classifiers])) or (told.get("License") or "").strip()[:200])


PACKAGES = installed()


@pytest.mark.parametrize("name", sorted(PACKAGES))
def test_a_licence_that_fits(name: str) -> None:
    said = licence(PACKAGES[name])
    assert said, "no licence named"
    # Where there is a choice ("A OR B"), one that fits is enough.
    choices = [choice for choice in re.split(r"\s+OR\s+", said) if not is_copyleft(choice)]
    assert choices, f"{said}: never"
    if re.search(r"LGPL|Lesser General|MPL|Mozilla", said):
        assert re.search(rf"\b{re.escape(name)}\b", NOTICE, re.IGNORECASE), f"{said}: name it in NOTICE"


def is_copyleft(licence: str) -> bool:
    """Is it the GPL or the AGPL, not the Lesser one?"""
    return bool(re.search(r"(?<!L)\bA?GPL|\b(?<!Lesser )General Public|Affero", licence.replace("LGPL", "")))


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("GPL-3.0-or-later", True),
        ("AGPL-3.0", True),
        ("License :: OSI Approved :: GNU General Public License v3 (GPLv3)", True),
        ("GNU Affero General Public License v3", True),
        ("LGPL-3.0-only", False),
        ("License :: OSI Approved :: GNU Lesser General Public License v3 (LGPLv3)", False),
        ("MPL-2.0", False),
        ("MIT", False),
    ],
)
def test_what_is_copyleft(said: str, wanted: bool) -> None:
    assert is_copyleft(said) is wanted


def test_the_walk_finds_what_is_there() -> None:
    assert {"ada-url", "aiohttp", "click", "fastapi", "sqlalchemy"} <= set(PACKAGES)
