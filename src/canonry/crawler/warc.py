"""Write the requests and answers of a crawl to a WARC file, the format of web archives (ISO 28500).

Every record is a gzip member of its own, written at once: a crawl that is killed leaves a readable file, and one that
is resumed appends to it. Records are written before their page is recorded in the store, so that no page is missing.
"""

from __future__ import annotations

import asyncio
import os
import threading
import zlib
from contextlib import contextmanager, suppress
from http import HTTPStatus
from importlib import import_module
from io import BytesIO
from typing import TYPE_CHECKING, Any

from canonry.core.url import parse
from canonry.errors import CanonryError

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Mapping
    from pathlib import Path

    from canonry.net.http_exchange import Exchange

_CHUNK_BYTES = 2**20
_NOT_MODIFIED = 304
_NOT_MODIFIED_PROFILE = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
# The body is stored decoded: these headers describe how it was sent.
_TRANSFER_HEADERS = frozenset({"content-encoding", "transfer-encoding", "content-length"})


@contextmanager
def open_warc(
    file: Path,
    *,
    appends: bool,
    is_private: bool = False,
    secret_headers: Collection[str] = (),
    info: Mapping[str, str],
) -> Generator[WarcFile]:
    """Open a new WARC file, or with `appends` one that may exist; `info` describes the crawl.

    Raises CanonryError if the file exists or is no WARC file. Headers that give access to a site are left out, also
    those that are named in `secret_headers`; with `is_private`, only this account can read the file.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    if appends and file.exists():
        repair_warc(file)
    elif not appends:
        flags |= os.O_EXCL
    try:
        descriptor = os.open(file, flags, 0o600 if is_private else 0o666)
    except FileExistsError:
        raise CanonryError(f"{file}: the file exists. Choose another name, or append with --resume.") from None
    except OSError as error:
        raise CanonryError(f"{file}: the file cannot be written: {error.strerror}") from None
    try:
        writer = WarcFile(descriptor, frozenset(name.lower() for name in secret_headers))
        writer.write_info(file.name, info)
        yield writer
    finally:
        os.close(descriptor)


class WarcFile:
    """An open WARC file; an `Archive`."""

    def __init__(self, descriptor: int, secret_headers: Collection[str]) -> None:
        self._descriptor = descriptor
        self._secret_headers = secret_headers
        self._lock = threading.Lock()
        self._warcio: Any = import_module("warcio.warcwriter")
        self._headers: Any = import_module("warcio.statusandheaders").StatusAndHeaders

    async def add(self, exchange: Exchange) -> None:
        """Write one exchange: a response, or a revisit if the page has not changed, and the request if it is known."""
        await asyncio.to_thread(self._write, exchange.remove_credentials(self._secret_headers))

    def write_info(self, name: str, info: Mapping[str, str]) -> None:
        """Write the record that describes the records after it."""
        buffer, writer = self._make_writer()
        writer.write_record(writer.create_warcinfo_record(name, info))
        self._append(buffer)

    def _write(self, exchange: Exchange) -> None:
        buffer, writer = self._make_writer()
        is_revisit = exchange.status == _NOT_MODIFIED
        fields = {"WARC-Date": f"{exchange.began_at:%Y-%m-%dT%H:%M:%S.%fZ}"}
        if exchange.address:
            fields["WARC-IP-Address"] = exchange.address
        response_fields = {**fields, "WARC-Truncated": "length"} if exchange.is_cut else dict(fields)
        if is_revisit:
            response_fields["WARC-Profile"] = _NOT_MODIFIED_PROFILE
        status_line = f"{exchange.status} {exchange.reason or _find_reason(exchange.status)}"
        response = writer.create_warc_record(
            exchange.url,
            "revisit" if is_revisit else "response",
            payload=BytesIO(exchange.body),
            length=len(exchange.body),
            warc_headers_dict=response_fields,
            http_headers=self._headers(status_line, _describe_body(exchange), protocol="HTTP/1.1"),
        )
        if exchange.request_headers is None:
            writer.write_record(response)
        else:
            parts = parse(exchange.url)
            target = (parts.path or "/") + ("" if parts.query is None else f"?{parts.query}")
            headers = list(exchange.request_headers)
            if not any(name.lower() == "host" for name, _ in headers):
                headers.insert(0, ("Host", parts.host + (f":{parts.port}" if parts.port else "")))
            line = f"{exchange.method} {target} HTTP/1.1"
            request_line = self._headers(line, [_make_plain(header) for header in headers], is_http_request=True)
            request = writer.create_warc_record(
                exchange.url, "request", warc_headers_dict=dict(fields), http_headers=request_line
            )
            writer.write_request_response_pair(request, response)
        self._append(buffer)

    def _make_writer(self) -> tuple[BytesIO, Any]:
        buffer = BytesIO()
        return buffer, self._warcio.WARCWriter(buffer, gzip=True, warc_version="1.1")

    def _append(self, buffer: BytesIO) -> None:
        with self._lock:  # a task that is cancelled leaves its thread behind
            size = os.fstat(self._descriptor).st_size
            rest = memoryview(buffer.getvalue())
            try:
                while rest:
                    rest = rest[os.write(self._descriptor, rest) :]
            except OSError as error:
                with suppress(OSError):  # what follows an incomplete record cannot be read
                    os.ftruncate(self._descriptor, size)
                advice = "The crawl ends here, so that no page is missing; continue it with --resume."
                raise CanonryError(f"The WARC file cannot be written: {error.strerror}. {advice}") from None


def _describe_body(exchange: Exchange) -> list[tuple[str, str]]:
    """Return the headers of a response for its decoded body; those about the transfer are kept under another name."""
    headers = [
        _make_plain((f"X-Archive-Orig-{name}" if name.lower() in _TRANSFER_HEADERS else name, value))
        for name, value in exchange.headers
    ]
    return headers if exchange.status == _NOT_MODIFIED else [*headers, ("Content-Length", str(len(exchange.body)))]


def _make_plain(header: tuple[str, str]) -> tuple[str, str]:
    """Return a header without line breaks, which Chrome uses to join headers of one name."""
    name, value = header
    return name, " ".join(value.splitlines()).encode("latin-1", "replace").decode("latin-1")


def _find_reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


def repair_warc(file: Path) -> None:
    """Cut off a record at the end of a file that was not written completely."""
    size = file.stat().st_size
    end = _find_complete_end(file)
    if end is None:
        raise CanonryError(f"{file}: not a WARC file in gzip format. Choose another name.")
    if end < size:
        os.truncate(file, end)


def _find_complete_end(file: Path) -> int | None:
    """Return where the last complete gzip member ends; None if the file is no WARC file."""
    end = 0
    beginning = b""
    with file.open("rb") as source:
        member = zlib.decompressobj(zlib.MAX_WBITS | 16)
        while chunk := source.read(_CHUNK_BYTES):
            while chunk:
                try:
                    text = member.decompress(chunk)
                except zlib.error:
                    return end if end and beginning.startswith(b"WARC/") else None
                beginning = beginning or text[:10]
                if not member.eof:
                    break
                chunk = member.unused_data
                end = source.tell() - len(chunk)
                member = zlib.decompressobj(zlib.MAX_WBITS | 16)
    return end if not beginning or beginning.startswith(b"WARC/") else None
