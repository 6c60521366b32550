"""Normalize line by line in constant memory: the work of `canonry normalize`."""

from __future__ import annotations

import sys

from canonry.core.native import normalize
from canonry.core.presets import policy as shipped_policy
from canonry.core.url import read_url
from canonry.url_errors import InvalidUrl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

    from canonry.core.policy import Policy

# A longer line is invalid instead of being held in memory.
MAX_LINE_BYTES = 16 * 1024 * 1024
_DEFAULT_POLICY = "bookmark"


class LineOptions:
    """The options of `canonry normalize`."""

    __slots__ = ("as_json", "policy", "policy_id", "with_hash")

    def __init__(self, policy: Policy | None = None, *, with_hash: bool = False, as_json: bool = False) -> None:
        self.policy = shipped_policy(_DEFAULT_POLICY) if policy is None else policy
        self.policy_id = self.policy.id  # computed once, not for every line
        self.with_hash = with_hash
        self.as_json = as_json


def print_normalized(texts: Iterable[str | InvalidUrl], options: LineOptions) -> int:
    """Print one line for each text, errors to stderr; return the exit code, 1 if any text was invalid."""
    invalid = 0
    if sys.__stdout__ is None:
        raise OSError("standard output is closed")
    # A buffer of our own: with PYTHONUNBUFFERED every line would be a system call.
    with open(sys.__stdout__.fileno(), "w", encoding="utf-8", errors="surrogateescape", closefd=False) as out:
        for number, text in enumerate(texts, 1):
            try:
                line = _normalize_line(text, options)
            except InvalidUrl as error:
                invalid += 1
                line = _format_error(error, options)
                print(f"canonry: input {number}: {error}", file=sys.stderr)
            out.write(f"{line}\n")
    return 1 if invalid else 0


def read_lines(stream: BinaryIO) -> Iterator[str | InvalidUrl]:
    """Yield the lines of a stream; bytes that are not UTF-8 become lone surrogates, which are invalid in URLs."""
    while raw := stream.readline(MAX_LINE_BYTES):
        if len(raw) == MAX_LINE_BYTES and not raw.endswith(b"\n"):
            _skip_line(stream)
            yield InvalidUrl(_decode(raw[:100]), f"the line is longer than {MAX_LINE_BYTES} bytes")
        elif b"\r" in (line := raw.rstrip(b"\r\n")):  # parsing would drop it and join two URLs to one
            yield InvalidUrl(_decode(line[:100]), "a carriage return inside the line: end lines with LF or CR LF")
        else:
            yield _decode(line)


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _skip_line(stream: BinaryIO) -> None:
    while (rest := stream.readline(MAX_LINE_BYTES)) and not rest.endswith(b"\n"):
        pass


def _normalize_line(text: str | InvalidUrl, options: LineOptions) -> str:
    if isinstance(text, InvalidUrl):
        raise text
    url = normalize(read_url(text), options.policy)
    if options.as_json:
        return _dump_json({"input": text, "url": url, "policy": options.policy_id, **_make_hash(url, options)})
    return f"{url}\t{_make_hash(url, options)['hash']}" if options.with_hash else url


def _format_error(error: InvalidUrl, options: LineOptions) -> str:
    if options.as_json:
        return _dump_json({"input": error.input, "url": None, "policy": options.policy_id, "reason": error.reason})
    return ""


def _make_hash(url: str, options: LineOptions) -> dict[str, str]:
    if not options.with_hash:
        return {}
    import hashlib

    return {"hash": hashlib.sha256(url.encode()).hexdigest()}


def _dump_json(record: dict[str, object]) -> str:
    import json

    return json.dumps(record, ensure_ascii=True)
