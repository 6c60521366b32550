"""The core is pure: it imports no I/O, does none, and importing canonry costs next to nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import canonry

CORE = Path(canonry.__file__).parent / "core"
ALLOWED = {
    "__future__", "ada_url", "binascii", "canonry", "collections", "dataclasses", "difflib", "enum", "functools", "graphlib",
    "hashlib", "json", "re", "tomllib", "typing",
}  # fmt: skip


@pytest.mark.parametrize("module", sorted(CORE.rglob("*.py")), ids=lambda path: path.name)
def test_a_core_module_imports_nothing_that_does_io(module: Path) -> None:
    imported: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])
            if node.module and node.module.startswith("canonry."):
                assert node.module.split(".")[1] in ("core", "url_errors")
    assert imported <= ALLOWED


def run_and_expect_success(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_core_opens_nothing() -> None:
    run_and_expect_success("""
import sys, ada_url
import canonry
import hashlib
from canonry.core import overrides
from canonry.core import rewrite_cycles, site_pages
from canonry.feeds import content
from canonry.core import policy_diff as diff
from canonry.core import policy_toml
names = [getattr(canonry, name) for name in dir(canonry) if not name.startswith("_")]
seen = []
sys.addaudithook(lambda event, _: seen.append(event))
for policy in canonry.policies():
    canonry.normalize("HTTPS://m.youtube.com/shorts/abc?utm_x=1#a", policy)
    canonry.explain("HTTPS://bücher.de/%7e?b&a", policy)
canonry.policy("article@0").with_overrides('{"overrides": [{"match": {"host": "a.com"}}]}')
policy_toml.parse_policy('name = "p"\\nversion = 1')
canonry.canonical_hash("https://a.com/"); canonry.variants("https://www.a.com/"); canonry.read_url("a.com")
canonry.identity_keys({"guid": "1"}, "https://a.com/"); canonry.content_hash({}); canonry.judge_link("b", "https://a.com/", "https://a.com/")
canonry.feed_signature("t", [{}], "https://a.com/"); diff.diff_policies("crawl", "entry", ["https://a.com/"])
forbidden = [event for event in seen if event.split(".")[0] in ("open", "os", "socket", "subprocess", "urllib", "import", "time")]
assert not forbidden, forbidden
""")


def test_importing_canonry_imports_nothing_else() -> None:
    code = "import sys; before = set(sys.modules); import canonry; print(*sorted(set(sys.modules) - before))"
    assert run_and_expect_success(code).split() == ["__future__", "canonry"]


def test_normalizing_a_plain_url_loads_nothing_heavy() -> None:
    code = "import sys, canonry; canonry.normalize('https://www.a.com/?b=1'); print(*sys.modules)"
    assert not {
        "ada_url",
        "canonry.core.policy_checks",
        "canonry.errors",
        "dataclasses",
        "difflib",
        "typing",
        "json",
        "tomllib",
        "click",
    } & set(run_and_expect_success(code).split())
