"""Cut HTML pages that nest elements deeper than any real page: the time to parse grows with the square of the depth."""

from __future__ import annotations

import re
from collections import Counter

MAX_DEPTH = 2_000  # nested elements
_TAG = re.compile(r"<!--|<(/?)([a-zA-Z][^\s/>]*)([^>]*)")
_COMMENT_END = re.compile(r"--!?>")
# Elements that do not nest: they are empty, or end where the next one begins.
_FLAT_ELEMENTS = frozenset({
    "a", "area", "base", "br", "col", "dd", "dt", "embed", "hr", "img", "input", "li", "link", "meta", "optgroup",
    "option", "p", "param", "rp", "rt", "source", "tbody", "td", "tfoot", "th", "thead", "tr", "track", "wbr",
})  # fmt: skip
# A start tag of another element that is not followed by its end tag, with nothing but text between them.
_PARENT = re.compile(
    rf"<(?!(?:{'|'.join(sorted(_FLAT_ELEMENTS))})[\s/>])([a-z][^\s/>]*+)(?![^<>]*+>[^<]*+</\1[\s>])", re.IGNORECASE
)
# Elements of SVG: `<path/>` is complete there. An HTML element stays open: `<div/>` is `<div>`.
_SVG_ELEMENTS = frozenset({
    "animate", "animatemotion", "animatetransform", "circle", "clippath", "defs", "ellipse", "filter", "g", "image",
    "line", "lineargradient", "marker", "mask", "path", "pattern", "polygon", "polyline", "radialgradient", "rect",
    "stop", "symbol", "text", "textpath", "tspan", "use",
})  # fmt: skip
# What follows the tag of an element of SVG that may contain HTML, if it contains only text.
_SVG_TEXT_ENDS = {name: re.compile(rf"[^<]*</{name}>", re.IGNORECASE) for name in ("title", "desc")}
# What is between the name and `>` in `<g a="b"/>`. In `<g a=/>` and `<g a="/>">` the slash is part of a value.
_SELF_CLOSED = re.compile(r"""(?:\s+[\w:.-]+(?:="[^"]*"|='[^']*')?)*\s*/""")
# The content of these elements is text.
_RAW_TEXT_ENDS = {
    name: re.compile(rf"</{name}[\s/>]", re.IGNORECASE) for name in ("script", "style", "textarea", "title")
}


def cut_deep_nesting(text: str) -> str:
    """Return the page up to the place where elements are nested deeper than on any real page."""
    if text.count("<") - text.count("</") < MAX_DEPTH or len(_PARENT.findall(text)) < MAX_DEPTH:
        return text
    opened = Counter[str]()
    depth = position = 0
    is_svg = False  # within <svg>, where only elements of SVG have followed
    while tag := _TAG.search(text, position):
        closing, name, attributes = tag[1], (tag[2] or "").lower(), tag[3]
        position = tag.end()
        if is_svg and name in _SVG_TEXT_ENDS and (svg_text := _SVG_TEXT_ENDS[name].match(text, position)):
            position = svg_text.end()
            continue
        if name == "svg":
            is_svg = not closing and not _SELF_CLOSED.fullmatch(attributes)
        elif name and name not in _SVG_ELEMENTS:
            is_svg = False
        is_raw = name in _RAW_TEXT_ENDS and not closing and not (opened["svg"] or opened["math"])
        if not name or is_raw:
            end = _RAW_TEXT_ENDS[name].search(text, position) if is_raw else _COMMENT_END.search(text, tag.start() + 2)
            if end is None:
                return text  # the rest is text of this element, or a comment
            position = end.end()
        elif closing:
            depth -= opened[name] > 0
            opened[name] -= opened[name] > 0
        elif name not in _FLAT_ELEMENTS and not (is_svg and _SELF_CLOSED.fullmatch(attributes)):
            opened[name] += 1
            depth += 1
            if depth > MAX_DEPTH:
                return text[: tag.start()]
    return text
