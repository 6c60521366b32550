"""The C code, the reference, the shortcut, lists and Arrow columns give equal answers, under every policy."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import inspect
import json
import os
import pickle
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from benchmarks.corpus import make_dirty_urls
from benchmarks.site_corpus import make_site_urls

import canonry
import corpora
import fuzz_native
from canonry.core import native as fast
from canonry.core import normalize as reference
from canonry.core.native import shortcut
from canonry.core.native.policy_tables import make_tables
from canonry.core.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Callable

NO_CORE = "the native core is not built (Debian: apt-get install gcc python3-dev), or CANONRY_PURE is set"


def needs_native(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test that needs the C code; the coverage run, which measures the reference, leaves it out."""
    marked: Callable[..., None] = pytest.mark.native(pytest.mark.skipif(fast.CORE != "native", reason=NO_CORE)(test))
    return marked


POLICIES = fuzz_native.all_policies()
EDGES = [
    "", "h", "http://", "https://", "http://a", "https://a", "HTTP://A", "https:///a", "https://a:", "https://a:0/",
    "https://a:1/", "https://a:80/", "http://a:80", "http://a:080/", "https://a:443?b", "https://a:65535/",
    "https://a:65536/", "https://a:99999/", "https://a:123456/", "https://a.1/", "https://a.0x1/", "https://1.a/",
    "https://a..b/", "https://.a/", "https://a./", "https://a-/", "https://xn--a/", "https://XN--LS8H.la/", "https://a--b.c/",
    'https://"a.b/', "https://a'b`c{d}~e!$&()*+,;=/", "https://a|b/", "https://a%62/", "https://a^b/", "https://a\\b",
    "https://a\\@b/", "https://a/\\..\\b", "https:\\\\a/", "https://www.com/", "https://www.www.com", "https://www.www/",
    "https://www./", "https://WWW.wWw.A.b/", "https://a?", "https://a#", "https://a?#", "https://a/?&", "https://a/?&&",
    "https://a/?a&", "https://a/?utm_a&", "https://a/?&utm_a", "https://a/?utm_a&utm_b#", "https://a/?=b&=a&", "https://a/?b=&b&b=1",
    "https://a/?a!=1&a=1", "https://a/?a=2&a=1&a", "https://a/?%75tm_x=1&u%74M_y", "https://a/?utm%5fx=1&utm%5x", "https://a/?%",
    "https://a/%", "https://a/%4", "https://a/%41%7e%2f%C3%a9", "https://a/%%34%31", "https://a//b//", "https://a////",
    "https://a/.", "https://a/..", "https://a/./", "https://a/../..", "https://a/b/..", "https://a/b/../", "https://a//../b",
    "https://a/%2e/b", "https://a/%2E%2e", "https://a/.%2e/b", "https://a/...", "https://a/.well-known/b", "https://a/b/.c?d#e",
    "https://a/é", "https://a/?é#é", "https://é/", "https://a/\ud800", "https://a/ b", "https://a/b ", " https://a/b", "https://a/\t",
    "https://a/'?'#'", "https://a/`?`#`", "https://a/^{}?^{}#^{}", "https://a/\x7f", "https://a/\x00", "https://a/#!x:~:y", "https://a/#/:~:",
    "https://a/#:~:x", "https://a/#x", "https://a/#a#b?c", "https://x.com/u/status/1?s=2", "https://www.x.com", "https://ax.com/",
    "https://b.blogspot.de/", "https://blogspot.de/", "https://www.youtube.com/watch?v=1", "https://open.spotify.com/?si=1&b&a",
    "https://example.com/amp/a?src=1", "https://www.example.com/?v=1&b=2", "https://localhost/?q=1&r", "https://u@a/", "https://u:p@a/",
    *("https://" + "a" * count + ".com/" for count in (40, 50, 51, 52, 53, 60, 300)),
    *("https://a.com/" + "b" * count for count in range(70)),
    *("https://a.com/?" + "b" * count + "#c" for count in (30, 60, 2030, 2031, 2032, 2033, 2048, 5000)),
    *("https://a.com/" + "b" * count + end for count in (47, 48, 49, 111, 112, 113) for end in ("/", "//c", "/./c", "/%2e", "?b&a", "#/")),
    *("https://a.com/?" + "&".join(f"p{number}" for number in range(count)) for count in (63, 64, 65, 200)),
    "https://a.com/" + "é" * 1000,
]  # fmt: skip


@functools.cache
def case_texts() -> list[str]:
    """Return every quoted text in the case tables."""
    texts: set[str] = set()
    for path in (Path(__file__).parent.parent / "cases").rglob("*.json"):
        for quoted in re.findall(r'"(?:[^"\\]|\\.)*"', path.read_text(encoding="utf-8-sig", errors="replace")):
            with contextlib.suppress(ValueError):
                texts.add(json.loads(quoted))
    assert len(texts) > 500
    return sorted(texts)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.id)
def test_the_shortcut_agrees_with_the_reference(policy: Policy) -> None:
    for url in [*EDGES, *case_texts(), *corpora.get_real_or_generated_urls()[::7], *make_dirty_urls(1_000)]:
        wanted = fuzz_native.answer(reference.normalize, url, policy)
        assert fuzz_native.answer(shortcut.normalize, url, policy) == wanted


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.id)
def test_the_shortcut_agrees_on_pages_of_sites(policy: Policy) -> None:
    for url in make_site_urls(1_000, seed=2):
        address = url.partition("#")[0].partition("?")[0]
        for each in (url, address, f"{address}/", f"{address}?b=1&a=2&utm_source=x"):
            wanted = fuzz_native.answer(reference.normalize, each, policy)
            assert fuzz_native.answer(shortcut.normalize, each, policy) == wanted


@needs_native
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.id)
def test_the_c_code_agrees_with_the_reference(policy: Policy) -> None:
    urls = [*EDGES, *case_texts(), *make_dirty_urls(1_000), *corpora.get_real_or_generated_urls()[::20]]
    assert fuzz_native.differences(urls, policy) == []


@needs_native
@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.id)
def test_the_c_code_agrees_on_all_real_urls(policy: Policy) -> None:
    assert fuzz_native.differences([*corpora.get_real_or_generated_urls(), *make_dirty_urls(5_000)], policy) == []


@needs_native
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_c_code_agrees_on_random_inputs(seed: int) -> None:
    choose = random.Random(seed)
    for number in range(100):
        urls = list(fuzz_native.inputs(choose, 600))
        assert fuzz_native.differences(urls, choose.choice(POLICIES), [fuzz_native.LAYOUTS[number % 3]]) == []


@needs_native
def test_the_c_code_answers_most_real_urls_itself() -> None:
    from canonry.core.native._fast import is_simple

    urls = corpora.get_real_or_generated_urls()
    share = 0.98 if corpora.has_real_urls() else 0.95  # the generated ones are dirtier
    for policy in POLICIES:
        assert sum(is_simple(url, policy) for url in urls) >= share * len(urls)


@pytest.mark.parametrize("module", [fast, shortcut], ids=["fast", "shortcut"])
@pytest.mark.parametrize("name", ["normalize", "normalize_many", "canonical_hash"])
def test_signatures_and_docstrings_are_equal(module: Any, name: str) -> None:
    function, wanted = getattr(module, name), getattr(reference, name)
    parameters = inspect.signature(wanted).parameters.values()
    seen = [(each.name, each.default) for each in inspect.signature(function).parameters.values()]
    assert seen == [(each.name, each.default) for each in parameters]
    assert inspect.getdoc(function) == inspect.getdoc(wanted)
    assert pickle.loads(pickle.dumps(function)) is function


@pytest.mark.parametrize("module", [fast, shortcut], ids=["fast", "shortcut"])
def test_unusual_calls_behave_as_in_the_reference(module: Any) -> None:
    class Text(str):
        __slots__ = ()

    url = "https://a.com/?utm_x=1&b"
    policy = canonry.policy("entry")
    calls: list[tuple[Any, Any]] = [
        ((), {}), ((url, "entry", 1), {}), ((url,), {"nope": 1}), ((), {"url": url, "policy": "entry"}), ((url,), {"policy": policy}),
        ((url, "nope"), {}), ((url, Text("entry")), {}), ((url, 1), {}), ((1,), {}), ((None, "entry"), {}), ((Text(url),), {}), ((b"x",), {}),
    ]  # fmt: skip
    for arguments, named in calls:
        results: list[object] = []
        functions: list[Any] = [module.normalize, reference.normalize]
        for function in functions:
            try:
                results.append(function(*arguments, **named))
            except Exception as error:
                results.append((type(error), str(error)))
        assert results[0] == results[1]


@pytest.mark.parametrize("module", [fast, shortcut, reference], ids=["fast", "shortcut", "reference"])
def test_normalize_many_takes_any_iterable(module: Any) -> None:
    urls: list[Any] = ["https://a.com/?utm_x=1", "nope", 1, None, "https://bücher.de/", "https://a.com/b"]
    wanted = ["https://a.com/", None, None, None, "https://xn--bcher-kva.de/", "https://a.com/b"]
    for given in (urls, tuple(urls), iter(urls), dict.fromkeys(urls)):
        assert module.normalize_many(given, "entry") == wanted
    if module is not reference:
        hashed = [url and (url, hashlib.sha256(url.encode()).hexdigest()) for url in wanted]
        assert module.normalize_and_hash_many(urls, canonry.policy("entry")) == hashed
    assert module.canonical_hash(urls[0]) == reference.canonical_hash(urls[0])
    for broken in (3, _failing()):
        with pytest.raises((TypeError, ZeroDivisionError)):
            module.normalize_many(broken)
    with pytest.raises(canonry.PolicyError):
        module.normalize_many([], "nope")


def _failing() -> object:
    yield "https://a.com/"
    yield str(1 // 0)


def test_hashes_of_every_length() -> None:
    for length in range(200):
        url = "https://a.com/" + "b" * length
        assert canonry.canonical_hash(url) == hashlib.sha256(url.encode()).hexdigest()
    for text in ("https://bücher.de/é", "https://a.com/é", "https://a.com/x y"):
        assert canonry.canonical_hash(text, "exact") == hashlib.sha256(text.encode()).hexdigest()


def test_a_list_may_shrink_while_it_is_read() -> None:
    class Shrinking(str):
        __slots__ = ()

    urls: list[str] = ["https://a.com/"] * 3 + [Shrinking("https://é.com/")] + ["https://b.com/"] * 3
    assert len(canonry.normalize_many(urls)) == 7


def test_a_policy_with_too_big_tables_uses_the_reference() -> None:
    long_name, many = (
        Policy("p", 1, strip_params=["x" * 300, "y"]),
        Policy("p", 1, strip_params=[f"{n:099}" for n in range(700)]),
    )
    hosts = Policy("p", 1, strip_params_on={f"h{number}.com": ["a"] for number in range(1_001)})
    for policy in (long_name, many, hosts):
        assert make_tables(policy) is None
        for url in ("https://a.com/?y=1&z", f"https://a.com/?{'X' * 300}=1&z", "https://h7.com/?a=1&z"):
            assert canonry.normalize(url, policy) == reference.normalize(url, policy)
            assert shortcut.normalize(url, policy) == reference.normalize(url, policy)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.id)
def test_every_shipped_policy_has_tables(policy: Policy) -> None:
    tables = make_tables(policy)
    assert tables is not None
    _, _, names, hosts, *_ = tables
    assert {name.rstrip(b"*") for name in names[0]} == {name.encode().rstrip(b"*") for name in policy.strip_params}
    assert all(0 <= place < len(names) for _, _, place, *_ in hosts)


def test_short_special_hosts_are_found_with_and_without_www() -> None:
    overrides = json.dumps({"overrides": [{"match": {"host": host}, "rewrite_rules": [{"from_prefix": f"https://{host}/a/", "to_prefix": f"https://{host}/"}]} for host in ("t.co", "a.b", "b.example.com")]})  # fmt: skip
    policy = Policy("p", 1, strip_www=True).with_overrides(overrides)
    for host in ("t.co", "a.b", "b.example.com", "xt.co"):
        for url in (f"https://{host}/a/b", f"https://www.{host}/a/b", f"https://www.www.{host}/a/a/b"):
            wanted = reference.normalize(url, policy)
            assert canonry.normalize(url, policy) == shortcut.normalize(url, policy) == wanted


@needs_native
def test_a_policy_that_was_used_can_be_copied_and_compared() -> None:
    policy = canonry.policy("bookmark").with_params("x")
    canonry.normalize("https://a.com/?x=1", policy)
    copy = pickle.loads(pickle.dumps(policy))
    assert copy == policy
    assert canonry.normalize("https://a.com/?x=1", copy) == "https://a.com/"


@needs_native
def test_malformed_columns_are_refused() -> None:
    from canonry.core.native import _fast

    native: Any = _fast
    normalize_column = native.normalize_column

    offsets = (0).to_bytes(4, "little") + (9).to_bytes(4, "little")
    good = ("entry", 4, 0, 1, None, offsets, (b"https://a",), False)
    assert normalize_column(*good)[3] == b"https://a/"
    wrong_values: dict[int, list[object]] = {  # by the position of the argument
        1: [5], 2: [1, -1, 2**62], 3: [2, -1, 2**62], 4: [b""], 5: [b"", offsets[:7], offsets[4:] + offsets[:4], b"\xff" * 8], 6: [(b"https://",), ()],
    }  # fmt: skip
    for place, values in wrong_values.items():
        for value in values:
            with pytest.raises(ValueError, match="column"):
                normalize_column(*good[:place], value, *good[place + 1 :])
    for view in (
        b"\xff" * 16,
        (99).to_bytes(4, "little") + bytes(12),
        (13).to_bytes(4, "little") + bytes(4) + b"\x01" + bytes(7),
    ):
        with pytest.raises(ValueError, match="column"):
            normalize_column("entry", 16, 0, 1, None, view, (b"https://a",), False)
    for function in (native.is_simple, native.normalize_and_hash_many):
        with pytest.raises(TypeError):
            function("https://a/", 3)
    with pytest.raises(TypeError):
        normalize_column(3, *good[1:])
    with pytest.raises(canonry.PolicyError):
        normalize_column("nope", *good[1:])


@pytest.mark.parametrize("pure", ["", "0", "1"])
def test_canonry_pure_selects_the_core(pure: str) -> None:
    code = "import canonry.core.native as f; print(f.CORE, f.normalize('https://a.com/?utm_x'))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"CANONRY_PURE": pure}
    )
    is_built = importlib.util.find_spec("canonry.core.native._fast") is not None
    core = "native" if is_built and pure != "1" else "pure Python"
    assert done.stdout == f"{core} https://a.com/\n"


SCAN = """
import hashlib, sys, canonry
from canonry.core.native import _fast
urls = sys.stdin.buffer.read().decode("utf-8", "surrogatepass").split("\\0")
answers = [_fast.normalize_many(urls, policy) for policy in canonry.policies()]
print(_fast.SCANNING, hashlib.sha256(repr(answers).encode()).hexdigest())
"""


@needs_native
@pytest.mark.parametrize("scanning", ["avx512", "avx2", "plain"])
def test_all_kinds_of_scanning_give_the_same_answers(scanning: str) -> None:
    urls = [url for url in (*EDGES, *case_texts(), *make_dirty_urls(500)) if "\0" not in url]
    done = subprocess.run(
        [sys.executable, "-c", SCAN],
        input="\0".join(urls).encode("utf-8", "surrogatepass"),
        capture_output=True,
        check=True,
        env={**os.environ, "CANONRY_SCANNING": scanning},
    )
    chosen, found = done.stdout.decode().split()
    answers = [reference.normalize_many(urls, policy) for policy in canonry.policies()]
    assert found == hashlib.sha256(repr(answers).encode()).hexdigest()
    assert scanning != "plain" or chosen == "plain"  # a processor without the others uses the best that it has
