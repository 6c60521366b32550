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
