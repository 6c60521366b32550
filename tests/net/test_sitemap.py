"""Sitemaps: what is read of them, and what hostile files cannot do."""

from __future__ import annotations

import gzip

from canonry.net.sitemap import MAX_FILE_URLS, read_sitemap


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
