"""Check that every command, option and public name is documented, and that the reference is up to date."""

from __future__ import annotations

import re

import click
import pytest

import canonry
from canonry.cli.group import canonry as cli
from docs import reference_pages

COMMANDS = dict(reference_pages.find_commands(cli))


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return reference_pages.make_pages()


@pytest.mark.parametrize("page", ["cli.md", "http.md", "python.md", "settings.md", "metrics.md", "rules.md"])
def test_the_reference_is_up_to_date(pages: dict[str, str], page: str) -> None:
    """`make reference` writes the pages."""
    assert (reference_pages.FOLDER / page).read_text(encoding="utf-8") == pages[page]


def test_the_reference_has_no_other_page(pages: dict[str, str]) -> None:
    assert {path.name for path in reference_pages.FOLDER.glob("*.md")} == {*pages, "index.md"}


@pytest.mark.parametrize("path", COMMANDS)
def test_every_option_has_a_help_text(path: str) -> None:
    options = [each for each in COMMANDS[path].params if isinstance(each, click.Option) and not each.hidden]
    assert not [option.name for option in options if not option.help and option.name != "help"]


@pytest.mark.parametrize("path", [path for path in COMMANDS if not isinstance(COMMANDS[path], click.Group)])
def test_every_help_text_has_an_example(path: str) -> None:
    assert re.search(rf"\b{path}\b", COMMANDS[path].help or "")


def test_every_public_name_has_an_entry_in_the_python_reference() -> None:
    listed = {name for names in reference_pages.TOPICS.values() for name in names}
    assert listed == set(canonry._MODULE_OF)


@pytest.mark.parametrize("name", sorted(canonry._MODULE_OF))
def test_every_public_name_has_a_docstring(name: str) -> None:
    assert getattr(canonry, name).__doc__
