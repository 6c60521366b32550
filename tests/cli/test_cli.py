"""`canonry normalize`, `explain`, `policies`, `rules`, `demo`, `config`, `completion`, run as users run them."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import terminal
from corpora import SEED_003_OVERRIDES

if TYPE_CHECKING:
    from pathlib import Path

CANONRY = [sys.executable, "-m", "canonry"]


def run(*arguments: str, given: str | bytes = "", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    data = given.encode() if isinstance(given, str) else given
    done = subprocess.run([*CANONRY, *arguments], input=data, capture_output=True, check=False, cwd=cwd)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def run_on_terminal(*arguments: str, color: bool = False) -> str:
    return terminal.run([*CANONRY, *arguments], color=color)


def test_normalize_urls() -> None:
    done = run("normalize", "HTTPS://Example.com:443/?utm_source=mail&id=1", "example.com/feed")
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        "https://example.com/?id=1\nhttps://example.com/feed\n",
        "",
    )


def test_normalize_writes_one_line_for_each_line() -> None:
    done = run("normalize", "-p", "crawl", given="https://a.com/b/\r\n\nnope\nhttps://a.com/c#d")
    assert done.stdout == "https://a.com/b\n\n\nhttps://a.com/c\n"
    assert done.returncode == 1
    second, third = done.stderr.splitlines()
    assert second.startswith("canonry: input 2: ")
    assert third.startswith("canonry: input 3: ") and third.endswith("'nope'")


def test_the_fast_path_and_the_click_command_print_the_same() -> None:
    urls = ["https://youtu.be/abc", "nope", "http://www.a.com/?fbclid=1"]
    short, long = run("normalize", *urls), run("normalize", "--policy", "bookmark", *urls)
    assert (short.returncode, short.stdout, short.stderr) == (long.returncode, long.stdout, long.stderr)


def test_normalize_hash_and_json() -> None:
    digest = hashlib.sha256(b"https://a.com/").hexdigest()
    assert run("normalize", "--hash", "https://a.com").stdout == f"https://a.com/\t{digest}\n"
    done = run("normalize", "--json", "--hash", given="https://a.com\nnope\n")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert found == [
        {"input": "https://a.com", "url": "https://a.com/", "policy": "bookmark@2", "hash": digest},
        {"input": "nope", "url": None, "policy": "bookmark@2", "reason": found[1]["reason"]},
    ]


def test_bytes_that_are_not_utf8_make_one_invalid_line() -> None:
    done = run("normalize", given=b"https://a.com/\xff\nhttps://b.com/\xc3\xa9\n\x00\n")
    assert done.stdout == "\nhttps://b.com/%C3%A9\n\n"
    assert done.returncode == 1


def test_carriage_returns_between_urls_do_not_join_them() -> None:
    done = run("normalize", given=b"https://a.com/\rhttps://b.com/\r\nhttps://c.com/\r\n")
    assert (done.returncode, done.stdout) == (1, "\nhttps://c.com/\n")
    assert "input 1: not a usable URL: a carriage return inside the line" in done.stderr


def test_a_very_long_line_makes_one_invalid_line() -> None:
    done = run("normalize", given=b"https://a.com/" + b"a" * 40_000_000 + b"\nhttps://b.com\n")
    assert done.stdout == "\nhttps://b.com/\n"
    assert "16777216 bytes" in done.stderr


def test_a_closed_pipe_is_no_error_message() -> None:
    with subprocess.Popen(
        [*CANONRY, "normalize"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdout.close()
        try:
            process.stdin.write(b"https://a.com\n" * 200_000)
            process.stdin.close()
        except BrokenPipeError:
            pass
        assert process.stderr.read() == b""
        process.wait(timeout=120)
    assert process.returncode == 1


TYPOS = [
    ("nrmalize https://a.com",               "No such command 'nrmalize' (did you mean normalize?)."),
    ("xyzzy",                                "No such command 'xyzzy'."),
    ("feeds exprt",                          "No such command 'exprt'. Did you mean 'export'?"),
    ("explain --polcy entry https://a.com",  "No such option '--polcy'. Did you mean '--policy'?"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "message"), TYPOS)
def test_a_mistyped_command_or_option_suggests_the_nearest(arguments: str, message: str) -> None:
    done = run(*arguments.split())
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, f"Error: {message}")


@pytest.mark.parametrize("arguments", ["normalize https://a.com", "normalize --json https://a.com", "policies"])
def test_a_full_disk_is_one_line(arguments: str) -> None:
    command = f"{' '.join(CANONRY)} {arguments} >/dev/full"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "canonry: [Errno 28] No space left on device\n")


EXPORTS = ["backup /dev/stdout", "bookmarks export", "bookmarks export /dev/stdout", "feeds export /dev/stdout"]


@pytest.mark.parametrize("arguments", EXPORTS)
def test_exports_to_a_closed_pipe_and_to_a_full_disk(arguments: str, sqlite_url: str) -> None:
    for to, error in (("| exec 3<&-", ""), (">/dev/full", "No space left on device\n")):
        command = f"set -o pipefail; {' '.join(CANONRY)} {arguments} --db {sqlite_url} {to}"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr[-len(error) :] if error else done.stderr) == (1, error)
        assert done.stderr.count("\n") == bool(error)


def test_a_file_that_cannot_be_written_is_named(sqlite_url: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for arguments in ("backup", "bookmarks export", "feeds export"):
        done = run(*arguments.split(), str(tmp_path / "file" / "x"), "--db", sqlite_url)
        assert (done.returncode, done.stderr) == (1, f"canonry: {tmp_path / 'file' / 'x'}: Not a directory\n")


def test_a_closed_standard_output_is_one_line() -> None:
    command = f"{' '.join(CANONRY)} normalize https://a.com >&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "canonry: standard output is closed\n")


def test_memory_does_not_grow_with_the_number_of_lines() -> None:
    """The child process has a memory limit a little above the need of a short run."""
    limit = 400 * 1024 * 1024

    def limit_memory() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    with subprocess.Popen(
        [*CANONRY, "normalize"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, preexec_fn=limit_memory
    ) as process:
        assert process.stdin
        block = b"".join(b"https://www.example.com/%d?utm_source=x&a=%d\n" % (n, n) for n in range(10_000))
        for _ in range(30):
            process.stdin.write(block)
        process.stdin.close()
        assert process.wait(timeout=300) == 0


def test_explain_in_a_pipe_writes_json_lines() -> None:
    done = run("explain", "https://youtu.be/abc?si=1", "example.com/", given="")
    first, second = (json.loads(line) for line in done.stdout.splitlines())
    assert first["url"] == "https://www.youtube.com/watch?v=abc"
    assert [step["rule"] for step in first["steps"]] == ["site_host"]
    assert second["steps"][0]["rule"] == "read_url"
    assert (first["input"], first["policy"]) == ("https://youtu.be/abc?si=1", "bookmark@2")


def test_explain_continues_after_an_invalid_url() -> None:
    done = run("explain", given="nope\nhttps://a.com\n")
    assert done.returncode == 1
    assert json.loads(done.stdout.splitlines()[0])["url"] is None
    assert json.loads(done.stdout.splitlines()[0])["reason"]
    assert json.loads(done.stdout.splitlines()[1])["url"] == "https://a.com/"


def test_explain_on_a_terminal_marks_tokens() -> None:
    shown = run_on_terminal("explain", "https://www.example.com/a?utm_source=x&b=1", "-p", "feed-aggressive")
    assert "strip_www  " in shown
    assert "https://[-www.example.com-]{+example.com+}/a?utm_source=x&b=1" in shown
    assert "https://example.com/a?[-utm_source=x&-]b=1" in shown
    assert "feed-aggressive@2  2 rules changed the URL" in shown
    assert "\x1b[" not in shown
    assert "\x1b[" in run_on_terminal("explain", "https://www.example.com/", "-p", "feed-aggressive", color=True)
    assert "canonry: input 1: " in run_on_terminal("explain", "nope")
    assert "'" not in run_on_terminal("explain", "https://a.com/\x1b[31m").partition("\n")[0]
    assert "\x1b" not in run_on_terminal("explain", "https://a.com/\x1b[31m")


def test_without_input_on_a_terminal_the_usage_is_shown() -> None:
    for command in ("normalize", "explain"):
        assert f"Usage: canonry {command}" in run_on_terminal(command)


def test_policies_and_show() -> None:
    ids = [json.loads(line)["id"] for line in run("policies").stdout.splitlines()]
    assert "bookmark@1" in ids
    assert len(ids) == 15
    shown = json.loads(run("policy", "show", "entry@1").stdout)
    assert (shown["id"], shown["strip_params"]) == ("entry@1", ["fbclid", "gclid", "ref", "source", "utm_*"])
    assert "bookmark@1" in run_on_terminal("policies")
    table = run_on_terminal("policy", "show", "bookmark@1")
    assert "on open.spotify.com" in table
    assert "youtube@1" in table


def test_rules_in_a_pipe_and_on_a_terminal() -> None:
    rows = [json.loads(line) for line in run("rules").stdout.splitlines()]
    assert [row["rule"] for row in rows if row["kind"] == "rule"][:2] == ["parse", "site_host"]
    sites = {row["site"] for row in rows if row["kind"] == "site"}
    assert sites >= {"youtube@1", "x@1", "feedburner@1", "blogger@1", "youtube@2", "wikipedia@1"}
    tables = [json.loads(line) for line in run("rules", "--sites").stdout.splitlines()]
    assert {row["site"] for row in tables} < sites
    assert all(row["hosts"] and row["source"] for row in tables)
    hosts = next(table["hosts"] for table in tables if table["site"] == "wellknown@1")
    assert {"www.theatlantic.com", "www.axios.com"} <= set(hosts)
    assert "wikipedia@1" in run_on_terminal("rules", "--sites")
    assert all(row["source"] for row in rows if row["kind"] == "param")
    shown = run_on_terminal("rules")
    assert "12 overrides" in shown
    assert "si (on open.spotify.com)" in shown


def test_policy_diff(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("diff") / "urls.txt"
    file.write_text("http://www.a.com/\nhttp://a.com/\nhttps://b.com/x#1\nhttps://b.com/x#2\nnope\n")
    done = run("policy", "diff", "bookmark", "feed-aggressive", str(file))
    found = json.loads(done.stdout)
    assert {key: found[key] for key in ("urls", "refused", "changed", "merged", "split")} == {
        "urls": 5, "refused": 1, "changed": 3, "merged": 2, "split": 0,
    }  # fmt: skip
    assert done.returncode == 1
    assert (
        json.loads(run("policy", "diff", "crawl", "bookmark", given="https://a.com/#1\nhttps://a.com/#2").stdout)[
            "split"
        ]
        == 1
    )
    shown = run_on_terminal("policy", "diff", "feed-aggressive", "bookmark", str(file), "--examples", "1")
    assert "feed-aggressive@2 → bookmark@2" in shown
    assert "split  http://a.com/ →" in shown
    assert "merged  http://a.com/ ←" in run_on_terminal("policy", "diff", "bookmark", "feed-aggressive", str(file))


@pytest.mark.slow
def test_demo() -> None:
    done = run("demo", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    stops = [json.loads(line) for line in done.stdout.splitlines()]
    results = [stop["result"] for stop in stops]
    assert results[0] == "https://www.youtube.com/watch?v=dQw4w9WgXcQ"
    assert "http://blog.example.org/feed (content_verified, 3 requests)" in results
    assert "1 bookmark" in results
    assert any(result.startswith("14 links, 3 pages") for result in results)
    assert results[-1] == "5 of 5 refused"
    [runs] = [stop["rows"] for stop in stops if stop["command"].startswith("canonry ingest")]
    assert runs == [["1", "3", "0", "1", "0", "0"], ["2", "0", "0", "4", "0", "0"]]
    assert f"1. {stops[0]['title']}" in run_on_terminal("demo")
    assert "\x1b" not in run("demo").stdout


def test_config(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("config")
    (folder / "canonry.toml").write_text(
        'user_agent = "mine/1"\nproxy = "http://me:secret@proxy:1"\nallow_ports = [443, 80]'
    )
    variables = {"CANONRY_ALLOW_NETWORKS": "10.0.0.0/8", "CANONRY_USER_AGENT": "other/2", "XDG_DATA_HOME": "/data"}
    done = subprocess.run(
        [*CANONRY, "config"], cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True, check=True
    )
    found = {each["setting"]: each for each in map(json.loads, done.stdout.splitlines())}
    values = {name: (each["value"], each["source"]) for name, each in found.items()}
    assert values["allow_networks"] == ("10.0.0.0/8", "CANONRY_ALLOW_NETWORKS")
    assert values["allow_ports"] == ("80, 443", "canonry.toml")
    assert values["user_agent"] == ("other/2", "CANONRY_USER_AGENT")
    assert values["proxy"] == ("http://***@proxy:1", "canonry.toml")
    assert values["database_url"] == ("sqlite:////data/canonry/canonry.db", "default")
    assert "CANONRY_" not in run_on_terminal("config").partition("\n")[0]


def test_completion() -> None:
    for shell in ("bash", "zsh", "fish"):
        assert "_CANONRY_COMPLETE" in run("completion", shell).stdout
    environment = {
        **os.environ,
        "_CANONRY_COMPLETE": "bash_complete",
        "COMP_WORDS": "canonry normalize --policy feed-",
        "COMP_CWORD": "3",
    }
    done = subprocess.run(CANONRY, env=environment, capture_output=True, text=True, check=False)
    assert "plain,feed-aggressive" in done.stdout


def test_overrides_from_the_option_and_from_the_default_file(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("overrides")
    (folder / "o.json").write_text(SEED_003_OVERRIDES)
    url = "https://example.com/amp/x?src=1"
    done = run("normalize", "--overrides", "o.json", url, cwd=folder)
    assert (done.stdout, done.stderr) == ("https://example.com/x\n", "")
    assert run("normalize", "-p", "article", url, cwd=folder).stdout == "https://example.com/amp/x?src=1\n"
    (folder / "config").mkdir()
    (folder / "config" / "url_normalization_overrides.v0.json").write_text(SEED_003_OVERRIDES)
    done = run("normalize", "-p", "article", url, cwd=folder)
    assert done.stdout == "https://example.com/x\n"
    assert "config/url_normalization_overrides.v0.json" in done.stderr and "article@1+" in done.stderr


def test_the_option_none_turns_the_default_overrides_file_off(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "url_normalization_overrides.v0.json").write_text(SEED_003_OVERRIDES)
    url = "https://example.com/amp/x?src=1"
    done = run("normalize", "-p", "article", "--overrides", "none", url, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{url}\n", "")
    assert json.loads(run("explain", "-p", "article", "--overrides", "none", url, cwd=tmp_path).stdout)["steps"] == []


def test_an_error_is_one_line_and_exit_code_1(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("errors")
    (folder / "bad.toml").write_text("name = 'p'\nversion = 1\nstrip_wwww = true\n")
    for arguments, line in (
        (("normalize", "-p", "nope", "https://a.com"), "canonry: "),
        (("normalize", "-p", "bad.toml", "https://a.com"), "canonry: bad.toml: strip_wwww: "),
        (("normalize", "-p", "none.toml", "https://a.com"), "canonry: none.toml: "),
        (("policy", "show", "crawl", "--overrides", "bad.toml"), "canonry: bad.toml: line 1 column 1: "),
    ):
        done = run(*arguments, cwd=folder)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(line)
        assert done.stderr.count("\n") == 1
    assert run("normalize", "--nope").returncode == 2
    assert run("nope").returncode == 2
    assert "Traceback" in run("--debug", "policy", "show", "nope").stderr


def test_version() -> None:
    import canonry

    printed = run("--version").stdout
    assert printed in {f"canonry, version {canonry.__version__} ({core} core)\n" for core in ("native", "pure Python")}
