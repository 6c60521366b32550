"""Files to read, and folders of files to write, that do not exist are wrong usage, before any work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from canonry.cli.group import canonry, run
from canonry.store.database import Database

if TYPE_CHECKING:
    from pathlib import Path

COMMANDS = [
    ("backup", "no/x.gz"),
    ("bulk", "given.txt", "--out", "no/x.parquet"),
    ("bulk", "given.txt", "--out", "no/x", "--partitions", "2"),
    ("bulk", "given.txt", "--out", "no/x/", "--partitions", "2"),
    ("bookmarks", "export", "no/x.html"),
    ("crawl", "https://example.com/", "--out", "no/x.jsonl"),
    ("crawl", "https://example.com/", "--warc", "no/x.warc.gz"),
    ("crawls", "export", "1", "no/x.csv"),
    ("feeds", "export", "no/x.opml"),
    ("ingest", "https://example.com/", "--jsonl", "no/x.jsonl"),
    ("learn", "facts", "--overrides", "no/x.json"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_missing_folder_is_wrong_usage(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Database("sqlite:///x.db"):
        (tmp_path / "given.txt").write_text("https://example.com/")
        before = set(tmp_path.iterdir())
        done = CliRunner().invoke(canonry, command, env={"CANONRY_DATABASE_URL": "sqlite:///x.db"})
        assert (done.exit_code, "no: the folder does not exist" in done.output) == (2, True)
        assert set(tmp_path.iterdir()) == before


READING = [
    ("bookmarks", "import", "none.html"),
    ("bulk", "none.txt", "--out", "x.parquet"),
    ("bulk", "", "--out", "x.parquet"),
    ("bulk", "given.txt", "--out", "x.parquet", "--known", "none.parquet"),
    ("bulk", "given.txt", "--out", "x.parquet", "--overrides", "none.json"),
    ("crawl", "https://example.com/", "--auth-file", "none"),
    ("crawl", "https://example.com/", "--cookie-file", "none.txt"),
    ("crawl", "https://example.com/", "--header", "@none.txt"),
    ("explain", "https://example.com/", "--overrides", "none.json"),
    ("feeds", "import", "none.opml"),
    ("ingest", "--opml", "none.opml"),
    ("learn", "none.parquet"),
    ("learn", "facts", "none.parquet"),
    ("normalize", "https://example.com/", "--overrides", "none.json"),
    ("policy", "diff", "bookmark", "crawl", "none.txt"),
    ("restore", "none.gz"),
    ("serve", "--overrides", "none.json"),
]


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_a_missing_file_is_wrong_usage(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "given.txt").write_text("https://example.com/")
    done = CliRunner().invoke(canonry, command, env={"CANONRY_DATABASE_URL": "sqlite:///x.db"})
    message = "No such file" if command[0] == "policy" else "does not exist"  # click opens the file of `policy diff`
    assert (done.exit_code, message in done.output) == (2, True)
    assert [each.name for each in tmp_path.iterdir()] == ["given.txt"]


@pytest.mark.parametrize(
    "options",
    [
        ("--memory", "much"),
        ("--partition-size", "1XB"),
        ("--partitions", "0"),
        ("--partitions", "2", "--partition-size", "1GB"),
        ("--mode", "normalize", "--group-by", "x"),
    ],
    ids=" ".join,
)
def test_wrong_options_of_bulk_are_wrong_usage(
    options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "given.txt").write_text("https://example.com/")
    monkeypatch.setattr("sys.argv", ["canonry", "bulk", "given.txt", "-o", "x.parquet", *options])
    with pytest.raises(SystemExit) as exit_:
        run()
    assert exit_.value.code == 2
    assert [each.name for each in tmp_path.iterdir()] == ["given.txt"]
