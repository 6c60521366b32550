"""Compile site tables into the bytes that native/sites.c runs in place (docs/decisions/0020-site-tables.md).

A program holds the blocks of one site and a record for each of its hosts; native/sites.h draws the layout. Numbers have
one byte unless they are marked: u16 and u32 are little-endian. A text has its length before it.
"""

from __future__ import annotations

import struct
from typing import Any

from canonry.core.site_patterns import CLASSES, FILTERS, Capture, list_fields, split_pattern

ANY, TEXT, CHOICE, SPANS = 0, 1, 0x7F, 0x80
KINDS = {"any": ANY, "text": TEXT, **{name: number for number, name in enumerate(CLASSES, 2)}}
FILTER_NUMBERS = {name: number for number, name in enumerate(FILTERS)}
SLASHES = {"keep": 0, "strip": 1, "add": 2}
IGNORE_CASE, NO_OTHERS, TARGET_QUERY, WHOLE, DROP_FRAGMENT, HAS_KEEP, HAS_TARGET, HAS_WRITE = (1 << n for n in range(8))
# A template with a filter that the C core does not know: the reference answers.
_REFERENCE = bytes([1, 1, 0, 1, 0xFF])
_SECTIONS = ("paths", "query", "without", "not", "keep", "drop", "defaults", "rename", "fragments", "write", "target")


class Program:
    """The bytes of one site, and the place of the record of each host in them."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.hosts: list[tuple[str, int]] = []

    def add(self, data: bytes) -> int:
        """Append bytes; return where they begin."""
        place = len(self.data)
        self.data += data
        return place


def compile_site(blocks: list[dict[str, Any]]) -> Program:
    """Compile the blocks of a site."""
    program = Program()
    for block in blocks:
        place = program.add(_compile_block(block))
        known: dict[bytes, int] = {}
        for host, main, group, label, excluded in block["hosts"]:
            record = bytes([group]) + _text(main) + _compile_label(label) + _texts(excluded)
            if record not in known:
                known[record] = program.add(struct.pack("<I", len(program.data) - place) + record)
            program.hosts.append((host, known[record]))
    return program


def _compile_block(block: dict[str, Any]) -> bytes:
    pages = b"".join(_sized(_compile_page(page)) for page in block.get("pages", ()))
    sections = [
        _names(block.get("drop", ())),
        _names(block.get("needs", ())),
        _defaults(block),
        _texts(block.get("drop_fragments", ())),
        pages,
    ]
    head = struct.pack(
        "<BBBB",
        int(block.get("https", False)),
        SLASHES[block.get("slash", "keep")],
        len(block.get("pages", ())),
        int("needs" in block),
    )
    return _join_sections(head, sections)


def _join_sections(head: bytes, sections: list[bytes]) -> bytes:
    """Write a head, the u16 offset of each section from the start, then the sections."""
    offset = len(head) + 2 * len(sections)
    offsets = b""
    for section in sections:
        offsets += struct.pack("<H", offset)
        offset += len(section)
    return head + offsets + b"".join(sections)


def _sized(data: bytes) -> bytes:
    return struct.pack("<H", len(data) + 2) + data


def _text(text: str) -> bytes:
    data = text.encode()
    return bytes([len(data)]) + data


def _texts(texts: tuple[str, ...]) -> bytes:
    return bytes([len(texts)]) + b"".join(map(_text, texts))


def _names(names: tuple[str, ...]) -> bytes:
    """Write parameter names: u64 with a bit for each first character and length, then the names."""
    bits = 0
    for name in names:
        if name.endswith("*"):
            for length in range(len(name) - 1, len(name) - 1 + 64):
                bits |= 1 << ((ord(name[0]) + length) & 63)
        else:
            bits |= 1 << ((ord(name[0]) + len(name)) & 63)
    words = b"".join(_text(name.removesuffix("*")) + bytes([name.endswith("*")]) for name in names)
    return struct.pack("<Q", bits) + bytes([len(names)]) + words


def _defaults(table: dict[str, Any]) -> bytes:
    defaults: dict[str, tuple[str, ...]] = table.get("defaults", {})
    return bytes([len(defaults)]) + b"".join(_text(name) + _texts(values) for name, values in defaults.items())


def _compile_page(page: dict[str, Any]) -> bytes:
    first = [piece for piece in split_pattern(page["path"][0]) if isinstance(piece, Capture)]
    captures = {piece.name: number for number, piece in enumerate(first)}
    query: dict[str, str] = page.get("query", {})
    for pattern in query.values():
        for piece in split_pattern(pattern):
            if isinstance(piece, Capture):
                captures[piece.name] = len(captures)
    flags = sum(
        flag
        for flag, is_on in (
            (IGNORE_CASE, page.get("ignore_case")),
            (NO_OTHERS, page.get("no_other_params")),
            (TARGET_QUERY, page.get("target_query")),
            (WHOLE, page.get("whole")),
            (DROP_FRAGMENT, page.get("fragment") == "drop"),
            (HAS_KEEP, "keep" in page),
            (HAS_TARGET, "target" in page or "target_code" in page),
            (HAS_WRITE, "write" in page),
        )
        if is_on
    )
    groups = sum(1 << group for group in page.get("groups", (0,)))
    excluded: dict[str, tuple[str, ...]] = page.get("not", {})
    rename: dict[str, str] = page.get("rename", {})
    sections = {
        "paths": bytes([len(page["path"])]) + b"".join(_sized(_compile_path(path, captures)) for path in page["path"]),
        "query": bytes([len(query)])
        + b"".join(_text(name) + _sized(_compile_segment(value, captures)) for name, value in query.items()),
        "without": _texts(page.get("without", ())),
        "not": bytes([len(excluded)])
        + b"".join(bytes([captures[name]]) + _texts(words) for name, words in excluded.items()),
        "keep": _names(page.get("keep", ())),
        "drop": _names(page.get("drop", ())),
        "defaults": _defaults(page),
        "rename": bytes([len(rename)]) + b"".join(_text(old) + _text(new) for old, new in rename.items()),
        "fragments": _texts(page.get("drop_fragments", ())),
        "write": _compile_write(page.get("write", ""), captures),
        "target": _compile_template(page.get("target", ""), captures) if "target_code" not in page else _REFERENCE,
    }
    head = struct.pack("<IBB", groups, flags, len(captures))
    return _join_sections(head, [sections[name] for name in _SECTIONS])


def _compile_path(path: str, captures: dict[str, int]) -> bytes:
    segments = [] if path == "/" else path[1:].split("/")
    rest = b"\x00"
    if segments:
        pieces = list(split_pattern(segments[-1]))
        last = pieces[0] if len(pieces) == 1 else ""
        if isinstance(last, Capture) and last.spans:
            rest = bytes([1, captures[last.name], KINDS[last.kind]])
            segments.pop()
    return bytes([len(segments)]) + rest + b"".join(_compile_segment(segment, captures) for segment in segments)


def _compile_segment(text: str, captures: dict[str, int]) -> bytes:
    """Compile a segment or a value: text, then up to two captures with a character between them, then text."""
    pieces = list(split_pattern(text))
    prefix = pieces.pop(0) if pieces and isinstance(pieces[0], str) else ""
    suffix = pieces.pop() if pieces and isinstance(pieces[-1], str) else ""
    found = [piece for piece in pieces if isinstance(piece, Capture)]
    assert isinstance(prefix, str)
    assert isinstance(suffix, str)
    data = _text(prefix) + bytes([len(found)])
    if found:
        data += _compile_capture(found[0], captures)
    if len(found) == 2:
        between = pieces[1]
        assert isinstance(between, str)
        assert len(between) == 1
        from site_format import may_hold

        data += between.encode() + bytes([may_hold(found[0], between)]) + _compile_capture(found[1], captures)
    return data + _text(suffix)


def _compile_capture(capture: Capture, captures: dict[str, int]) -> bytes:
    if capture.choices:
        return bytes([captures[capture.name], CHOICE]) + _texts(capture.choices)
    kind = KINDS[capture.kind] | (SPANS if capture.spans else 0)
    return bytes([captures[capture.name], kind, capture.shortest, capture.longest])


def _compile_label(label: str) -> bytes:
    if not label:
        return bytes([0, ANY, 1, 0])
    (capture,) = split_pattern(label)
    assert isinstance(capture, Capture)
    return _compile_capture(capture, {capture.name: 0})


def _compile_write(write: str, captures: dict[str, int]) -> bytes:
    host = ""
    if write.startswith("https://"):
        host, _, rest = write[8:].partition("/")
        write = f"/{rest}"
        if "{" in host:
            host, write = "*", f"{host}{write}"  # the path's template writes the host too
    path, _, query = write.partition("?")
    written = tuple(param.partition("=")[0] for param in query.split("&")) if query else ()
    return (
        _text(host) + _sized(_compile_template(path, captures)) + _texts(written) + _compile_template(query, captures)
    )


def _compile_template(template: str, captures: dict[str, int]) -> bytes:
    pieces: list[bytes] = []
    at = 0
    for name, filters in list_fields(template):
        field = "{" + "|".join((name, *filters)) + "}"
        start = template.index(field, at)
        if start > at:
            pieces.append(b"\x00" + _text(template[at:start]))
        numbers = bytes(FILTER_NUMBERS[each] for each in filters)
        pieces.append(bytes([1, captures[name], len(numbers)]) + numbers)
        at = start + len(field)
    if at < len(template):
        pieces.append(b"\x00" + _text(template[at:]))
    return bytes([len(pieces)]) + b"".join(pieces)
