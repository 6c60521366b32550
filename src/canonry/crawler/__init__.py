"""Crawl one site, each page once."""
