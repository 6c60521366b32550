"""URLs in, answers out, line by line: what `canonry normalize` does, in constant memory."""

from __future__ import annotations

import sys

from canonry.core.native import normalize
from canonry.core.presets import policy as shipped_policy
from canonry.core.url import read_url
from canonry.errors import InvalidUrl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

    from canonry.core.policy import Policy

# A line longer than this is refused instead of held in memory.
LONGEST_LINE = 16 * 1024 * 1024
_DEFAULT = "bookmark"


class Options:
    """What `canonry normalize` was asked for."""

    __slots__ = ("as_json", "policy", "policy_id", "with_hash")

    def __init__(self, policy: Policy | None = None, *, with_hash: bool = False, as_json: bool = False) -> None:
        self.policy = shipped_policy(_DEFAULT) if policy is None else policy
        self.policy_id = self.policy.id  # once, not for every line
        self.with_hash = with_hash
        self.as_json = as_json


def answer(texts: Iterable[str | InvalidUrl], options: Options) -> int:
    """Print one line for each text, problems to stderr; the exit code: 1 if any was refused."""
    refused = 0
    if sys.__stdout__ is None:
        raise OSError("standard output is closed")
    # Our own buffer: with PYTHONUNBUFFERED every line would be a system call.
    with open(sys.__stdout__.fileno(), "w", encoding="utf-8", errors="surrogateescape", closefd=False) as out:
        for number, text in enumerate(texts, 1):
            try:
                line = _line(text, options)
            except InvalidUrl as error:
                refused += 1
                line = _refused_line(error, options)
                print(f"canonry: input {number}: {error}", file=sys.stderr)
            out.write(f"{line}\n")
    return 1 if refused else 0


def input_lines(stream: BinaryIO) -> Iterator[str | InvalidUrl]:
    """The lines of a stream; bytes that are not UTF-8 become lone surrogates, which no URL may hold."""
    while raw := stream.readline(LONGEST_LINE):
        if len(raw) == LONGEST_LINE and not raw.endswith(b"\n"):
            _skip_line(stream)
            yield InvalidUrl(_text(raw[:100]), f"the line is longer than {LONGEST_LINE} bytes")
        else:
            yield _text(raw.rstrip(b"\r\n"))


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _skip_line(stream: BinaryIO) -> None:
    while (rest := stream.readline(LONGEST_LINE)) and not rest.endswith(b"\n"):
        pass


def _line(text: str | InvalidUrl, options: Options) -> str:
    if isinstance(text, InvalidUrl):
        raise text
    url = normalize(read_url(text), options.policy)
    if options.as_json:
        return _json({"input": text, "url": url, "policy": options.policy_id, **_hash(url, options)})
    return f"{url}\t{_hash(url, options)['hash']}" if options.with_hash else url


def _refused_line(error: InvalidUrl, options: Options) -> str:
    if options.as_json:
        return _json({"input": error.input, "url": None, "policy": options.policy_id, "reason": error.reason})
    return ""


def _hash(url: str, options: Options) -> dict[str, str]:
    if not options.with_hash:
        return {}
    import hashlib

    return {"hash": hashlib.sha256(url.encode()).hexdigest()}


def _json(record: dict[str, object]) -> str:
    import json

    return json.dumps(record, ensure_ascii=True)
