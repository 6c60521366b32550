"""`CANONRY_CA_FILE` and Chrome: what it trusts, what it does not, and a file that is no good."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

import pytest
import trustme

from canonry.errors import CanonryError
from canonry.net.chrome.certificates import PLACE, trust_in
from canonry.net.chrome.net_errors import make_failure
from canonry.settings import Settings, load_settings
from chrome import engine_of, needs_chrome
from loopback import ADDRESS, Listener, ca_file, in_a_loop, server_tls

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path

    from canonry.net.engine import Opened

HOST = "inside.example"
BODY = b"<title>Inside</title><a href=/x>x</a>"


async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY))


async def opened(file: str) -> Opened:
    async with Listener(talk, tls=server_tls(HOST)) as server:

        async def lookup(_host: str, _port: int) -> list[tuple[str, int]]:
            return [(ADDRESS, server.port)]

        settings = Settings(chrome=load_settings().chrome, ca_file=file)
        async with engine_of(lookup, settings=settings) as engine:
            return await engine.open(f"https://{HOST}:{server.port}/")


@needs_chrome
@in_a_loop
async def test_chrome_trusts_the_ca_of_the_settings() -> None:
    page = await opened(ca_file())
    assert (page.failure, page.status, page.title, len(page.links)) == (None, 200, "Inside", 1)


@pytest.mark.slow
@needs_chrome
@in_a_loop
async def test_chrome_trusts_no_other(tmp_path: Path) -> None:
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    for file in ("", str(tmp_path / "other.pem")):
        page = await opened(file)
        assert (page.status, page.links) == (0, ())
        assert page.failure == make_failure("ERR_CERT_AUTHORITY_INVALID")
        assert "CANONRY_CA_FILE" in page.error


@needs_chrome
@in_a_loop
async def test_a_file_that_is_no_good_is_said_and_costs_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "bad.pem").write_text("nothing of the kind")
    with caplog.at_level(logging.WARNING, "canonry.chrome"):
        page = await opened(str(tmp_path / "bad.pem"))
    assert page.failure == make_failure("ERR_CERT_AUTHORITY_INVALID")
    assert "Chrome does not trust the CAs of CANONRY_CA_FILE" in caplog.text
    assert "bad.pem: no certificates in it" in caplog.text


@needs_chrome
@in_a_loop
async def test_several_certificates_and_broken_ones(tmp_path: Path) -> None:
    both, broken = tmp_path / "both.pem", tmp_path / "broken.pem"
    pems = [trustme.CA().cert_pem.bytes() for _ in range(2)]
    both.write_bytes(b"# a comment\n" + b"\n".join(pems))
    await trust_in(str(tmp_path / "home"), str(both))
    assert {"cert9.db", "key4.db"} <= set(os.listdir(tmp_path / "home" / PLACE))
    broken.write_bytes(pems[0] + b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    with pytest.raises(CanonryError, match=r"broken.pem: certificate 2: error -\d+ of libnss3.so"):
        await trust_in(str(tmp_path / "second"), str(broken))
    with pytest.raises(CanonryError, match="No such file"):
        await trust_in(str(tmp_path / "third"), str(tmp_path / "none.pem"))
