"""canonry.bulk.arrow: the same results as canonry.normalize, for columns of every Arrow layout."""

from __future__ import annotations

import hashlib
import threading
from typing import Any

import pytest

import canonry
import corpora
import polars_like

pa: Any = pytest.importorskip("pyarrow")
from canonry.bulk import arrow  # noqa: E402

URLS = [
    "https://Example.com/?utm_source=a&b=1", None, "https://a.com/", "nope", "", "https://bücher.de/é", "https://a.com/x\\..\\y z",
    "https://www.youtube.com/watch?v=1&feature=x", "https://a.com/" + "b" * 3000, None, "https://a.com", "short",
]  # fmt: skip
WANTED = [url if url is None else canonry.normalize_many([url])[0] for url in URLS]
KINDS = [pa.string(), pa.large_string(), pa.string_view()]


def make_hash(url: str | None) -> str | None:
    return None if url is None else hashlib.sha256(url.encode()).hexdigest()


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_result_has_the_type_of_the_column(kind: Any) -> None:
    results = arrow.normalize(pa.array(URLS, kind))
    results.validate(full=True)
    assert results.type == kind
    assert results.to_pylist() == WANTED


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_slices_of_any_offset_and_length(kind: Any) -> None:
    column = pa.array(URLS * 3, kind)
    for start in range(len(URLS) + 1):
        for length in (0, 1, 5, 13, len(column)):
            piece = column.slice(start, length)
            results = arrow.normalize(piece, hash=True)
            results.validate(full=True)
            wanted = (WANTED * 3)[start : start + length]
            assert results.field("canonical_url").to_pylist() == wanted
            assert results.field("canonical_hash").to_pylist() == [make_hash(url) for url in wanted]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_chunked_columns_keep_their_chunks(kind: Any) -> None:
    shapes: list[list[list[str | None]]] = [[URLS, [], URLS[3:]], [], [[None]], [[]]]
    for chunks in shapes:
        column = pa.chunked_array([pa.array(chunk, kind) for chunk in chunks], kind)
        wanted = canonry.normalize_many([url for chunk in chunks for url in chunk])  # type: ignore[misc]
        results = arrow.normalize(column)
        assert results.type == kind
        assert results.num_chunks == len(chunks)
        assert results.to_pylist() == wanted
        hashed = arrow.normalize(column, "article", hash=True)
        hashed.validate(full=True)
        articles = canonry.normalize_many([url for chunk in chunks for url in chunk], "article")  # type: ignore[misc]
        assert hashed.to_pylist() == [{"canonical_url": url, "canonical_hash": make_hash(url)} for url in articles]


def test_dictionaries_become_plain_strings() -> None:
    column = pa.array([URLS[0], None, "nope", URLS[2], URLS[0]]).dictionary_encode()
    wanted = ["https://example.com/?b=1", None, None, "https://a.com/", "https://example.com/?b=1"]
    assert arrow.normalize(column).to_pylist() == wanted
    assert arrow.normalize(column[1:]).to_pylist() == wanted[1:]
    assert arrow.normalize(pa.chunked_array([column])).to_pylist() == wanted
    assert arrow.normalize(column, hash=True).field(1).to_pylist() == [make_hash(url) for url in wanted]


@pytest.mark.parametrize("policy", corpora.POLICIES)
def test_columns_longer_than_one_native_batch(policy: str) -> None:
    urls: list[str | None] = list(corpora.get_real_or_generated_urls()[:9_000])
    urls[::97] = [None] * len(urls[::97])
    wanted = canonry.normalize_many(urls, policy)  # type: ignore[arg-type]
    assert arrow.normalize(pa.array(urls), policy).to_pylist() == wanted


def test_urls_that_grow_when_they_are_normalized() -> None:
    urls = ["https://a.com/" + "é" * 600, "https://" + "é" * 50 + ".com/", "http://a.com?" + '"' * 600] * 3_000
    assert arrow.normalize(pa.array(urls)).to_pylist() == canonry.normalize_many(urls)


def test_bytes_that_are_not_utf8_give_null() -> None:
    raw = pa.array([b"https://a.com/\xff", b"https://a.com/\xc3\xa9", b"\xed\xa0\x80"], pa.binary())
    column = pa.Array.from_buffers(pa.string(), 3, raw.buffers())
    assert arrow.normalize(column).to_pylist() == [None, "https://a.com/%C3%A9", None]


def test_columns_of_other_libraries_are_accepted() -> None:
    for wrapper in (polars_like.ArrowStream, polars_like.ArrowArray):
        assert arrow.normalize(wrapper(pa.array(URLS))).to_pylist() == WANTED


def test_anything_but_a_column_of_strings_is_refused() -> None:
    with pytest.raises(TypeError, match="got list"):
        arrow.normalize(["https://a.com/"])
    for column in (pa.array([1]), pa.array([b"x"]), pa.chunked_array([[1]]), pa.array([1]).dictionary_encode()):
        with pytest.raises(TypeError, match="column of strings"):
            arrow.normalize(column)
    with pytest.raises(canonry.PolicyError):
        arrow.normalize(pa.array(["https://a.com/"]), "nope")


def test_threads_can_share_a_policy() -> None:
    policy = canonry.policy("bookmark").with_params("x")
    column = pa.array(corpora.get_real_or_generated_urls()[:5_000])
    results: list[Any] = [None] * 4
    threads = [
        threading.Thread(target=lambda at: results.__setitem__(at, arrow.normalize(column, policy)), args=(at,))
        for at in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(result.equals(results[0]) for result in results)


def test_without_the_native_core_the_results_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in KINDS:
        native = [arrow.normalize(pa.array(URLS, kind)), arrow.normalize(pa.array(URLS, kind), "entry", hash=True)]
        with monkeypatch.context() as pure:
            pure.setattr("canonry.core.native.CORE", "pure Python")
            assert arrow.normalize(pa.array(URLS, kind)).equals(native[0])
            assert arrow.normalize(pa.array(URLS, kind), "entry", hash=True).equals(native[1])
