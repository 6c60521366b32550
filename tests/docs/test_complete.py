"""Nothing that can be used is undocumented: commands, options, settings, metrics, routes, rules, public names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click
import pytest

import canonry
import reference_tables
from canonry.cli.app import canonry as cli
from canonry.core.catalog import RULE_NOTES

if TYPE_CHECKING:
    from collections.abc import Iterator

TEXT = reference_tables.PAGE.read_text(encoding="utf-8")


def commands(group: click.Group, path: str = "canonry") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")


COMMANDS = dict(commands(cli))


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_and_option(path: str) -> None:
    help_text = re.search(rf"^\$ {path} --help\n(.*?)(?=^\$ |^```)", TEXT, re.MULTILINE | re.DOTALL)
    assert help_text, f"{path} --help is not in the reference"
    for option in COMMANDS[path].params:
        if isinstance(option, click.Option) and not option.hidden:
            assert option.help or option.name == "help", f"{path} {option.name}: what for?"
            assert option.opts[-1] in help_text[1]


@pytest.mark.parametrize("path", [path for path in COMMANDS if not isinstance(COMMANDS[path], click.Group)])
def test_every_help_has_an_example(path: str) -> None:
    assert re.search(rf"\b{path}\b", COMMANDS[path].help or "")


def test_what_is_made_from_the_code_is_up_to_date() -> None:
    """`python tests/docs/test_examples.py` writes it."""
    assert reference_tables.filled(TEXT) == TEXT


def test_every_rule() -> None:
    for note in RULE_NOTES:
        assert re.search(rf"^ *\d+ {note.rule}  ", TEXT, re.MULTILINE), note.rule


def test_every_public_name() -> None:
    for name in canonry._MODULE_OF:
        assert re.search(rf"\b{name}\b", TEXT), name
