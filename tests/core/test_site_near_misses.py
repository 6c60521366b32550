"""contract N8b: URLs made from the patterns of each site table; what differs in an id, a name or a parameter stays apart.

The rows of a table show what its author thought of. Here every page is tried with ids that differ in one character or in
case, with other parameters and with fragments, on every kind of host.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import canonry
import site_format
from canonry.core import normalize as reference
from canonry.core.policy import Policy
from canonry.core.rules import strip_www
from canonry.core.site_patterns import CLASSES, Capture, list_fields, split_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

FILES = site_format.read_site_files()
SITES = [file.id for file in FILES]
POLICY = canonry.policy("bookmark@2")
PLAIN = Policy("near-misses-plain", 1, sites=SITES)
STRICT = Policy(
    "near-misses-strict", 1, sites=SITES, strip_www=True, normalize_escapes=True, collapse_slashes=True,
    strip_trailing_slash=True, sort_params=True, fragment="drop",
)  # fmt: skip
# What a template may leave out: words beside an id, and where the visitor came from. An id is never left out.
LEFT_OUT = {
    "a", "account", "artist", "author", "b", "c", "country", "folder", "kind", "language", "media", "name", "number", "owner",
    "question", "rest", "section", "set", "slug", "title", "user",
}  # fmt: skip
_ALPHABETS = {
    "digits": "123456789",
    "lower": "bcdefghijk",
    "letters": "BCDEbcde",
    "hex": "123456789abcdef",
    "base36": "123456789bcdefg",
    "code": "BCDEFGH123456789",
    "label": "bcdefgh",
}


@dataclass(frozen=True, slots=True)
class Sample:
    """A URL of a page, from the values of its captures."""

    host: str
    path: str
    query: dict[str, str]
    values: dict[str, str]

    def make_url(self, values: dict[str, str] | None = None, *, extra: str = "", fragment: str = "") -> str:
        filled = self.values | (values or {})
        params = [f"{name}={_fill(pattern, filled)}" for name, pattern in self.query.items()]
        query = "&".join([*params, extra] if extra else params)
        return f"https://{self.host}{_fill(self.path, filled)}" + (f"?{query}" if query else "") + fragment


def _fill(pattern: str, values: dict[str, str]) -> str:
    return "".join(piece if isinstance(piece, str) else values[piece.name] for piece in split_pattern(pattern))


def _make_value(capture: Capture, chance: random.Random) -> str:
    if capture.choices:
        return capture.choices[0]
    if capture.spans:
        return "Bcd/efg"
    alphabet = _ALPHABETS.get(capture.kind, "BCDEFGHbcdefgh")
    length = max(capture.shortest, min(6, capture.longest or 6))
    return "".join(chance.choice(alphabet) for _ in range(length))


def _list_samples(block: dict[str, Any], page: dict[str, Any]) -> Iterator[Sample]:
    chance = random.Random(7)
    groups = page.get("groups", (0,))
    hosts = {group: (host, label) for host, _, group, label, _ in block["hosts"] if group in groups}
    for host, label in hosts.values():
        name = host
        if host.startswith("*."):
            capture = next((piece for piece in split_pattern(label) if isinstance(piece, Capture)), None)
            name = (_make_value(capture, chance) if capture else "bcd") + host[1:]
        for path in page["path"]:
            pieces = [
                piece
                for pattern in (path, *page.get("query", {}).values())
                for piece in split_pattern(pattern)
                if isinstance(piece, Capture)
            ]
            values = {piece.name: _make_value(piece, chance) for piece in pieces}
            yield Sample(name, path, page.get("query", {}), values)


def _list_pages() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    for file in FILES:
        for block_number, block in enumerate(file.blocks, 1):
            for number, page in enumerate(block.get("pages", ()), 1):
                if not {"target", "target_code", "whole"} & set(page):
                    yield f"{file.name}-{block_number}-{number}", block, page


PAGES = [pytest.param(block, page, id=name) for name, block, page in _list_pages()]


def normalize(url: str, policy: Policy = POLICY) -> str:
    """Normalize with the reference; the C core is compared with it elsewhere."""
    return reference.normalize(url, policy)


def _get_captures(page: dict[str, Any]) -> dict[str, Capture]:
    patterns = (*page["path"], *page.get("query", {}).values())
    return {piece.name: piece for pattern in patterns for piece in split_pattern(pattern) if isinstance(piece, Capture)}


@pytest.mark.parametrize(("block", "page"), PAGES)
def test_a_page_writes_every_id(block: dict[str, Any], page: dict[str, Any]) -> None:
    if "write" in page:
        left_out = set(_get_captures(page)) - {name for name, _ in list_fields(page["write"])}
        assert left_out <= LEFT_OUT


@pytest.mark.parametrize(("block", "page"), PAGES)
def test_the_answer_is_a_fixed_point(block: dict[str, Any], page: dict[str, Any]) -> None:
    for sample in _list_samples(block, page):
        url = sample.make_url(extra="utm_source=x&zz=1", fragment="#part")
        start, path = url[: url.index("/", 8)], url[url.index("/", 8) :]
        for policy, spelled in itertools.product((POLICY, STRICT, PLAIN), (path, path.upper(), path.title())):
            once = normalize(start + spelled, policy)
            assert normalize(once, policy) == once, f"{start + spelled} under {policy.id}"


@pytest.mark.parametrize(("block", "page"), PAGES)
def test_pages_that_are_written_alike_keep_the_same_parameters(block: dict[str, Any], page: dict[str, Any]) -> None:
    tables = (block, *block.get("pages", ()))
    names = {name for table in tables for key in ("drop", "keep", "defaults") for name in table.get(key, ())}
    values = {value for table in tables for listed in table.get("defaults", {}).values() for value in listed}
    for sample in _list_samples(block, page):
        for name, value in itertools.product(sorted(names), sorted({"31", *values})):
            once = normalize(sample.make_url(extra=f"{name.removesuffix('*')}={value}"))
            assert normalize(once) == once


@pytest.mark.parametrize(("block", "page"), PAGES)
def test_another_value_is_another_page(block: dict[str, Any], page: dict[str, Any]) -> None:
    written = dict(list_fields(page["write"])) if "write" in page else dict.fromkeys(_get_captures(page), ())
    chance = random.Random(11)
    for sample in _list_samples(block, page):
        url = sample.make_url()
        captures = {name: capture for name, capture in _get_captures(page).items() if name in sample.values}
        for name, capture in captures.items():
            if name not in written:
                continue
            value = sample.values[name]
            others = {word for word in capture.choices if word != value}
            if not capture.choices:
                others = {_change_one_character(value, capture, chance)}
                if "lower" not in written[name] and "capital" not in written[name]:
                    others.add(_swap_case_at_end(value, capture))
            for other in others - {value}:
                near = sample.make_url({name: other})
                assert normalize(near) != normalize(url), f"{near} and {url}"


def _change_one_character(value: str, capture: Capture, chance: random.Random) -> str:
    alphabet = _ALPHABETS.get(capture.kind, "BCDEFGHbcdefgh")
    at = chance.randrange(len(value)) if "/" not in value else len(value) - 1
    other = chance.choice([letter for letter in alphabet if letter.lower() != value[at].lower()])
    return value[:at] + other + value[at + 1 :]


def _swap_case_at_end(value: str, capture: Capture) -> str:
    allowed = CLASSES.get(capture.kind, "A-Za-z")
    swapped = value[:-1] + value[-1].swapcase()
    return swapped if "A-Z" in allowed and "a-z" in allowed else value


@pytest.mark.parametrize(("block", "page"), PAGES)
def test_a_parameter_that_is_not_dropped_selects(block: dict[str, Any], page: dict[str, Any]) -> None:
    kept = [name.removesuffix("*") for name in page.get("keep", ())]
    names = kept if "keep" in page else ["zz", "page", "q", "id9"]
    for sample in _list_samples(block, page):
        for name in names:
            if name in sample.query or f"{name}=" in page.get("write", ""):
                continue  # the template writes it
            one, other = sample.make_url(extra=f"{name}=31"), sample.make_url(extra=f"{name}=32")
            assert normalize(one) != normalize(other), f"{one} and {other}"
            assert normalize(one) != normalize(sample.make_url()), f"{one} without {name}"


@pytest.mark.parametrize(("block", "page"), PAGES)
def test_a_fragment_selects(block: dict[str, Any], page: dict[str, Any]) -> None:
    for sample in _list_samples(block, page):
        if page.get("fragment") != "drop":
            assert normalize(sample.make_url(fragment="#part")) != normalize(sample.make_url())


@pytest.mark.parametrize(("block", "page"), PAGES)
def test_a_host_that_only_looks_alike_is_left_alone(block: dict[str, Any], page: dict[str, Any]) -> None:
    sample = next(_list_samples(block, page))
    for host in (f"not-{strip_www(sample.host)}.example", f"{sample.host}.evil.example", f"x9.y9.{sample.host}"):
        url = Sample(host, sample.path, sample.query, sample.values).make_url()
        assert normalize(url).split("/")[2] == host


@pytest.mark.parametrize(("block", "page"), PAGES)
def test_the_address_with_a_port_is_another_server(block: dict[str, Any], page: dict[str, Any]) -> None:
    sample = next(_list_samples(block, page))
    url = Sample(f"{sample.host}:8443", sample.path, sample.query, sample.values).make_url()
    assert normalize(url).split("/")[2] == f"{sample.host}:8443"
