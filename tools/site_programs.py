"""Compile site tables into the bytes that native/site_match.c runs in place (docs/decisions/0020-site-tables.md).

A program holds the blocks of one site and a record for each of its hosts; native/site_program.h draws the layout.
Numbers have one byte unless they are marked: u16, u32 and u64 are little-endian. A text has its length before it.
"""

from __future__ import annotations

import struct
from typing import Any

from canonry.core.site_patterns import CLASSES, FILTERS, Capture, list_fields, split_pattern
from site_stability import Stability, judge_stability

ANY, TEXT, CHOICE, SPANS = 0, 1, 0x7F, 0x80
KINDS = {"any": ANY, "text": TEXT, **{name: number for number, name in enumerate(CLASSES, 2)}}
FILTER_NUMBERS = {name: number for number, name in enumerate(FILTERS)}
SLASHES = {"keep": 0, "strip": 1, "add": 2}
(
    NO_OTHERS, TARGET_QUERY, WHOLE, DROP_FRAGMENT, HAS_KEEP, HAS_TARGET, HAS_WRITE, HAS_CONDITIONS, WRITES_HOST, STABLE,
    STABLE_PATH, HAS_PARAM_RULES, HAS_RENAMES, GONE,
) = (1 << number for number in range(14))  # fmt: skip
HAS_REST, IGNORE_CASE = 1, 2
SEGMENT_TEXT, SEGMENT_CAPTURE, SEGMENT_MIXED = range(3)
# In the place of a template: the address is found by code, target_code (FILTER_ADDRESS in native/site_program.h).
_ADDRESS = bytes([1, 0xFE])
_SECTIONS = ("query", "without", "not", "keep", "drop", "defaults", "rename", "fragments", "write", "target")
_BLOCK_HEAD_BYTES, _ENTRY_BYTES = 4, 24
_MAX_SEGMENTS, _MAX_CAPTURES = 31, 16  # as in native/site_match.h
_NAME_FILTER_BITS = 64


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
            accepts_all = not label and not excluded
            prefix = f"https://{main}" if main else ""
            record = bytes([group, accepts_all]) + _text(prefix) + _compile_label(label) + _texts(excluded)
            if record not in known:
                known[record] = program.add(struct.pack("<I", len(program.data) - place) + record)
            program.hosts.append((host, known[record]))
    return program


def _compile_block(block: dict[str, Any]) -> bytes:
    pages: tuple[dict[str, Any], ...] = block.get("pages", ())
    sections = [
        _names(block.get("drop", ())),
        _names(block.get("needs", ())),
        _defaults(block),
        _texts(block.get("drop_fragments", ())),
    ]
    head = struct.pack(
        "<BBBB", int(block.get("https", False)), SLASHES[block.get("slash", "keep")], int("needs" in block), 0
    )
    # The entries come last, then the paths and pages that they point to.
    entries_at = _BLOCK_HEAD_BYTES + 2 * (len(sections) + 1) + sum(map(len, sections))
    count = sum(len(page["path"]) for page in pages)
    behind, start = bytearray(), entries_at + 2 + _ENTRY_BYTES * count
    entries = b""
    for number, page in enumerate(pages):
        captures = _number_captures(page)
        page_at = start + len(behind)
        behind += _compile_page(page, captures, judge_stability(pages, number))
        for path in page["path"]:
            path_at = start + len(behind)
            compiled = _compile_path(path, captures)
            behind += compiled
            flags = (HAS_REST if compiled[1] else 0) | (IGNORE_CASE if page.get("ignore_case") else 0)
            least = compiled[0] + bool(compiled[1])
            entries += struct.pack("<QQHHBBH", *_make_shape(path, least, flags), page_at, path_at, flags, least, 0)
    sections.append(struct.pack("<H", count) + entries + bytes(behind))
    return _join_sections(head, sections)


def _make_shape(path: str, segments: int, flags: int) -> tuple[int, int]:
    """Return the shape of the URLs that a path matches, and which of its bits count (native/site_program.h)."""
    shape, mask = (0, 0) if flags & HAS_REST else (segments, 0xFF)
    first = path[1:].partition("/")[0].encode()
    if first and b"{" not in first:
        shape |= len(first) << 8 | (int.from_bytes(first[:4], "little") | 0x20202020) << 32
        mask |= 0xFFFFFFFF_0000FF00
    return shape, mask


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
    """Write parameter names: a filter for the names, one for the prefixes, then the names and the prefixes."""
    exact = tuple(name for name in names if not name.endswith("*"))
    prefixes = tuple(name[:-1] for name in names if name.endswith("*"))
    bits = starts = 0
    for name in exact:
        data = name.encode()
        bits |= 1 << ((data[0] * 7 + data[-1] * 3 + len(data)) % _NAME_FILTER_BITS)
    for prefix in prefixes:
        starts |= 1 << (prefix.encode()[0] % _NAME_FILTER_BITS)
    words = _texts(exact)
    return struct.pack("<QQH", bits, starts, 18 + len(words)) + words + _texts(prefixes)


def _defaults(table: dict[str, Any]) -> bytes:
    defaults: dict[str, tuple[str, ...]] = table.get("defaults", {})
    return bytes([len(defaults)]) + b"".join(_text(name) + _texts(values) for name, values in defaults.items())


def _number_captures(page: dict[str, Any]) -> dict[str, int]:
    patterns = [page["path"][0], *page.get("query", {}).values()]
    found = [piece.name for pattern in patterns for piece in split_pattern(pattern) if isinstance(piece, Capture)]
    assert len(found) <= _MAX_CAPTURES
    return {name: number for number, name in enumerate(found)}


def _compile_page(page: dict[str, Any], captures: dict[str, int], stability: Stability) -> bytes:
    query: dict[str, str] = page.get("query", {})
    flags = sum(
        flag
        for flag, is_on in (
            (NO_OTHERS, page.get("no_other_params")),
            (TARGET_QUERY, page.get("target_query")),
            (WHOLE, page.get("whole")),
            (DROP_FRAGMENT, page.get("fragment") == "drop"),
            (HAS_KEEP, "keep" in page),
            (HAS_TARGET, "target" in page or "target_code" in page),
            (HAS_WRITE, "write" in page),
            (HAS_CONDITIONS, query or "without" in page or page.get("no_other_params")),
            (WRITES_HOST, page.get("write", "").startswith("https://")),
            (STABLE, stability is Stability.ALWAYS),
            (GONE, stability is Stability.GONE),
            (STABLE_PATH, stability is Stability.SAME_PATH),
            (HAS_PARAM_RULES, any(key in page for key in ("keep", "drop", "defaults", "rename"))),
            (HAS_RENAMES, page.get("rename")),
        )
        if is_on
    )
    groups = sum(1 << group for group in page.get("groups", (0,)))
    excluded: dict[str, tuple[str, ...]] = page.get("not", {})
    rename: dict[str, str] = page.get("rename", {})
    sections = {
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
        "target": _compile_template(page.get("target", ""), captures) if "target_code" not in page else _ADDRESS,
    }
    head = struct.pack("<IH", groups, flags)
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
    assert len(segments) < _MAX_SEGMENTS
    return bytes([len(segments)]) + rest + b"".join(_compile_segment(segment, captures) for segment in segments)


def _compile_segment(text: str, captures: dict[str, int]) -> bytes:
    """Compile a segment or a value: text, then up to two captures with a character between them, then text."""
    pieces = list(split_pattern(text))
    prefix = pieces.pop(0) if pieces and isinstance(pieces[0], str) else ""
    suffix = pieces.pop() if pieces and isinstance(pieces[-1], str) else ""
    found = [piece for piece in pieces if isinstance(piece, Capture)]
    assert isinstance(prefix, str)
    assert isinstance(suffix, str)
    if not found:
        return bytes([SEGMENT_TEXT]) + _text(prefix)
    if len(found) == 1 and not prefix and not suffix:
        return bytes([SEGMENT_CAPTURE]) + _compile_capture(found[0], captures)
    data = bytes([SEGMENT_MIXED]) + _text(prefix) + bytes([len(found)]) + _compile_capture(found[0], captures)
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
