"""Contract O: the licences of all dependencies fit MIT; LGPL and MPL packages are unmodified and named in NOTICE."""

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
EXTRAS = {
    "feeds",
    "crawl",
    "serve",
    "bulk",
    "spark",
    "mcp",
    "all",
}  # the extras for users; the others are for development


def find_packages() -> dict[str, Distribution]:
    """Return every dependency of canonry with all extras, as far as it is installed here."""
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


def read_licence(package: Distribution) -> str:
    """Return the licence texts in the metadata of a package."""
    metadata: Any = package.metadata
    classifiers = [line for line in metadata.get_all("Classifier") or () if line.startswith("License ::")]
    expression = metadata.get("License-Expression") or ""
    return str("; ".join(filter(None, [expression, *classifiers])) or (metadata.get("License") or "").strip()[:200])


PACKAGES = find_packages()


@pytest.mark.parametrize("name", sorted(PACKAGES))
def test_the_licence_of_a_dependency_fits(name: str) -> None:
    licence = read_licence(PACKAGES[name])
    assert licence, "the metadata names no licence"
    # Where there is a choice ("A OR B"), one that fits is enough.
    choices = [choice for choice in re.split(r"\s+OR\s+", licence) if not is_copyleft(choice)]
    assert choices, f"{licence}: not allowed"
    if re.search(r"LGPL|Lesser General|MPL|Mozilla", licence):
        assert re.search(rf"\b{re.escape(name)}\b", NOTICE, re.IGNORECASE), f"{licence}: name the package in NOTICE"


def is_copyleft(licence: str) -> bool:
    """Whether it is the GPL or AGPL, not the LGPL."""
    return bool(re.search(r"(?<!L)\bA?GPL|\b(?<!Lesser )General Public|Affero", licence.replace("LGPL", "")))


@pytest.mark.parametrize(
    ("licence", "wanted"),
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
def test_copyleft_licences_are_recognised(licence: str, wanted: bool) -> None:
    assert is_copyleft(licence) is wanted


def test_the_main_dependencies_are_found() -> None:
    assert {"ada-url", "aiohttp", "click", "fastapi", "sqlalchemy"} <= set(PACKAGES)
