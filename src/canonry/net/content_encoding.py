"""Decode compressed bodies piece by piece, so that a small body cannot fill the memory (contract G, I11).

gzip and deflate are always read; br and zstd if their libraries are installed: `brotli` 1.2 or newer, and
`backports.zstd` before Python 3.14.
"""

from __future__ import annotations

import zlib
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PIECE_BYTES = 2**16  # decoded at once
_MAX_MEMBERS = 1000  # of a gzip or zstd body, which may be empty
_ZSTD_WINDOW_LOG = 23  # 8 MiB, the most that a zstd body may ask for: https://www.rfc-editor.org/rfc/rfc9659


class DecodeError(Exception):
    """A body that is not in the encoding that its header names."""


class Decoder(Protocol):
    """Decodes one body."""

    def decode(self, data: bytes) -> Iterator[bytes]:
        """Yield the next pieces of the decoded body; DecodeError if the data cannot be decoded."""
        ...

    def finish(self) -> None:
        """Raise DecodeError if the body ends too early."""
        ...


def make_decoder(encoding: str) -> Decoder | None:
    """Return a decoder for a Content-Encoding header in lower case; None for an encoding that was not asked for."""
    codings = [coding for part in encoding.split(",") if (coding := part.strip()) not in _NOT_CODINGS]
    if not codings:
        return _Identity()
    make = _DECODERS.get(codings[0]) if len(codings) == 1 else None
    return None if make is None else make()


class _Identity:
    def decode(self, data: bytes) -> Iterator[bytes]:
        yield data

    def finish(self) -> None:
        """Every body is complete."""


class _Gzip:
    """A cut body is read as far as it goes; bytes after the last member are ignored, as browsers do."""

    def __init__(self) -> None:
        self._member: Any = zlib.decompressobj(31)
        self._members = 1
        self._has_output = False  # of this member
        self._is_done = False

    def decode(self, data: bytes) -> Iterator[bytes]:
        while data and not self._is_done:
            try:
                piece = self._member.decompress(data, _PIECE_BYTES)
            except zlib.error as error:
                if self._members == 1 or self._has_output:
                    raise DecodeError(str(error)) from None
                self._is_done = True
                return
            if piece:
                self._has_output = True
                yield piece
            data = self._member.unconsumed_tail
            if self._member.eof:
                if self._members >= _MAX_MEMBERS:
                    raise DecodeError(f"more than {_MAX_MEMBERS} members")
                data, self._member = self._member.unused_data, zlib.decompressobj(31)
                self._members += 1
                self._has_output = False

    def finish(self) -> None:
        """A cut body is read as far as it goes."""


class _Deflate:
    """zlib, or the bare deflate that some servers send in its place."""

    def __init__(self) -> None:
        self._stream: Any = None

    def decode(self, data: bytes) -> Iterator[bytes]:
        if self._stream is None and data:
            self._stream = zlib.decompressobj(15 if data[0] & 0xF == 8 else -15)
        stream: Any = self._stream
        while data and not stream.eof:
            try:
                piece = stream.decompress(data, _PIECE_BYTES)
            except zlib.error as error:
                raise DecodeError(str(error)) from None
            if piece:
                yield piece
            data = stream.unconsumed_tail

    def finish(self) -> None:
        if self._stream is not None and not self._stream.eof:
            raise DecodeError("incomplete")


class _Brotli:
    def __init__(self, module: Any) -> None:
        self._error: type[Exception] = module.error
        self._stream = module.Decompressor()
        self._is_empty = True

    def decode(self, data: bytes) -> Iterator[bytes]:
        self._is_empty = self._is_empty and not data
        while not self._stream.is_finished():
            try:
                piece: bytes = self._stream.process(data, output_buffer_limit=_PIECE_BYTES)
            except self._error as error:
                raise DecodeError(str(error)) from None
            if piece:
                yield piece
            data = b""
            if self._stream.can_accept_more_data():
                return

    def finish(self) -> None:
        if not self._is_empty and not self._stream.is_finished():
            raise DecodeError("incomplete")


class _Zstd:
    def __init__(self, module: Any) -> None:
        self._module = module
        self._frame = self._start_frame()
        self._frames = 1
        self._is_within = False  # a frame has begun and not ended

    def decode(self, data: bytes) -> Iterator[bytes]:
        while data or not self._frame.needs_input:
            self._is_within = True
            try:
                piece: bytes = self._frame.decompress(data, _PIECE_BYTES)
            except self._module.ZstdError as error:
                raise DecodeError(str(error)) from None
            if piece:
                yield piece
            data = b""
            if self._frame.eof:
                if self._frames >= _MAX_MEMBERS:
                    raise DecodeError(f"more than {_MAX_MEMBERS} frames")
                data, self._frame = self._frame.unused_data, self._start_frame()
                self._frames += 1
                self._is_within = False

    def finish(self) -> None:
        if self._is_within:
            raise DecodeError("incomplete")

    def _start_frame(self) -> Any:
        parameter = self._module.DecompressionParameter.window_log_max
        return self._module.ZstdDecompressor(options={parameter: _ZSTD_WINDOW_LOG})


def _find_brotli() -> Any:
    """Return a brotli library that limits how much it decodes at once; None if there is none."""
    for name in ("brotli", "brotlicffi"):
        try:
            module = import_module(name)
            module.Decompressor().process(b"", output_buffer_limit=1)
        except (ImportError, AttributeError, TypeError):
            continue
        return module
    return None


def _find_zstd() -> Any:
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return import_module(name)
        except ImportError:
            continue
    return None


def _collect_decoders() -> dict[str, Callable[[], Decoder]]:
    decoders: dict[str, Callable[[], Decoder]] = {"gzip": _Gzip, "deflate": _Deflate}
    if (brotli := _find_brotli()) is not None:
        decoders["br"] = lambda: _Brotli(brotli)
    if (zstd := _find_zstd()) is not None:
        decoders["zstd"] = lambda: _Zstd(zstd)
    return decoders


_COMPRESSED = _collect_decoders()
ACCEPT_ENCODING = ", ".join(_COMPRESSED)
# Names of charsets, of encodings of e-mail and of S3 uploads, which servers put there by mistake. Browsers ignore them.
_NOT_CODINGS = frozenset({
    "", "identity", "none", "utf-8", "utf8", "iso-8859-1", "us-ascii", "windows-1252", "7bit", "8bit", "binary", "text",
    "aws-chunked",
})  # fmt: skip
# x-gzip is gzip: https://www.rfc-editor.org/rfc/rfc9110#name-gzip-coding
_DECODERS: dict[str, Callable[[], Decoder]] = {"x-gzip": _Gzip, **_COMPRESSED}
