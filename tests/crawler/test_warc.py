"""WARC files of crawls, read back with warcio: complete, without credentials, readable after a kill (contract C6)."""

from __future__ import annotations

import errno
import gzip
import os
import stat
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from canonry.crawler.crawl import crawl
from canonry.crawler.warc import open_warc, repair_warc
from canonry.errors import CanonryError
from canonry.net.site_access import SiteAccess
from canonry.store.database import Database
from chrome import make_page, needs_chrome
from loopback import ADDRESS, LoopbackWeb, in_a_loop

if TYPE_CHECKING:
    from pathlib import Path

SITE = "http://site.example"
ENGINES = ["http", pytest.param("chrome", marks=needs_chrome)]
SECRETS = (b"s3cret", b"czNjcmV0", b"session-of-the-server")


class Record(NamedTuple):
    kind: str
    url: str
    status: str
    body: bytes
    headers: dict[str, str]
    fields: dict[str, str]


def read_warc(file: Path) -> list[Record]:
    from warcio.archiveiterator import ArchiveIterator  # type: ignore[import-untyped]

    records: list[Record] = []
    with file.open("rb") as source:
        iterator: Any = ArchiveIterator(source, check_digests="raise")
        for record in iterator:
            http = record.http_headers
            records.append(
                Record(
                    record.rec_type,
                    record.rec_headers.get_header("WARC-Target-URI") or "",
                    http.get_statuscode() if http else "",
                    record.content_stream().read(),
                    {name.lower(): value for name, value in http.headers} if http else {},
                    dict(record.rec_headers.headers),
                )
            )
    return records


PAGES = {
    f"{SITE}/robots.txt": {"headers": {"Content-Type": "text/plain"}, "body": "User-agent: *\nDisallow: /private\n"},
    f"{SITE}/": make_page(
        "<title>Start</title>"
        + "".join(f"<a href={path}>x</a>" for path in ("/a", "/old", "/latin", "/missing", "/data")),
        **{"Set-Cookie": "id=session-of-the-server"},
    ),
    f"{SITE}/a": make_page("<p>A"),
    f"{SITE}/b": make_page("<p>B", **{"Canonry-Proxy": "not the token"}),  # as answers of our own proxy
    f"{SITE}/old": {"status": 301, "headers": {"Location": "/b"}},
    f"{SITE}/latin": {"headers": {"Content-Type": "text/html; charset=iso-8859-1"}, "body_base64": "PHA+5A=="},
    f"{SITE}/missing": {"status": 404, "headers": {"Content-Type": "text/html"}, "body": "no such page"},
    f"{SITE}/data": {"headers": {"Content-Type": "text/plain"}, "body": "plain text"},
}


async def run(web: LoopbackWeb, file: Path, engine: str = "http", **options: Any) -> list[str]:
    given: dict[str, Any] = {"engine": engine, "store": "sqlite://", "retries": 0, "warc": file, **options}
    async with web.client() as client:
        return [page.url async for page in crawl(f"{SITE}/", client=client, **given)]


@pytest.mark.parametrize("engine", ENGINES)
@in_a_loop
async def test_a_warc_file_has_every_request_and_answer(engine: str, tmp_path: Path) -> None:
    file = tmp_path / "site.warc.gz"
    async with LoopbackWeb(PAGES) as web:
        await run(web, file, engine)
        requested = {request.url for request in web.seen}
    records = read_warc(file)
    assert records[0].kind == "warcinfo" and b"canonry/" in records[0].body
    responses = {record.url: record for record in records if record.kind == "response"}
    assert set(responses) == requested == {record.url for record in records if record.kind == "request"}
    assert {url.removeprefix(SITE): record.status for url, record in responses.items()} == {
        **dict.fromkeys(("/robots.txt", "/", "/a", "/b", "/latin", "/data"), "200"), "/old": "301", "/missing": "404",
    }  # fmt: skip
    for path in ("/robots.txt", "/", "/a", "/missing", "/data"):
        assert responses[SITE + path].body.decode() == PAGES[SITE + path]["body"], path
    assert responses[f"{SITE}/latin"].body == b"<p>\xe4", "the bytes are those that the server sent"
    assert responses[f"{SITE}/a"].fields["WARC-IP-Address"] == ADDRESS
    [asked] = [record for record in records if record.kind == "request" and record.url == f"{SITE}/a"]
    assert asked.fields["WARC-Concurrent-To"] == responses[f"{SITE}/a"].fields["WARC-Record-ID"]
    assert asked.headers["host" if engine == "http" else "user-agent"]


@pytest.mark.parametrize("engine", ENGINES)
@in_a_loop
async def test_a_warc_file_has_no_credentials(engine: str, tmp_path: Path) -> None:
    file = tmp_path / "site.warc.gz"
    headers = {"Authorization": "Basic czNjcmV0", "X-Key": "s3cret-key"}
    access = SiteAccess(SITE, headers, {"login": "s3cret-cookie"})
    async with LoopbackWeb(PAGES) as web:
        await run(web, file, engine, access=access)
        assert any(request.headers.get("x-key") == "s3cret-key" for request in web.seen), "they were sent"
    content = gzip.decompress(file.read_bytes())
    assert [secret for secret in SECRETS if secret in content] == []
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@in_a_loop
async def test_a_password_in_the_seed_is_not_archived(tmp_path: Path) -> None:
    file = tmp_path / "site.warc.gz"
    async with LoopbackWeb(PAGES) as web, web.client() as client:
        seed = f"{SITE.replace('://', '://user:s3cret@')}/"
        async for _ in crawl(seed, engine="http", client=client, store="sqlite://", warc=file):
            pass
        assert any("authorization" in request.headers for request in web.seen)
    content = gzip.decompress(file.read_bytes())
    assert b"s3cret" not in content and b"uthorization" not in content and b"user:" not in content


@in_a_loop
async def test_resuming_appends_and_a_cut_record_is_removed(tmp_path: Path) -> None:
    file = tmp_path / "site.warc.gz"
    with Database(f"sqlite:///{tmp_path}/crawl.db") as database:
        async with LoopbackWeb(PAGES) as web:
            await run(web, file, store=database, max_pages=2)
            complete = file.read_bytes()
            with file.open("ab") as out:  # as a kill in the middle of a record leaves it
                out.write(gzip.compress(b"WARC/1.1\r\nWARC-Type: response\r\n" + bytes(range(256)) * 50)[:60])
            await run(web, file, store=database, resume=True, max_pages=None)
            requested = {request.url for request in web.seen}
    assert file.read_bytes().startswith(complete)
    records = read_warc(file)
    assert {record.url for record in records if record.kind == "response"} == requested
    assert [record.kind for record in records].count("warcinfo") == 2


@pytest.mark.parametrize("engine", ENGINES)
@in_a_loop
async def test_a_full_disk_ends_the_crawl_and_leaves_complete_records(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "site.warc.gz"
    written = 0

    def write_until_full(descriptor: int, data: bytes) -> int:
        nonlocal written
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return write(descriptor, data)  # a pipe to Chrome
        room = 4000 - written
        if room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written += len(data[:room])
        return write(descriptor, data[:room])

    with Database(f"sqlite:///{tmp_path}/crawl.db") as database:
        async with LoopbackWeb(PAGES) as web:
            write = os.write
            with monkeypatch.context() as patch:
                patch.setattr("canonry.crawler.warc.os.write", write_until_full)
                with pytest.raises(CanonryError, match="The WARC file cannot be written: No space left on device"):
                    await run(web, file, engine, store=database)
            assert len(read_warc(file)) > 1 and file.stat().st_size < 4000
            await run(web, file, engine, store=database, resume=True)
            requested = {request.url for request in web.seen}
    assert {record.url for record in read_warc(file) if record.kind == "response"} == requested


@in_a_loop
async def test_an_existing_file_is_not_replaced(tmp_path: Path) -> None:
    file = tmp_path / "site.warc.gz"
    file.write_bytes(b"precious")
    async with LoopbackWeb(PAGES) as web:
        for resume in (False, True):
            with pytest.raises(CanonryError):
                await run(web, file, resume=resume)
        assert not web.seen
    assert file.read_bytes() == b"precious"


def test_repairing_leaves_complete_files_alone(tmp_path: Path) -> None:
    file = tmp_path / "a.warc.gz"
    with open_warc(file, appends=False, info={"software": "x"}):
        pass
    before = file.read_bytes()
    repair_warc(file)
    assert file.read_bytes() == before
    file.write_bytes(before[:-3])
    repair_warc(file)
    assert file.read_bytes() == b"", "the only record was cut"
    file.write_bytes(before + b"not gzip at all")
    repair_warc(file)
    assert file.read_bytes() == before


@in_a_loop
async def test_unchanged_pages_are_revisits(tmp_path: Path) -> None:
    page = {**make_page("<p>A"), "revalidates": True}
    page["headers"] = {**page["headers"], "ETag": '"1"'}
    async with LoopbackWeb({f"{SITE}/": page, f"{SITE}/robots.txt": {"status": 404}}) as web:
        with Database("sqlite://") as database:
            await run(web, tmp_path / "1.warc.gz", store=database)
            await run(web, tmp_path / "2.warc.gz", store=database, again=True)
    [revisit] = [record for record in read_warc(tmp_path / "2.warc.gz") if record.kind == "revisit"]
    assert revisit.url == f"{SITE}/" and revisit.fields["WARC-Profile"].endswith("server-not-modified")


@in_a_loop
async def test_a_fetch_function_of_the_caller_is_archived(tmp_path: Path) -> None:
    from canonry import Response

    async def fetch(url: str, **_: object) -> Response:
        return Response(200, url, {"content-type": "text/html"}, b"<p>own")

    file = tmp_path / "own.warc.gz"
    pages = crawl(f"{SITE}/", engine="http", fetch=fetch, store="sqlite://", warc=file, robots=False)
    assert [page.status async for page in pages] == [200]
    [response] = [record for record in read_warc(file) if record.kind == "response"]
    assert (response.url, response.body) == (f"{SITE}/", b"<p>own")
