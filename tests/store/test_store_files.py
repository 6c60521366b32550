"""The files of a store are for their owner only (contract O)."""

from __future__ import annotations

import asyncio
import os
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import command
from canonry.atomic_files import Restriction, create_private_folder, restrict_to_owner
from canonry.errors import StoreError
from canonry.feeds.feed_store import FeedStore
from canonry.jobs.queues import Jobs
from canonry.jobs.worker import Worker
from canonry.store.backup import backup
from canonry.store.database import Database
from canonry.store.store_files import restrict_files

if TYPE_CHECKING:
    from collections.abc import Generator


@pytest.fixture(autouse=True)
def _usual_umask() -> Generator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def read_mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def use_store(url: str, *, said: list[str] | None = None) -> list[str]:
    """Write to the store and run a worker; the names of the files that exist meanwhile, with their permissions."""
    said = [] if said is None else said

    async def work() -> list[str]:
        with Database(url, say=said.append) as database, Jobs(database) as jobs:
            async with Worker(jobs, []):
                await FeedStore(database).add("https://ada:secret@e.com/feed", datetime.now(UTC))
                folder = Path(str(database.engine.url.database)).parent
                return sorted(f"{each.name} {read_mode(each):o}" for each in folder.iterdir())

    return asyncio.run(work())


FILES = [f"x.db{suffix} 600" for suffix in ("", "-shm", "-wal", ".jobs", ".jobs-lock", ".jobs-shm", ".jobs-wal")]


def test_every_file_of_a_new_store_is_private(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    said: list[str] = []
    assert use_store(f"sqlite:///{folder / 'x.db'}", said=said) == FILES
    assert (read_mode(folder), read_mode(folder.parent)) == (0o700, 0o700)
    assert said == []


def test_a_store_behind_a_link_is_private(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link.db").symlink_to(real / "x.db")
    use_store(f"sqlite:///{tmp_path / 'link.db'}")
    assert {read_mode(each) for each in real.iterdir()} == {0o600}


def test_the_files_of_an_old_store_become_private(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'x.db'}"
    use_store(url)
    (tmp_path / "x.db.before-0006-20260101T000000Z").touch()
    (tmp_path / "other").touch(0o644)
    tmp_path.chmod(0o755)
    for each in tmp_path.glob("x.db*"):
        each.chmod(0o644)
    said: list[str] = []
    use_store(url, said=said)
    assert {read_mode(each) for each in tmp_path.glob("x.db*")} == {0o600}
    assert (read_mode(tmp_path / "other"), read_mode(tmp_path)) == (0o644, 0o755)  # not ours
    assert len(said) == 1
    said.clear()
    use_store(url, said=said)
    assert said == []


def test_the_data_folder_becomes_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    folder = tmp_path / "canonry"
    folder.mkdir(0o755)
    use_store(f"sqlite:///{folder / 'canonry.db'}")
    assert read_mode(folder) == 0o700


def test_a_file_that_is_no_store_keeps_its_permissions(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("this is not a database, and long enough to be read as one\n" * 100)
    file.chmod(0o644)
    said: list[str] = []
    with pytest.raises(StoreError):
        Database(f"sqlite:///{file}", say=said.append)
    assert (read_mode(file), said) == (0o644, [])


@pytest.fixture
def _unprivileged() -> Generator[None]:
    """Root may change all permissions, so the test must not run as root."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    assert os.geteuid() != 0
    yield
    os.seteuid(before)


@pytest.mark.usefixtures("_unprivileged")
def test_permissions_of_files_of_others_cannot_be_changed() -> None:
    file = Path("/etc/passwd")
    before = read_mode(file)
    said: list[str] = []
    restrict_files(file, said.append)
    assert restrict_to_owner(file) is Restriction.FAILED
    assert (len(said), read_mode(file)) == (1, before)
    assert restrict_to_owner(Path("/nowhere/x")) is Restriction.NONE


def test_backups_are_private(tmp_path: Path) -> None:
    with Database(f"sqlite:///{tmp_path / 'x.db'}") as database:
        backup(database, tmp_path / "x.gz")
        with pytest.raises(FileNotFoundError):
            backup(database, tmp_path / "backups" / "x.gz")
    assert read_mode(tmp_path / "x.gz") == 0o600
    assert not (tmp_path / "backups").exists()


def test_a_folder_that_exists_keeps_its_permissions(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(0o755)
    create_private_folder(tmp_path / "a" / "b" / "c")
    assert [read_mode(tmp_path / path) for path in ("a", "a/b", "a/b/c")] == [0o755, 0o700, 0o700]


@pytest.mark.parametrize(("url", "mode"), [("https://ada:hunter2@e.com/feed", 0o600), ("https://e.com/feed", 0o644)])
def test_exported_passwords_are_private_and_announced(tmp_path: Path, url: str, mode: int) -> None:
    store = f"sqlite:///{tmp_path / 'x.db'}"
    with Database(store) as database:
        asyncio.run(FeedStore(database).add(url, datetime.now(UTC)))
    for file in ("feeds.opml", "-"):
        done = command.run("feeds", "export", file, "--db", store, cwd=tmp_path, environment=os.environ)
        assert done.returncode == 0
        text = done.stdout if file == "-" else (tmp_path / file).read_text()
        assert url in text
        assert bool(done.stderr) == (mode == 0o600) and "hunter2" not in done.stderr
    assert read_mode(tmp_path / "feeds.opml") == mode
