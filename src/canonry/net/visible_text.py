"""The text of a web page that a person can see, without its styles and scripts (contract E3)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from selectolax.lexbor import LexborHTMLParser

from canonry.net.charset import decode, detect_charset
from canonry.net.deep_nesting import cut_deep_nesting
from canonry.net.html import is_html

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

# Elements that are never shown (https://html.spec.whatwg.org/multipage/rendering.html#hidden-elements), and those whose
# content is shown only where scripts or frames are missing.
_HIDDEN_TAGS = frozenset(
    {"area", "datalist", "iframe", "noembed", "noframes", "noscript"}
    | {"param", "rp", "script", "style", "template", "title"}
)
_HIDDEN = ",".join(
    [*sorted(_HIDDEN_TAGS), "[hidden]", "dialog:not([open])", '[style*="none" i]', '[style*="hidden" i]']
)
_HIDING_STYLE = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)\s*(?:;|!|$)", re.IGNORECASE)
# Elements that do not separate words: `<b>H</b>ello` is one word. All others do.
_INLINE = (
    "a,abbr,acronym,b,bdi,bdo,big,cite,code,data,del,dfn,em,font,i,ins,kbd,label,mark,nobr,q,ruby,s,samp,small,span,"
    "strike,strong,sub,sup,time,tt,u,var,wbr"
)
_TEXT_TYPES = ("text/", "application/json", "application/xml")
_TEXT_ENDINGS = ("+xml", "+json")


def read_visible_text(body: bytes, content_type: str = "") -> str:
    """Return the visible text of an HTML page, the text of any other text document; empty for other files."""
    if is_html(content_type):
        text = body.decode(detect_charset(body, content_type), "replace").removeprefix("\ufeff")
        return extract_visible_text(LexborHTMLParser(cut_deep_nesting(text), scripting=True))
    kind = content_type.partition(";")[0].strip().lower()
    return decode(body, content_type) if kind.startswith(_TEXT_TYPES) or kind.endswith(_TEXT_ENDINGS) else ""


def extract_visible_text(page: LexborHTMLParser) -> str:
    """Return the visible text of a parsed page, white space as it is; the page is changed and of no use afterwards."""
    # Descendants come last in document order. They go first, because removing an element frees its descendants.
    for node in reversed(page.css(_HIDDEN)):
        if _is_hidden(node):
            node.decompose()
    body = page.body
    if body is None:
        return ""
    for node in page.css(_INLINE):
        node.unwrap(delete_empty=True)
    page.merge_text_nodes()
    return body.text(separator=" ")


def _is_hidden(node: LexborNode) -> bool:
    """Return whether an element that the selector found is hidden: not if only its style looks like it."""
    attributes = node.attributes
    style = attributes.get("style")
    if style is None or "hidden" in attributes or node.tag in _HIDDEN_TAGS:
        return True
    return (node.tag == "dialog" and "open" not in attributes) or _HIDING_STYLE.search(style) is not None
