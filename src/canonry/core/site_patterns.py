"""The small language of site tables: patterns with named captures, and templates that write them (contract N8b).

    /r/{sub:name}/comments/{id:base36}/{slug}      a pattern; each capture stays inside one segment
    {id:id:11}  {kind=p|reel}  {rest+}              a length, a choice of words, one or more segments
    /watch?v={id}   {title|capital}                 a template; `|` filters what was captured

docs/howto/add-a-site.md describes it. The patterns hold no free regular expression, so that the C core can run
them; here they become regular expressions at the first URL of their site.
"""

from __future__ import annotations

import binascii
import re

from canonry.core.rules import lower_unescaped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# The characters that a capture may hold, as the inside of a regular expression's set.
CLASSES = {
    "digits": "0-9",
    "lower": "a-z",
    "letters": "A-Za-z",
    "hex": "0-9A-Fa-f",
    "base36": "0-9a-z",
    "code": "0-9A-Z",
    "alnum": "0-9A-Za-z",
    "label": "0-9a-z-",
    "word": "0-9A-Za-z_",
    "id": r"0-9A-Za-z_\-",
    "name": r"0-9A-Za-z_.\-",
}
# Escapes that `text` may hold and the filter `unescape` decodes: characters that mean the same in a path either way.
PLAIN_ESCAPES = {
    "%21": "!", "%24": "$", "%26": "&", "%27": "'", "%28": "(", "%29": ")", "%2A": "*", "%2B": "+", "%2C": ",",
    "%3A": ":", "%3B": ";", "%3D": "=", "%40": "@",
}  # fmt: skip
# Words in any script: unreserved characters, punctuation without a meaning, and escapes of what is neither.
_TEXT, _TEXT_ESCAPE = r"0-9A-Za-z\-._~!$&'()*+,:;=@", r"(?:%2[0-246-9A-C]|%3[ABD]|%40|%[89A-F][0-9A-F])"
# Compiled by `re` at the first use: compiling would slow down every start.
_CAPTURE = r"\{([a-z][a-z0-9_]*)(\+)?(?:=([^{}]+)|:([a-z0-9]+)(?::([0-9]+)(?:-([0-9]+))?)?)?\}"
_FIELD = r"\{([a-z][a-z0-9_]*)((?:\|[a-z0-9]+)*)\}"
_HTTP = r"(?i)https?://[^/?#]"
MAX_LENGTH = 255  # of a capture whose length is limited


class Capture:
    """One capture of a pattern: its name and what it may hold."""

    __slots__ = ("choices", "kind", "longest", "name", "shortest", "spans")

    def __init__(
        self, name: str, kind: str, *, shortest: int, longest: int, choices: tuple[str, ...], spans: bool
    ) -> None:
        self.name = name
        self.kind = kind  # a name in CLASSES, or `any` or `text`
        self.shortest = shortest
        self.longest = longest  # 0: any length
        self.choices = choices  # not empty: the capture is one of these words
        self.spans = spans  # it holds one or more whole segments


def split_pattern(pattern: str) -> Iterator[str | Capture]:
    """Yield the literals and captures of a pattern in order; ValueError if it is malformed."""
    at = 0
    for token in re.finditer(_CAPTURE, pattern):
        if token.start() > at:
            yield _check_literal(pattern[at : token.start()])
        name, plus, choices, kind, shortest, longest = token.groups()
        if kind is not None and kind not in ("any", "text") and kind not in CLASSES:
            raise ValueError(f"unknown class {kind!r}; known are any, text, {', '.join(CLASSES)}")
        first = int(shortest or 1)
        yield Capture(
            name,
            kind or "any",
            shortest=first,
            longest=int(longest or (first if shortest else 0)),
            choices=tuple(choices.split("|")) if choices else (),
            spans=plus is not None,
        )
        at = token.end()
    if at < len(pattern):
        yield _check_literal(pattern[at:])


def _check_literal(text: str) -> str:
    if "{" in text or "}" in text:
        raise ValueError(f"malformed capture near {text!r}")
    return text


def make_expression(pattern: str, *, ignore_case: bool = False, in_query: bool = False) -> str:
    """Return the regular expression of a pattern, with a named group for each capture."""
    return "".join(_make_piece(piece, ignore_case=ignore_case, in_query=in_query) for piece in split_pattern(pattern))


def _make_piece(piece: str | Capture, *, ignore_case: bool, in_query: bool) -> str:
    if isinstance(piece, str):
        return f"(?i:{re.escape(piece)})" if ignore_case else re.escape(piece)
    if piece.choices:
        words = "|".join(map(re.escape, piece.choices))
        return f"(?P<{piece.name}>(?i:{words}))" if ignore_case else f"(?P<{piece.name}>{words})"
    one = _make_class(piece.kind, in_query=in_query)
    if piece.kind == "text" and (piece.shortest, piece.longest) == (1, 0):
        # Not `(?:[…]|%…)*`: a loop over characters is many times faster than one over a choice.
        more = f"[{_TEXT}/]*" if piece.spans else f"[{_TEXT}]*"
        return f"(?P<{piece.name}>{one}{more}(?:{_TEXT_ESCAPE}{more})*)"
    if piece.spans:
        return f"(?P<{piece.name}>{one}(?:{one}|/)*)"
    count = f"{{{piece.shortest},{piece.longest or ''}}}"
    return f"(?P<{piece.name}>{one}{count})"


def _make_class(kind: str, *, in_query: bool) -> str:
    if kind == "any":
        return "[\\x00-\\x7f]" if in_query else "[^/]"
    return f"(?:[{_TEXT}]|{_TEXT_ESCAPE})" if kind == "text" else f"[{CLASSES[kind]}]"


def make_writer(template: str) -> Callable[[dict[str, str]], str]:
    """Make a function that writes a template with what was captured."""
    start, *rest = re.split(_FIELD, template)[::3]
    fields = [(name, [FILTERS[each] for each in filters]) for name, filters in list_fields(template)]
    pieces = [(*field, literal) for field, literal in zip(fields, rest, strict=True)]

    def write(captures: dict[str, str]) -> str:
        text = start
        for name, filters, literal in pieces:
            value = captures[name]
            for change in filters:
                value = change(value)
            text += value + literal
        return text

    return write


def list_fields(template: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return (name, filters) of each capture that a template writes."""
    return [(field[1], tuple(field[2].split("|")[1:])) for field in re.finditer(_FIELD, template)]


def is_web_address(text: str) -> bool:
    """Return whether a text begins as an http(s) URL with a host."""
    return re.match(_HTTP, text) is not None


def read_form_value(value: str) -> str:
    """Write a query value as it would stand in a path: `C%2B%2B+x` → `C++%20x`."""
    if "+" in value:
        value = value.replace("+", "%20")
    return re.sub("%2[6BF]|%3D", _decode_one, value) if "%" in value else value


def _decode_one(match: re.Match[str]) -> str:
    return chr(int(match[0][1:], 16))


def _capitalize(text: str) -> str:
    return text[0].upper() + text[1:] if "a" <= text[:1] <= "z" else text


def _unescape(text: str) -> str:
    return re.sub("%(?:2[146-9A-C]|3[ABD]|40)", lambda match: PLAIN_ESCAPES[match[0]], text) if "%" in text else text


def _decode(text: str) -> str:
    """Decode every escape once; a text that is not UTF-8 then gives the empty string."""
    if "%" not in text:
        return text
    data = re.sub(rb"%([0-9A-Fa-f]{2})", lambda match: bytes([int(match[1], 16)]), text.encode())
    try:
        return data.decode()
    except UnicodeDecodeError:
        return ""


def _decode_proofpoint(text: str) -> str:
    """Decode the target of urldefense.proofpoint.com/v2: `https-3A__a.com_b` → `https://a.com/b`."""
    return _decode(text.replace("-", "%").replace("_", "/"))


def _decode_base64(text: str) -> str:
    """Decode base64 of either alphabet, padded or not; a text that is not base64 or UTF-8 gives the empty string."""
    data = text.rstrip("=").replace("-", "+").replace("_", "/")
    if not re.fullmatch("[0-9A-Za-z+/]*", data):  # binascii would skip other characters
        return ""
    try:
        return binascii.a2b_base64(data + "=" * (-len(data) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


_PROOFPOINT = "/v3/+__(https?):/+(.+?)__;([0-9A-Za-z_=-]*)!"


def decode_proofpoint(address: str) -> str:
    """Decode the path and query of urldefense.com/v3: `/v3/__https://a.com/b*c__;Iw!!x!y$` → `https://a.com/b#c`.

    A table cannot express this: the characters that each `*` replaces stand after the address, in base64. `**` replaces
    a run of characters; such an address is left as it is.
    """
    found = re.search(_PROOFPOINT, address)
    if found is None:
        return ""
    scheme, rest, replaced = found.groups()
    characters = _decode_base64(replaced.rstrip("="))
    start, *others = rest.split("*")
    if "**" in rest or len(others) != len(characters):
        return ""
    return f"{scheme}://{start}" + "".join(map("".join, zip(characters, others, strict=True)))


FILTERS: dict[str, Callable[[str], str]] = {
    "lower": lower_unescaped,
    "upper": str.upper,
    "capital": _capitalize,
    "underscores": lambda text: text.replace("%20", "_"),
    "unescape": _unescape,
    "decode": _decode,
    "proofpoint": _decode_proofpoint,
    "base64": _decode_base64,
    "dashes": lambda text: text.replace("_", "-").replace(".", "-"),
}
# How to find a target in the path and the query where a table cannot express it; the same in C: native/site_target.c.
TARGET_CODES: dict[str, Callable[[str], str]] = {"proofpoint": decode_proofpoint}
