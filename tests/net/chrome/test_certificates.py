"""`CANONRY_CA_FILE` and Chrome: which CAs it trusts, which it refuses, and files that are not usable."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING

import pytest
import trustme

from canonry.errors import CanonryError
from canonry.net.chrome.certificates import STORE_FOLDER, trust_ca_file
from canonry.net.chrome.net_errors import make_failure
from canonry.net.origin import Origin
from canonry.settings import Settings, load_settings
from chrome import make_engine, needs_chrome
from loopback import ADDRESS, Listener, get_ca_file, in_a_loop, make_server_tls

if TYPE_CHECKING:
    from pathlib import Path

    from canonry.net.engine import OpenedPage

HOST = "inside.example"
BODY = b"<title>Inside</title><a href=/x>x</a>"


async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY))


async def open_page(file: str) -> OpenedPage:
    async with Listener(talk, tls=make_server_tls(HOST)) as server:

        async def lookup(_host: str, _port: int) -> list[tuple[str, int]]:
            return [(ADDRESS, server.port)]

        settings = Settings(chrome=load_settings().chrome, ca_file=file)
        async with make_engine(lookup, settings=settings) as engine:
            return await engine.open(f"https://{HOST}:{server.port}/", origin=Origin.PERSON)


@needs_chrome
@in_a_loop
async def test_chrome_trusts_the_ca_of_the_settings() -> None:
    page = await open_page(get_ca_file())
    assert (page.failure, page.status, page.title, len(page.links)) == (None, 200, "Inside", 1)


@pytest.mark.slow
@needs_chrome
@in_a_loop
async def test_chrome_trusts_no_other_ca(tmp_path: Path) -> None:
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    for file in ("", str(tmp_path / "other.pem")):
        page = await open_page(file)
        assert (page.status, page.links) == (0, ())
        assert page.failure == make_failure("ERR_CERT_AUTHORITY_INVALID")
        assert "CANONRY_CA_FILE" in page.error


@needs_chrome
@in_a_loop
async def test_an_unusable_file_is_logged_and_chrome_runs_without_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "bad.pem").write_text("not a certificate")
    with caplog.at_level(logging.WARNING, "canonry.chrome"):
        page = await open_page(str(tmp_path / "bad.pem"))
    assert page.failure == make_failure("ERR_CERT_AUTHORITY_INVALID")
    assert "Chrome does not trust the CAs of CANONRY_CA_FILE" in caplog.text
    assert "bad.pem: It is not a file of PEM certificates" in caplog.text


@needs_chrome
@in_a_loop
async def test_a_file_with_several_certificates_is_stored(tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    both.write_bytes(b"# a comment\n" + b"\n".join(trustme.CA().cert_pem.bytes() for _ in range(2)))
    await trust_ca_file(str(tmp_path / "home"), str(both))
    assert {"cert9.db", "key4.db"} <= set(os.listdir(tmp_path / "home" / STORE_FOLDER))


@in_a_loop
async def test_a_broken_or_missing_file_is_an_error(tmp_path: Path) -> None:
    broken = tmp_path / "broken.pem"
    pem = trustme.CA().cert_pem.bytes()
    broken.write_bytes(pem + b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    with pytest.raises(CanonryError, match=r"broken.pem: It is not a file of PEM certificates"):
        await trust_ca_file(str(tmp_path / "broken"), str(broken))
    with pytest.raises(CanonryError, match="No such file"):
        await trust_ca_file(str(tmp_path / "missing"), str(tmp_path / "none.pem"))


@needs_chrome
@in_a_loop
async def test_chrome_asks_no_other_host_after_a_certificate_error() -> None:
    """The check for captive portals begins within a second, and ends before a second page could be opened."""
    asked: list[str] = []
    async with Listener(talk, tls=make_server_tls(HOST)) as server:

        async def lookup(host: str, _port: int) -> list[tuple[str, int]]:
            asked.append(host)
            return [(ADDRESS, server.port)]

        async with make_engine(lookup, settings=Settings(chrome=load_settings().chrome), tabs=1) as engine:
            for number in range(3):
                page = await engine.open(f"https://{HOST}:{server.port}/{number}", origin=Origin.PERSON)
                assert page.failure == make_failure("ERR_CERT_AUTHORITY_INVALID")
                await asyncio.sleep(1)
            requested = [failed.url for endpoint in engine.proxy.endpoints for failed in endpoint.failures]
    assert set(asked) == {HOST}
    assert not [url for url in requested if HOST not in url]
