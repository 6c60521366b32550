"""`canonry learn` says what happened and what to do (contract L1)."""

from __future__ import annotations

import gzip
import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from canonry.cli.group import canonry as command
from canonry.store.database import Database
from http_server import serve_http

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

pytest.importorskip("duckdb")


def learn(*arguments: str) -> Result:
    return CliRunner().invoke(command, ["learn", *arguments])


def write_csv(path: Path, *, host: str = "https://s.example", head: str = "url,content_hash", pages: int = 40) -> str:
    rows = [f"{host}/item?kind={n}&zog={n * 3 + c},content {n}" for n in range(pages) for c in range(3)]
    path.write_text("\n".join([head, *rows]) + "\n")
    return str(path)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("rows.csv", "", "is empty"),
        ("rows.cdx", "", "is empty"),
        ("rows.jsonl", '[{"url": "https://a.example/", "content_hash": "x"}]', "has no JSON object on each line"),
        ("rows.csv", "address,hash\na,b\n", "needs a column url and a column content_hash"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_the_reason(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    done = learn(str(path))
    assert done.exit_code == 1
    assert f"{path} {message}" in str(done.exception)


def test_a_csv_file_that_is_not_utf_8_is_named_with_line_and_reason(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b"url,content_hash\nhttp://a.example/\xff,1\n")
    message = str(learn(str(path)).exception)
    assert "Line: 2" in message
    assert "not utf-8" in message
    assert "\n" not in message


def test_a_damaged_archive_is_named_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "index.cdx.gz"
    data = bytearray(gzip.compress(b"com,a)/ 20200101000000 http://a.example/ text/html 200 ABC\n" * 1000))
    data[20:40] = bytes(255 - byte for byte in data[20:40])
    path.write_bytes(data)
    assert f"{path} cannot be read" in str(learn(str(path)).exception)


def test_a_crawl_that_no_store_can_have_is_a_wrong_argument(tmp_path: Path) -> None:
    with Database(f"sqlite:///{tmp_path}/store.db"):
        pass
    for number in ("9" * 30, "9" * 10_000):
        done = learn(f"crawl:{number}", "--db", f"sqlite:///{tmp_path}/store.db")
        assert done.exit_code == 2
        assert "is not a crawl" in done.output


def test_names_of_columns_are_found_in_any_case(tmp_path: Path) -> None:
    done = learn(write_csv(tmp_path / "rows.csv", head="URL,Content_Hash"))
    assert json.loads(done.stdout)["name"] == "param:zog"


def test_a_pattern_names_archive_files_anywhere(tmp_path: Path) -> None:
    for half in (0, 1):
        lines = [
            f"x 20240101000000 {json.dumps({'url': f'https://s.example/i?n={n}&zog={n * 3 + c}', 'digest': f'{n}'})}"
            for n in range(half * 20, half * 20 + 20)
            for c in range(3)
        ]
        (tmp_path / f"{half}.cdxj").write_text("\n".join(lines))
    assert json.loads(learn(str(tmp_path / "*.cdxj")).stdout)["support"] == 40
    assert f"There is no file {tmp_path}/*.cdx." in str(learn(str(tmp_path / "*.cdx")).exception)


@pytest.mark.parametrize("arguments", [["--check", "nothing"], ["--overrides", "."]])
def test_wrong_options_are_refused_before_learning(tmp_path: Path, arguments: list[str]) -> None:
    done = learn(write_csv(tmp_path / "rows.csv"), *arguments)
    assert done.exit_code != 0
    assert "param:zog" not in done.output


def test_a_crawl_needs_a_number() -> None:
    assert "write crawl:ID" in learn("crawl:").output


def test_a_run_without_rules_prints_what_a_rule_needs(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("url,content_hash\nno url,x\n")
    assert learn(str(path)).stderr.splitlines() == [
        "canonry: 1 of 1 rows have no valid URL",
        "canonry: no rule was found in 1 row",
        "canonry: a rule needs 16 pages that were seen under several URLs each",
    ]


@pytest.mark.parametrize("columns", ["url,canonical_url", "url,canonical_url,content_hash"])
def test_declared_canonical_urls_alone_prove_nothing(tmp_path: Path, columns: str) -> None:
    path = tmp_path / "rows.csv"
    rows = [f"https://s.example/{n}?v={v},https://s.example/{n}" for n in range(40) for v in range(3)]
    end = "," if columns.endswith("content_hash") else ""
    path.write_text("\n".join([columns, *(row + end for row in rows)]))
    done = learn(str(path))
    assert not done.stdout
    assert "Add the column content_hash" in done.stderr
    assert "a rule needs" not in done.stderr


def test_verify_says_why_pages_were_not_fetched(tmp_path: Path) -> None:
    done = learn(write_csv(tmp_path / "rows.csv", host="http://127.0.0.1:8080"), "--verify", "1")
    assert json.loads(done.stdout)["reason"] == "not_confirmed"
    assert "--verify could not fetch 1 URL:" in done.stderr
    assert "127.0.0.1 is a loopback address" in done.stderr


@contextmanager
def serve_items(*, with_zog: bool) -> Generator[str]:
    """Serve pages whose content `kind` selects and, if so wanted, `zog`; yield the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = (self.path if with_zog else self.path.partition("&")[0]).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with serve_http(Handler) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.mark.parametrize("with_zog", [False, True])
def test_verify_fetches_what_a_file_names_in_allowed_networks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_zog: bool
) -> None:
    monkeypatch.setenv("CANONRY_ALLOW_NETWORKS", "127.0.0.0/8")
    monkeypatch.setenv("CANONRY_ALLOW_PORTS", "1-65535")
    with serve_items(with_zog=with_zog) as address:
        done = learn(write_csv(tmp_path / "rows.csv", host=address), "--verify", "2")
    assert done.stderr.count("could not fetch") == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[0])
    assert found["name"] == "param:zog"
    assert found.get("reason", "") == ("not_confirmed" if with_zog else "")
