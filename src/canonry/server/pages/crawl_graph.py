"""Lay out the link graph of a crawl for an SVG template.

The start page is in the center, each ring is one click further away. A page is placed next to the page it was found
on, so that the lines of the tree do not cross.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from canonry.crawler.crawl_views import Node

SIZE = 860  # width and height of the drawing
MAX_PAGES = 80
_MAX_LABEL_CHARS = 20
_CHAR_WIDTH, _LABEL_MARGIN = 7.5, 30
_MAX_EXTRA_LINKS = 600  # besides those of the tree


@dataclass(frozen=True, slots=True)
class Place:
    """A page in the drawing; `turn` rotates its label outwards, `is_left` flips it so that it is not upside down."""

    number: int
    page: Node
    x: float
    y: float
    label: str
    turn: float
    is_left: bool


@dataclass(frozen=True, slots=True)
class Edge:
    """A link between two pages; `is_tree` if the target was found by it."""

    x1: float
    y1: float
    x2: float
    y2: float
    is_tree: bool


@dataclass(frozen=True, slots=True)
class Row:
    """A page in the table: where it was found, and its links to and from the other pages of the graph."""

    number: int
    page: Node
    found_on: int | None
    out: int | None
    into: int


@dataclass(frozen=True, slots=True)
class Graph:
    """A drawing; `rows` are the same data as a table."""

    places: tuple[Place, ...] = ()
    edges: tuple[Edge, ...] = ()
    rings: tuple[float, ...] = ()
    radius: float = 6.0
    rows: tuple[Row, ...] = ()
    links: int = 0
    summary: str = ""


@dataclass(slots=True)
class _TreeNode:
    number: int
    page: Node
    parent: _TreeNode | None = None
    ring: int = 0
    children: list[_TreeNode] = field(default_factory=list["_TreeNode"])
    angle: float = 0.0


def make_graph(pages: Sequence[Node]) -> Graph:
    """Lay out pages; the start page is the first, the others are sorted by depth."""
    if not pages:
        return Graph()
    nodes = _make_tree(pages)
    links = _list_links(nodes)
    _assign_angles(nodes)
    rings = max(node.ring for node in nodes)
    labels = {node.number: _make_label(node.page.url) for node in nodes[1:] if not node.children}
    room = [
        (SIZE / 2 - _LABEL_MARGIN - _CHAR_WIDTH * len(labels.get(node.number, ""))) / node.ring
        for node in nodes
        if node.ring
    ]
    step = min(room, default=0.0)
    at = {node.number: _calculate_position(node, step) for node in nodes}
    tree = {(node.parent.number, node.number) for node in nodes if node.parent is not None}
    others = [pair for pair in links if pair not in tree and pair[0] != pair[1]]
    edges = [Edge(*at[one], *at[other], is_tree=False) for one, other in others[:_MAX_EXTRA_LINKS]]
    edges += [Edge(*at[one], *at[other], is_tree=True) for one, other in sorted(tree)]
    return Graph(
        tuple(_make_place(node, *at[node.number], labels.get(node.number, "")) for node in nodes),
        tuple(edges),
        tuple(round(step * ring, 1) for ring in range(1, rings + 1)),
        round(min(8.0, step / 3 if rings else 8.0), 1),
        _make_rows(nodes, links),
        len(links),
        f"{_format_count(len(nodes), 'page')} of {pages[0].url}, {_format_count(len(links), 'link')} between them,"
        f" at most {_format_count(max(page.depth for page in pages), 'click')} from the start page.",
    )


def _make_tree(pages: Sequence[Node]) -> list[_TreeNode]:
    """Return every page as a child of the page it was found on; of the start page if that is not drawn."""
    nodes = [_TreeNode(number, page) for number, page in enumerate(pages, 1)]
    known = {_strip_scheme(node.page.url): node for node in nodes}
    for node in nodes[1:]:
        parent = known.get(_strip_scheme(node.page.referrer))
        if parent is None or parent.page.depth >= node.page.depth:
            parent = nodes[0]
        node.parent = parent
        node.ring = max(1, node.page.depth)
        parent.children.append(node)
    return nodes


def _list_links(nodes: list[_TreeNode]) -> list[tuple[int, int]]:
    known = {_strip_scheme(node.page.url): node.number for node in nodes}
    found = [(node.number, known.get(_strip_scheme(target))) for node in nodes for target in node.page.targets or ()]
    return [(one, other) for one, other in dict.fromkeys(found) if other is not None]


def _assign_angles(nodes: list[_TreeNode]) -> None:
    """Distribute the leaves of the tree evenly around the circle; a parent is centered on its children."""
    ends, todo = 0, [nodes[0]]
    order: list[_TreeNode] = []
    while todo:
        node = todo.pop()
        order.append(node)
        todo.extend(reversed(node.children))
    total = sum(not node.children for node in order)
    for node in order:
        if not node.children:
            node.angle = 2 * math.pi * ends / total
            ends += 1
    for node in reversed(order):
        if node.children:
            node.angle = (node.children[0].angle + node.children[-1].angle) / 2


def _calculate_position(node: _TreeNode, step: float) -> tuple[float, float]:
    distance = node.ring * step
    return (
        round(SIZE / 2 + distance * math.cos(node.angle), 1),
        round(SIZE / 2 + distance * math.sin(node.angle), 1),
    )


def _make_place(node: _TreeNode, x: float, y: float, label: str) -> Place:
    degrees = math.degrees(node.angle) % 360
    is_left = 90 < degrees < 270
    return Place(node.number, node.page, x, y, label, round(degrees - 180 if is_left else degrees, 1), is_left)


def _make_label(url: str) -> str:
    """Return the end of the path, which distinguishes the pages of a site."""
    path = unquote(url.partition("://")[2].partition("/")[2], errors="replace") or "/"
    plain = "".join(character if character.isprintable() else " " for character in path)
    return plain if len(plain) <= _MAX_LABEL_CHARS else f"…{plain[-_MAX_LABEL_CHARS + 1 :]}"


def _make_rows(nodes: list[_TreeNode], links: list[tuple[int, int]]) -> tuple[Row, ...]:
    out, into = [0] * (len(nodes) + 1), [0] * (len(nodes) + 1)
    for one, other in links:
        out[one] += 1
        into[other] += 1
    return tuple(
        Row(
            node.number,
            node.page,
            None if node.parent is None else node.parent.number,
            None if node.page.targets is None else out[node.number],
            into[node.number],
        )
        for node in nodes
    )


def _strip_scheme(url: str) -> str:
    return url.partition(":")[2]


def _format_count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
