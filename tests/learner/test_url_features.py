"""The C code for columns of URLs gives the answers of the reference, for any URL (contract L6)."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyarrow")

import pyarrow  # pyright: ignore[reportMissingTypeStubs]
from benchmarks.learn_adversarial_sites import ADVERSARIAL_KINDS
from benchmarks.learn_sites import KINDS, make_sites

import canonry
from canonry.core import native
from canonry.learner import feature_columns
from canonry.learner.feature_columns import FeatureChoice, Wanted, list_pairs
from canonry.learner.feature_tables import ALL_KINDS
from canonry.learner.url_features import FeatureKind, cut_url, hash_text, list_features, list_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

pa: Any = pyarrow
_FRAGMENTS = (
    "a", "B", "12", "x9", "-", "_", ",", ".", "html", "/", "?", "&", "=", ";", "q=1", "id=5", "/a/", "//", "%20", ":",
    "@", "(S(ab12))", "index.php", "1-a", "a-1.html", "..", "A1b",
)  # fmt: skip
_FLAGS = (b"slash", b"scheme", b"order", b"case:first", b"case:last", b"id-end:/", b"id-start:/", b"ext:html",
          b"ext:m3", b"ext:m4", b"seg:last:index.php", b"param:id", b"seg:first:a", b"shape:first:#")  # fmt: skip


def make_urls(rng: random.Random) -> list[str]:
    urls = sorted({row.url for site in make_sites(3, KINDS + ADVERSARIAL_KINDS, 1) for row in site.rows})
    urls = rng.sample(urls, 400)
    hosts = ("h.example", "u:p@h.example:8080", "a.b.co.uk")
    urls += [f"http://{rng.choice(hosts)}/{''.join(rng.choices(_FRAGMENTS, k=rng.randrange(9)))}" for _ in range(900)]
    repeated = ("1", "12", "a", "x9", "1-a", "a-1.html", "1-2-a-b.html", "index.php")
    urls += [f"https://h.example/{'/'.join(rng.choices(repeated, k=rng.randrange(1, 7)))}" for _ in range(300)]
    # What follows the dot is both an id and an extension.
    urls += [f"https://h.example/title.m{number}" for number in range(9)]
    too_many = ["?" + "&".join(f"a{i}=1" for i in range(70)), "/".join("s" * 70), "a" + ";x=1" * 70]
    return [*urls, *(f"https://h.example/{each}" for each in too_many)]


def list_answers(urls: list[str], rng: random.Random) -> Iterator[object]:
    """Yield what each function says of the URLs, in groups of one to five."""
    column = pa.array(urls)
    numbers = [i // rng.choice((1, 3, 5)) for i in range(len(urls))]
    groups, sites = pa.array(numbers, pa.uint64()), pa.array([0] * len(urls), pa.uint32())
    some = rng.sample([each for url in urls for each in list_features(url.encode())], 400)
    listed = list_pairs([0] * len(some), [hash_text(each.name) for each in some])
    params = list_pairs([0] * len(some), [each.base for each in some])
    yield [each.to_pylist() for each in feature_columns.hash_urls(column)]
    yield sort_rows(feature_columns.split(column, sites, Wanted(ALL_KINDS)))
    retried = 1 << FeatureKind.VALUE | 1 << FeatureKind.FOLDER_1 | 1 << FeatureKind.PAGE_1
    requests = (
        (Wanted((1 << FeatureKind.VALUE) - 1), True),
        (Wanted(ALL_KINDS, FeatureChoice.LISTED, *listed), False),
        (Wanted(retried, FeatureChoice.LISTED_PARAMS, *params), True),
    )
    for wanted, is_strict in requests:
        found = feature_columns.find_varying(column, sites, groups, wanted, is_strict=is_strict)
        yield sort_rows(found.select(["row", "kind", "fid"]))
    for _ in range(3):
        flags = [hash_text(flag) for flag in _FLAGS if rng.random() < 0.5]
        dropped = list_pairs([0] * (len(some) + len(flags)), [*(hash_text(each.name) for each in some), *flags])
        yield [each.to_pylist() for each in feature_columns.make_keys(column, sites, dropped)]


def sort_rows(table: Any) -> list[tuple[int, ...]]:
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.mark.native
@pytest.mark.skipif(native.CORE != "native", reason="needs the C code")
def test_c_and_reference_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    urls = make_urls(random.Random(8))
    in_c = list(list_answers(urls, random.Random(9)))
    monkeypatch.setattr(native, "CORE", "pure Python")
    assert list(list_answers(urls, random.Random(9))) == in_c


def test_the_reference_learns_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(f"https://s.example/item?kind={n}&zog={n * 3 + c}", f"content {n}") for n in range(30) for c in range(2)]
    learned = canonry.learn(rows)
    monkeypatch.setattr(native, "CORE", "pure Python")
    assert canonry.learn(rows) == learned


_PARAMS = "param:q value:q=1 folder:/a/|q folder:/a/B7/|q param:p value:p folder:/a/|p folder:/a/B7/|p"
_SEGMENTS = "seg:first:a case:first seg:last:B7 shape:last:# case:last slug-head:/# slash"
_TITLE = "seg:first:news case:first seg:last:a-title-12.html shape:last:a-title-0.html case:last ext:html slug-head:/#"


@pytest.mark.parametrize(
    ("url", "names"),
    [
        ("http://h.example/", "scheme"),
        ("http://h.example/a/B7/?q=1&p", f"{_PARAMS} {_SEGMENTS} scheme order"),
        ("http://h.example/news/a-title-12.html;s=1", f"sem:s {_TITLE} id-end:/news scheme"),
        ("http://h.example/.a.html", "seg:last:.a.html case:last ext:html scheme"),
    ],
)
def test_the_parts_of_a_url(url: str, names: str) -> None:
    assert [part.name.decode() for part in list_parts(cut_url(url.encode()))] == names.split()
