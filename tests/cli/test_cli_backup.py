"""contract O: `canonry backup` and `canonry restore`, as they are typed."""

from __future__ import annotations

import gzip
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import insert

import command
import terminal
from canonry.cli import backup as cli
from canonry.store.database import Database, _make_engine
from canonry.store.migrations.migrate import upgrade
from canonry.store.schema import feeds
from canonry.store.schema_versions import VERSIONS

if TYPE_CHECKING:
    import subprocess

CANONRY = str(Path(sys.executable).parent / "canonry")


def run(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if name != "CANONRY_DATABASE_URL"}
    environ |= {"XDG_DATA_HOME": str(folder / "data")} | variables
    return command.run(*arguments, cwd=folder, environment=environ)


def make(url: str, count: int = 1) -> None:
    with Database(url) as database:
        rows = [{"key_url": str(each), "url": str(each), "created_at": ""} for each in range(count)]
        database.write_now(lambda on: on.execute(insert(feeds), rows))


@pytest.mark.slow
def test_there_and_back_by_every_way_to_name_the_store(tmp_path: Path) -> None:
    make(f"sqlite:///{tmp_path}/data/canonry/canonry.db", 3)
    done = run(tmp_path, "backup", "b.gz")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"file": "b.gz", "rows": 3}
    done = run(tmp_path, "restore", "b.gz", "--db", "sqlite:///flag.db", CANONRY_DATABASE_URL="sqlite:///variable.db")
    assert json.loads(done.stdout) == {"file": "b.gz", "rows": 3}
    assert not (tmp_path / "variable.db").exists()
    done = run(tmp_path, "restore", "b.gz", "--json", CANONRY_DATABASE_URL="sqlite:///variable.db")
    assert done.returncode == 0
    (tmp_path / "canonry.toml").write_text('database_url = "sqlite:///file.db"')
    assert run(tmp_path, "restore", "b.gz").returncode == 0
    for name in ("flag.db", "variable.db", "file.db"):
        assert json.loads(run(tmp_path, "backup", "c.gz", "--db", f"sqlite:///{name}").stdout)["rows"] == 3


def test_on_a_terminal(tmp_path: Path) -> None:
    make(f"sqlite:///{tmp_path}/a.db")
    shown = terminal.run([CANONRY, "backup", "b.gz", "--db", "sqlite:///a.db"], cwd=tmp_path)
    assert shown == "1 row backed up to b.gz\n"
    shown = terminal.run([CANONRY, "restore", "b.gz", "--db", "sqlite:///c.db"], cwd=tmp_path)
    assert shown == "1 row restored from b.gz\n"


@pytest.mark.slow
def test_no_answer_is_one_line_and_exit_1(tmp_path: Path) -> None:
    make(f"sqlite:///{tmp_path}/a.db")
    run(tmp_path, "backup", "b.gz", "--db", "sqlite:///a.db")
    (tmp_path / "text").write_text("text")
    for arguments, named in (
        (("backup", "x.gz", "--db", "sqlite:///none.db"), "none.db"),
        (("backup", "text/x.gz", "--db", "sqlite:///a.db"), "text"),
        (("restore", "text", "--db", "sqlite:///new.db"), "text: not a backup of canonry"),
        (("restore", "b.gz", "--db", "sqlite:///a.db"), "--replace"),
    ):
        done = run(tmp_path, *arguments)
        assert (done.returncode, done.stdout) == (1, ""), arguments
        assert done.stderr.startswith("canonry: ")
        assert named in done.stderr
        assert done.stderr.count("\n") == 1
    for url, named in (("mysql://u:secret@h/x", "sqlite:///FILE"), ("nonsense", "nonsense")):
        done = run(tmp_path, "backup", "x.gz", "--db", url)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert named in done.stderr and "secret" not in done.stderr
    assert not (tmp_path / "new.db").exists()
    assert not (tmp_path / "x.gz").exists()
    assert run(tmp_path, "restore", "b.gz", "--db", "sqlite:///a.db", "--replace").returncode == 0
    assert run(tmp_path, "backup").returncode == 2
    assert run(tmp_path, "backup", ".").returncode == 2


@pytest.mark.slow
def test_an_old_store_is_migrated_with_a_message(tmp_path: Path) -> None:
    engine = _make_engine(f"sqlite:///{tmp_path}/old.db")
    with engine.begin() as connection:
        upgrade(connection, "0001")
    engine.dispose()
    done = run(tmp_path, "backup", "b.gz", "--db", "sqlite:///old.db")
    assert done.returncode == 0
    backup_file = rf"old\.db\.before-{VERSIONS[-1]}-\d{{8}}T\d{{6}}Z"
    assert re.fullmatch(rf"canonry: .*{backup_file}.* 0001 .* {VERSIONS[-1]}\n", done.stderr)


def test_progress_from_the_first_second_on(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with cli._Progress("backed up") as progress:
        progress.show(1, 4)
        assert capsys.readouterr().err == ""
        now += 1
        progress.show(2, 4)
        progress.show(3, 4)
        assert capsys.readouterr().err == "\r\033[K50 % backed up"
    assert capsys.readouterr().err == "\r\033[K"


@pytest.mark.parametrize("command", ["backup", "restore"])
def test_help_with_an_example(command: str, tmp_path: Path) -> None:
    assert f"canonry {command} canonry.jsonl.gz" in run(tmp_path, command, "--help").stdout


def test_a_damaged_file_creates_no_store(tmp_path: Path) -> None:
    file, store = tmp_path / "b.gz", tmp_path / "new.db"
    header = f'{{"canonry":"1","tables":"{VERSIONS[-1]}","created_at":"x"}}\n'
    file.write_bytes(gzip.compress(f'{header}{{"table":"runs","row":{{"id":"x"}}}}\n'.encode()))
    ended = run(tmp_path, "restore", "b.gz", "--db", f"sqlite:///{store}")
    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1)
    assert not store.exists()
