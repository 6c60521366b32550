"""contract N5: one overrides setting, and the same answer under every name of a policy on every surface."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import pickle
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select

import canonry
import command
from canonry.bulk import arrow
from canonry.bulk.functions import register_sqlite
from canonry.core.keys import Item
from canonry.core.native import shortcut
from canonry.core.presets import get_newest
from canonry.errors import PolicyError
from canonry.feeds.feed_store import FeedStore
from canonry.feeds.feed_values import FeedDocument
from canonry.integrations.sqlalchemy import CanonicalUrl
from canonry.server.service import ServiceOptions
from canonry.store.database import Database
from canonry.store.pinned_policies import ENTRY, get_policy
from canonry.store.schema import entries, entry_identities
from service import serving, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DEFAULT_PLACE = "config/url_normalization_overrides.v0.json"
URL = "https://example.com/amp/story?src=rss&id=1"
PLAIN = "https://example.com/amp/story?id=1&src=rss"  # under article: sorted, nothing dropped
NEWEST, ENTRY_ID = get_newest("article").id, get_newest("entry").id
CHANGED = "https://example.com/story?id=1"
NOW = datetime(2026, 1, 31, tzinfo=UTC)


def make_overrides(*dropped: str) -> str:
    rewrite = {"from_prefix": "https://example.com/amp/", "to_prefix": "https://example.com/"}
    override = {"match": {"host": "example.com"}, "drop_query_params": dropped, "rewrite_rules": [rewrite]}
    return json.dumps({"overrides": [override]})


OVERRIDES = make_overrides("src")
ID = f"{NEWEST}+{hashlib.sha256(OVERRIDES.encode()).hexdigest()[:8]}"
OTHER_ID = f"{NEWEST}+{hashlib.sha256(make_overrides('src', 'id').encode()).hexdigest()[:8]}"
MALFORMED = '{"overrides": [{"match": {"host": "example.com"}, "drop": []}]}'


def write_default_place(folder: Path, text: str) -> None:
    (folder / "config").mkdir(exist_ok=True)
    (folder / DEFAULT_PLACE).write_text(text)


def write_settings_file(folder: Path, text: str) -> None:
    (folder / "mine.json").write_text(text)
    (folder / "canonry.toml").write_text('overrides = "mine.json"\n')


def set_variable(folder: Path, text: str) -> None:
    (folder / "mine.json").write_text(text)
    os.environ["CANONRY_OVERRIDES"] = str(folder / "mine.json")


WAYS: dict[str, Callable[[Path, str], None]] = {
    "default place": write_default_place,
    "canonry.toml": write_settings_file,
    "variable": set_variable,
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CANONRY_OVERRIDES", "")  # restored after the test
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return command.run(*arguments, cwd=folder, environment=os.environ)


def ask_cli(policy: str, folder: Path) -> tuple[str, str]:
    answer = json.loads(run("normalize", "--json", "-p", policy, URL, folder=folder).stdout)
    explained = json.loads(run("explain", "--json", "-p", policy, URL, folder=folder).stdout)
    assert (explained["url"], explained["policy"]) == (answer["url"], answer["policy"])
    return answer["url"], answer["policy"]


def ask_python(policy: str, _: Path) -> tuple[str, str]:
    normalized = canonry.normalize(URL, policy)
    assert canonry.normalize_many([URL], policy) == [normalized] == [shortcut.normalize(URL, policy)]
    assert canonry.canonical_hash(URL, policy) == hashlib.sha256(normalized.encode()).hexdigest()
    explanation = canonry.explain(URL, policy)
    assert (explanation.url, explanation.policy) == (normalized, canonry.policy(policy).id)
    return normalized, explanation.policy


def ask_http(policy: str, folder: Path) -> tuple[str, str]:
    with serving(f"sqlite:///{folder / 'http.db'}", ServiceOptions(runs_jobs=False)) as service:
        answer = service.ask("POST", "/api/normalize", {"url": URL, "policy": policy}).json()
        assert service.get(f"/api/policies/{policy.replace('+', '%2B')}").json()["id"] == answer["policy"]
    return answer["url"], answer["policy"]


def ask_bulk(policy: str, folder: Path) -> tuple[str, str]:
    import pyarrow.parquet as parquet  # pyright: ignore[reportMissingTypeStubs]

    (folder / "urls.txt").write_text(f"{URL}\n")
    done = run("bulk", "urls.txt", "-o", "out.parquet", "-p", policy, "--json", "--overwrite", folder=folder)
    table: Any = parquet.read_table(folder / "out.parquet").to_pydict()  # pyright: ignore[reportUnknownMemberType]
    return table["url"][0], json.loads(done.stdout)["policy"]


def ask_arrow(policy: str, _: Path) -> tuple[str, str]:
    import pyarrow as pa  # pyright: ignore[reportMissingTypeStubs]

    column: Any = arrow.normalize(pa.array([URL]), policy)  # pyright: ignore[reportUnknownMemberType]
    return column.to_pylist()[0], canonry.policy(policy).id


def ask_sql(policy: str, _: Path) -> tuple[str, str]:
    with closing(sqlite3.connect(":memory:")) as connection:
        register_sqlite(connection)
        return connection.execute("SELECT url_normalize(?, ?)", (URL, policy)).fetchone()[0], canonry.policy(policy).id


def ask_sqlalchemy(policy: str, _: Path) -> tuple[str, str]:
    column = CanonicalUrl(policy)
    return column.process_bind_param(URL, None), column.policy.id  # type: ignore[return-value,arg-type]


SURFACES: dict[str, Callable[[str, Path], tuple[str, str]]] = {
    "cli": ask_cli,
    "python": ask_python,
    "http": ask_http,
    "bulk": ask_bulk,
    "arrow": ask_arrow,
    "sql": ask_sql,
    "sqlalchemy": ask_sqlalchemy,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("surface", SURFACES)
def test_every_surface_uses_the_setting_for_the_name_only(surface: str, way: str, folder: Path) -> None:
    ask = SURFACES[surface]
    assert ask("article", folder) == (PLAIN, NEWEST), "no file yet"
    WAYS[way](folder, OVERRIDES)
    assert ask("article", folder) == (CHANGED, ID)
    assert ask(ID, folder) == (CHANGED, ID)
    assert ask("article@0", folder) == (PLAIN, "article@0")
    assert ask("bookmark", folder)[0] == PLAIN


def refuse_cli(policy: str, folder: Path) -> str:
    return run("normalize", "-p", policy, URL, folder=folder).stderr


def refuse_python(policy: str, _: Path) -> str:
    with pytest.raises(PolicyError) as caught:
        canonry.normalize(URL, policy)
    return str(caught.value)


def refuse_http(policy: str, folder: Path) -> str:
    with serving(f"sqlite:///{folder / 'http.db'}", ServiceOptions(runs_jobs=False)) as service:
        answer = service.ask("POST", "/api/normalize", {"url": URL, "policy": policy})
    assert (answer.status, str(folder) in answer.text) == (400, False)
    return str(answer.json()["detail"])


def refuse_bulk(policy: str, folder: Path) -> str:
    (folder / "urls.txt").write_text(f"{URL}\n")
    return run("bulk", "urls.txt", "-o", "out.parquet", "-p", policy, folder=folder).stderr


def refuse_worker(_: str, folder: Path) -> str:
    return run("worker", "--db", f"sqlite:///{folder / 'worker.db'}", folder=folder).stderr


def refuse_serve(_: str, folder: Path) -> str:
    return run("serve", "--db", f"sqlite:///{folder / 'serve.db'}", folder=folder).stderr


REFUSALS: dict[str, Callable[[str, Path], str]] = {
    "cli": refuse_cli,
    "python": refuse_python,
    "http": refuse_http,
    "bulk": refuse_bulk,
    "worker": refuse_worker,
    "serve": refuse_serve,
}


@pytest.mark.parametrize("surface", REFUSALS)
def test_a_malformed_file_is_refused_as_a_whole_with_file_position_and_reason(surface: str, folder: Path) -> None:
    write_default_place(folder, MALFORMED)
    said = REFUSALS[surface]("article", folder)
    for part in (os.path.basename(DEFAULT_PLACE), "overrides[0]", "'drop'"):
        assert part in said


@pytest.mark.parametrize("surface", ["cli", "python", "http", "bulk"])
@pytest.mark.parametrize("is_configured", [False, True])
def test_an_id_with_the_digest_of_another_file_is_refused(surface: str, folder: Path, *, is_configured: bool) -> None:
    if is_configured:
        write_default_place(folder, OVERRIDES)
    said = REFUSALS[surface](OTHER_ID, folder)
    assert OTHER_ID in said
    assert (ID.partition("+")[2] in said) is is_configured


def test_a_file_that_changes_is_read_again_and_a_policy_object_keeps_its_own(folder: Path) -> None:
    write_default_place(folder, OVERRIDES)
    before = canonry.policy("article")
    write_default_place(folder, make_overrides("src", "id"))
    assert canonry.policy("article").id == OTHER_ID
    assert canonry.normalize(URL, "article") == "https://example.com/story"
    assert canonry.normalize(URL, before) == canonry.normalize(URL, pickle.loads(pickle.dumps(before))) == CHANGED
    os.remove(folder / DEFAULT_PLACE)
    assert canonry.normalize(URL, "article") == PLAIN


def test_an_edit_that_keeps_time_and_size_of_the_file_is_seen(folder: Path) -> None:
    for dropped, wanted in (("src", CHANGED), ("xyz", "https://example.com/story?id=1&src=rss"), ("src", CHANGED)):
        write_default_place(folder, make_overrides(dropped))
        assert canonry.normalize(URL, "article") == wanted


def test_canonry_config_shows_the_file_that_is_used(folder: Path) -> None:
    write_default_place(folder, OVERRIDES)
    settings = map(json.loads, run("config", "--json", folder=folder).stdout.splitlines())
    assert {each["setting"]: each["value"] for each in settings}["overrides"] == DEFAULT_PLACE


def test_a_flag_wins_over_the_variable_and_the_variable_over_the_file(folder: Path) -> None:
    (folder / "flag.json").write_text(make_overrides("src", "id"))
    write_settings_file(folder, make_overrides())
    write_default_place(folder, MALFORMED)
    assert run("normalize", "-p", "article", URL, folder=folder).stdout == "https://example.com/story?id=1&src=rss\n"
    set_variable(folder, OVERRIDES)
    assert run("normalize", "-p", "article", URL, folder=folder).stdout == f"{CHANGED}\n"
    flag = run("normalize", "-p", "article", "--overrides", "flag.json", URL, folder=folder)
    assert flag.stdout == "https://example.com/story\n"
    os.environ["CANONRY_OVERRIDES"] = "none"
    assert run("normalize", "-p", "article", URL, folder=folder).stdout == f"{PLAIN}\n"


def test_a_configured_file_that_is_missing_is_an_error_not_an_answer(folder: Path) -> None:
    os.environ["CANONRY_OVERRIDES"] = "missing.json"
    assert "missing.json" in refuse_python("article", folder)
    assert canonry.normalize(URL, "article@0") == PLAIN


# fmt: off
FLAGS = [
    # policy       exit code   id or what is said
    ("article",    0,          ID),
    (ID,           0,          ID),
    ("bookmark@1", 0,          "bookmark@1+"),
    (NEWEST,       0,          ID),
    ("article@0",  0,          "article@0+"),
    (OTHER_ID,     1,          ID),
]
# fmt: on


@pytest.mark.parametrize(("policy", "code", "shown"), FLAGS)
def test_a_flag_beside_an_id_must_agree_with_its_digest(policy: str, code: int, shown: str, folder: Path) -> None:
    (folder / "o.json").write_text(OVERRIDES)
    done = run("normalize", "--json", "-p", policy, "--overrides", "o.json", URL, folder=folder)
    assert done.returncode == code
    assert shown in (done.stderr if code else json.loads(done.stdout)["policy"])


# --- Stores: the text of the overrides is stored with the keys --------------------------------------------------------


@pytest.fixture
def store(database_url: str) -> str:
    async def fill(database: Database) -> None:
        feeds = FeedStore(database)
        feed, _ = await feeds.add("https://example.com/feed", NOW)
        items = (Item(guid="1", link=URL, title="1"),)
        await feeds.merge(feed.id, FeedDocument("A", "rss20", (), items), NOW, seen_ttl_days=30)

    with Database(database_url) as database:
        asyncio.run(fill(database))
    return database_url


def read_keys(url: str) -> tuple[str, str, set[str]]:
    """Return the pinned policy, the key of the only entry, and the policies of its URL keys."""
    query = select(entry_identities.c.policy).where(entry_identities.c.key_type == "canonical_url")
    with Database(url) as database:
        return database.read_now(
            lambda on: (
                get_policy(on, ENTRY),
                on.execute(select(entries.c.canonical_url)).scalar_one(),
                set(on.execute(query).scalars()),
            )
        )


def test_a_rekey_pins_the_file_by_its_digest_and_can_be_undone_after_the_file_changed(store: str, folder: Path) -> None:
    before = read_keys(store)
    write_default_place(folder, OVERRIDES)
    done = run("rekey", ENTRY_ID, "article", "--db", store, "--json", folder=folder)
    assert (done.returncode, json.loads(done.stdout)["after"]) == (0, ID)
    assert read_keys(store) == (ID, CHANGED, {ID})
    write_default_place(folder, make_overrides("src", "id"))
    done = run("rekey", ID, "article", "--db", store, "--json", folder=folder)
    assert (done.returncode, json.loads(done.stdout)["after"]) == (0, OTHER_ID)
    assert read_keys(store) == (OTHER_ID, "https://example.com/story", {OTHER_ID})
    os.remove(folder / DEFAULT_PLACE)
    assert run("rekey", ID, OTHER_ID, "--db", store, "--undo", folder=folder).returncode == 0
    assert run("rekey", ENTRY_ID, ID, "--db", store, "--undo", folder=folder).returncode == 0
    assert read_keys(store) == before


def test_a_worker_makes_the_keys_of_the_command_that_queued_it(store: str, folder: Path) -> None:
    """The worker runs in a folder with another file, which must not matter."""
    write_default_place(folder, OVERRIDES)
    assert run("rekey", ENTRY_ID, "article", "--db", store, "--workers", folder=folder).returncode == 0
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    write_default_place(elsewhere, make_overrides("src", "id"))
    worker = [sys.executable, "-m", "canonry", "worker", "--db", store]
    with subprocess.Popen(worker, stderr=subprocess.DEVNULL, cwd=elsewhere) as process:
        try:
            until(lambda: read_keys(store)[0] == ID, seconds=120)
        finally:
            process.terminate()
    assert read_keys(store) == (ID, CHANGED, {ID})


def test_bookmarks_are_saved_under_the_digest_after_a_rekey(folder: Path) -> None:
    write_default_place(folder, OVERRIDES)
    with serving(f"sqlite:///{folder / 'http.db'}") as service:
        service.put(URL)
        run_id = service.ask("POST", "/api/admin/renormalizations", {"policy": "article"}).json()["id"]
        until(lambda: service.get(f"/api/admin/renormalizations/{run_id}").json()["finished_at"] is not None)
        os.remove(folder / DEFAULT_PLACE)
        saved = service.put(f"{URL}&n=2").json()
        assert (saved["url"], saved["policy"]) == (f"{CHANGED}&n=2", ID)
        [first] = service.get(f"/api/bookmarks?url={CHANGED.replace('&', '%26')}").json()
        assert (first["url"], first["policy"]) == (CHANGED, ID)
