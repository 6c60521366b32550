"""The link graph of a crawl as places on a sheet: the start page in the middle, a ring for each click from it.

A page stands beyond the page it was found on, so that the lines of the tree do not cross. Templates draw it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from canonry.crawler.crawl_views import Node

SIZE = 860  # of the sheet, which is a square
PAGES = 80  # that are drawn
_LABEL = 20  # characters
_LETTER, _GAP = 7.5, 30  # the width of a letter, and the room around a label
_LINKS = 600  # that are drawn beside the tree


@dataclass(frozen=True, slots=True)
class Place:
    """A page on the sheet; `turn` is for its label, which runs outwards, `is_left` where it would stand on its head."""

    number: int
    page: Node
    x: float
    y: float
    label: str
    turn: float
    is_left: bool


@dataclass(frozen=True, slots=True)
class Edge:
    """A link between two places; the way by which a page was found, or another."""

    x1: float
    y1: float
    x2: float
    y2: float
    is_tree: bool


@dataclass(frozen=True, slots=True)
class Row:
    """A page in words: where it was found, and how many links lead from it and to it among those that are shown."""

    number: int
    page: Node
    found_on: int | None
    out: int | None
    into: int


@dataclass(frozen=True, slots=True)
class Graph:
    """What is drawn; `rows` say the same in words."""

    places: tuple[Place, ...] = ()
    edges: tuple[Edge, ...] = ()
    rings: tuple[float, ...] = ()
    radius: float = 6.0
    rows: tuple[Row, ...] = ()
    links: int = 0
    summary: str = ""


@dataclass(slots=True)
class _Twig:
    number: int
    page: Node
    parent: _Twig | None = None
    ring: int = 0
    children: list[_Twig] = field(default_factory=list["_Twig"])
    angle: float = 0.0


def graph_of(pages: Sequence[Node]) -> Graph:
    """The graph of pages, the nearest to the start page first."""
    if not pages:
        return Graph()
    twigs = _tree(pages)
    links = _links(twigs)
    _spread(twigs)
    rings = max(twig.ring for twig in twigs)
    labels = {twig.number: _label(twig.page.url) for twig in twigs[1:] if not twig.children}
    room = [(SIZE / 2 - _GAP - _LETTER * len(labels.get(twig.number, ""))) / twig.ring for twig in twigs if twig.ring]
    step = min(room, default=0.0)
    at = {twig.number: _at(twig, step) for twig in twigs}
    tree = {(twig.parent.number, twig.number) for twig in twigs if twig.parent is not None}
    others = [pair for pair in links if pair not in tree and pair[0] != pair[1]]
    edges = [Edge(*at[one], *at[other], is_tree=False) for one, other in others[:_LINKS]]
    edges += [Edge(*at[one], *at[other], is_tree=True) for one, other in sorted(tree)]
    return Graph(
        tuple(_place(twig, *at[twig.number], labels.get(twig.number, "")) for twig in twigs),
        tuple(edges),
        tuple(round(step * ring, 1) for ring in range(1, rings + 1)),
        round(min(8.0, step / 3 if rings else 8.0), 1),
        _rows(twigs, links),
        len(links),
        f"{_count(len(twigs), 'page')} of {pages[0].url}, {_count(len(links), 'link')} between them,"
        f" up to {_count(max(page.depth for page in pages), 'click')} from the start page.",
    )


def _tree(pages: Sequence[Node]) -> list[_Twig]:
    """Each page under the one it was found on; under the first where that is not shown."""
    twigs = [_Twig(number, page) for number, page in enumerate(pages, 1)]
    known = {_known_as(twig.page.url): twig for twig in twigs}
    for twig in twigs[1:]:
        parent = known.get(_known_as(twig.page.referrer))
        if parent is None or parent.page.depth >= twig.page.depth:
            parent = twigs[0]
        twig.parent = parent
        twig.ring = max(1, twig.page.depth)
        parent.children.append(twig)
    return twigs


def _links(twigs: list[_Twig]) -> list[tuple[int, int]]:
    known = {_known_as(twig.page.url): twig.number for twig in twigs}
    found = [(twig.number, known.get(_known_as(target))) for twig in twigs for target in twig.page.targets or ()]
    return [(one, other) for one, other in dict.fromkeys(found) if other is not None]


def _spread(twigs: list[_Twig]) -> None:
    """An angle for each: the ends of the tree share the circle evenly, a page stands before the middle of its own."""
    ends, todo = 0, [twigs[0]]
    order: list[_Twig] = []
    while todo:
        twig = todo.pop()
        order.append(twig)
        todo.extend(reversed(twig.children))
    total = sum(not twig.children for twig in order)
    for twig in order:
        if not twig.children:
            twig.angle = 2 * math.pi * ends / total
            ends += 1
    for twig in reversed(order):
        if twig.children:
            twig.angle = (twig.children[0].angle + twig.children[-1].angle) / 2


def _at(twig: _Twig, step: float) -> tuple[float, float]:
    distance = twig.ring * step
    return (
        round(SIZE / 2 + distance * math.cos(twig.angle), 1),
        round(SIZE / 2 + distance * math.sin(twig.angle), 1),
    )


def _place(twig: _Twig, x: float, y: float, label: str) -> Place:
    degrees = math.degrees(twig.angle) % 360
    is_left = 90 < degrees < 270
    return Place(twig.number, twig.page, x, y, label, round(degrees - 180 if is_left else degrees, 1), is_left)


def _label(url: str) -> str:
    """The end of its path, which tells pages of one site apart."""
    path = unquote(url.partition("://")[2].partition("/")[2], errors="replace") or "/"
    plain = "".join(character if character.isprintable() else " " for character in path)
    return plain if len(plain) <= _LABEL else f"…{plain[-_LABEL + 1 :]}"


def _rows(twigs: list[_Twig], links: list[tuple[int, int]]) -> tuple[Row, ...]:
    out, into = [0] * (len(twigs) + 1), [0] * (len(twigs) + 1)
    for one, other in links:
        out[one] += 1
        into[other] += 1
    return tuple(
        Row(
            twig.number,
            twig.page,
            None if twig.parent is None else twig.parent.number,
            None if twig.page.targets is None else out[twig.number],
            into[twig.number],
        )
        for twig in twigs
    )


def _known_as(url: str) -> str:
    return url.partition(":")[2]


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
