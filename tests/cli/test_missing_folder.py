"""A command that writes a file refuses one in a folder that does not exist, before its work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from canonry.cli.group import canonry
from canonry.store.database import Database

if TYPE_CHECKING:
    from pathlib import Path

COMMANDS = [
    ("backup", "no/x.gz"),
    ("bookmarks", "export", "no/x.html"),
    ("crawl", "https://example.com/", "--out", "no/x.jsonl"),
    ("crawl", "https://example.com/", "--warc", "no/x.warc.gz"),
    ("crawls", "export", "1", "no/x.csv"),
    ("feeds", "export", "no/x.opml"),
    ("learn", "facts", "--overrides", "no/x.json"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_missing_folder_is_wrong_usage(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Database("sqlite:///x.db"):
        before = set(tmp_path.iterdir())
        done = CliRunner().invoke(canonry, command, env={"CANONRY_DATABASE_URL": "sqlite:///x.db"})
        assert (done.exit_code, "no: the folder does not exist" in done.output) == (2, True)
        assert set(tmp_path.iterdir()) == before
