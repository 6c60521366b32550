"""Sitemaps: what is read of them, and what hostile files cannot do."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from canonry.errors import FailureKind, FetchFailed
from canonry.net.origin import Origin
from canonry.net.response import Response
from canonry.net.sitemap import MAX_FILE_URLS, MAX_FILES, NamedUrl, iter_sitemap_pages, read_sitemap
from loopback import in_a_loop

if TYPE_CHECKING:
    from canonry.net.response import Fetch

MAP = "https://example.com/sitemap.xml"


def test_a_file_with_a_document_type_is_not_read() -> None:
    bomb = """<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>
    <urlset><url><loc>https://example.com/&b;</loc></url></urlset>"""
    assert read_sitemap(bomb.encode()).pages == ()


def test_compressed_files_are_read_up_to_the_limit() -> None:
    bomb = gzip.compress(b"<urlset>" + b" " * 100_000_000)
    assert len(bomb) < 200_000
    assert read_sitemap(bomb).pages == ()
    assert read_sitemap(b"\x1f\x8bnot gzip").pages == ()


def test_a_compressed_file_of_several_parts_is_read_up_to_its_first_error() -> None:
    urls = [f"https://example.com/{number}" for number in range(3)]
    parts = [gzip.compress(text.encode()) for text in ("<urlset>", *(f"<url><loc>{url}</loc></url>" for url in urls))]
    assert read_sitemap(b"".join(parts)).pages == tuple(urls)
    broken = parts[-1][:-8] + b"checksum"
    assert read_sitemap(b"".join([*parts[:-1], broken])).pages[:2] == tuple(urls[:2])


def test_urls_before_an_error_count() -> None:
    assert read_sitemap(b"<urlset><url><loc>https://example.com/a</loc></url><url></broken>").pages == (
        "https://example.com/a",
    )
    assert read_sitemap(b"<a>" * 100_000).pages == ()


def test_the_number_and_length_of_urls_are_limited() -> None:
    many = b"<urlset>" + b"<url><loc>https://example.com/a</loc></url>" * (MAX_FILE_URLS + 10)
    assert len(read_sitemap(many).pages) == MAX_FILE_URLS
    assert (
        read_sitemap(b"<urlset><url><loc>https://example.com/" + b"x" * 10_000 + b"</loc></url></urlset>").pages == ()
    )


@pytest.mark.parametrize(
    "body",
    [
        b"\n\xef\xbb\xbf <?xml version='1.0'?><urlset><url><loc>https://example.com/a</loc></url></urlset>",
        "<?xml version='1.0'?><urlset><url><loc>https://example.com/a</loc></url></urlset>".encode("utf-16"),
        b"\xef\xbb\xbfHTTPS://example.com/a\n",
    ],
    ids=["space before the declaration", "UTF-16", "scheme in capitals"],
)
@in_a_loop
async def test_sloppy_files_are_read(body: bytes) -> None:
    assert await read_site({MAP: body}) == ["https://example.com/a"]


CUT = [
    # why                           body                                                                      pages
    ("broken XML",                  b"<urlset><url><loc>https://example.com/a</loc></url><url></broken>",     1),
    ("cut XML",                     b"<urlset><url><loc>https://example.com/a</loc></url><url><loc>https:",   1),
    ("a document type",             b"<!DOCTYPE html><html></html>",                                          0),
    ("a page",                      b"<html><body>Not found</body></html>",                                   0),
    ("text without URLs",           b"Not found",                                                             0),
    ("nested too deeply",           b"<urlset>" + b"<a>" * 100,                                               0),
    ("an unknown encoding",         b"<?xml version='1.0' encoding='x-none'?><urlset></urlset>",              0),
    ("damaged gzip",                b"\x1f\x8bnot gzip",                                                      0),
    ("gzip that is cut",            gzip.compress(b"<urlset>" + bytes(range(32, 60)) * 99)[:60],              0),
    ("too many URLs as XML",        b"<urlset>" + b"<url><loc>https://example.com/a</loc></url>" * (MAX_FILE_URLS + 1), 1),
    ("too many URLs as text",       b"https://example.com/a\n" * (MAX_FILE_URLS + 1),                         1),
]  # fmt: skip


@pytest.mark.parametrize(("why", "body", "pages"), CUT, ids=[row[0] for row in CUT])
@in_a_loop
async def test_a_file_that_is_not_read_to_its_end_is_reported(why: str, body: bytes, pages: int) -> None:
    *found, failure = [each async for each in iter_sitemap_pages([NamedUrl(MAP, Origin.PERSON)], serve({MAP: body}))]
    assert len(found) == pages
    assert isinstance(failure, FetchFailed)
    assert (failure.target, failure.kind, failure.is_transient) == (MAP, FailureKind.TRUNCATED, False)


@pytest.mark.parametrize(
    "body",
    [
        b"<urlset/>",
        b"<?xml version='1.0'?><urlset>"
        + b"<url><loc>https://example.com/a</loc></url>" * MAX_FILE_URLS
        + b"</urlset>",
        b"https://example.com/a\n" * MAX_FILE_URLS,
    ],
    ids=["empty", "as many URLs as XML may have", "as many as text may have"],
)
@in_a_loop
async def test_a_file_that_is_read_to_its_end_is_not_reported(body: bytes) -> None:
    assert set(await read_site({MAP: body})) <= {"https://example.com/a"}


@pytest.mark.parametrize(("count", "is_reported"), [(MAX_FILES - 1, False), (MAX_FILES, True), (MAX_FILES + 30, True)])
@in_a_loop
async def test_sitemaps_beyond_the_limit_are_reported(count: int, is_reported: bool) -> None:
    names = [f"https://example.com/{number}.txt" for number in range(count)]
    index = "".join(f"<sitemap><loc>{name}</loc></sitemap>" for name in [*names[:1] * 60, MAP, *names])
    files = {MAP: f"<sitemapindex>{index}</sitemapindex>".encode()}
    files |= {name: name.removesuffix(".txt").encode() for name in names}
    found = [each async for each in iter_sitemap_pages([NamedUrl(MAP, Origin.PERSON)], serve(files))]
    failures = [each for each in found if isinstance(each, FetchFailed)]
    assert len(found) - len(failures) == min(count, MAX_FILES - 1)
    first_left = names[MAX_FILES - 1 : MAX_FILES] if is_reported else []
    assert [(each.target, each.kind) for each in failures] == [(name, FailureKind.TRUNCATED) for name in first_left]


def serve(files: dict[str, bytes]) -> Fetch:
    async def fetch(url: str, **_: object) -> Response:
        return Response(200, url, {}, files[url])

    return fetch


async def read_site(files: dict[str, bytes]) -> list[str]:
    """Return the pages of a site whose sitemaps are all read to their end."""
    found = [each async for each in iter_sitemap_pages([NamedUrl(MAP, Origin.PERSON)], serve(files))]
    pages = [each for each in found if isinstance(each, NamedUrl)]
    assert pages == found
    return [page.url for page in pages]
