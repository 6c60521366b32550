"""A site of pages under ten spellings each, and a process that lets Scrapy crawl it: `python scrapy_site.py conservative 400`.

Prints, as JSON, what the server was asked for and what the spider was given.
"""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

ON_A_PAGE = 3  # others, in every spelling
# What no server tells apart, and what few do; {0} is host and port, {1} the page's number, {2} that with its first digit escaped.
CONSERVATIVE = [
    "http://{0}/page/{1}?a=1&b=2",
    "HTTP://{0}/page/{1}?a=1&b=2",
    "http://{0}/page/{1}?a=1&b=2#top",
    "http://{0}/page/{1}?a=1&b=2#",
    "http://{0}/./page/{1}?a=1&b=2",
    "http://{0}/page/x/../{1}?a=1&b=2",
    "http://{0}/p%61ge/{1}?a=1&b=2",
    "http://{0}/page/{1}?%61=1&b=2",
    "http://{0}/%2e/page/{1}?a=1&b=2#:~:text=x",
    "http://{0}/page/./%{2}?a=1&b=2",
]
AGGRESSIVE = [
    *CONSERVATIVE[:2],
    "http://{0}/page/{1}/?a=1&b=2",
    "http://{0}//page/{1}?a=1&b=2",
    "http://{0}/page/{1}?b=2&a=1",
    "http://{0}/page/{1}?a=1&b=2&utm_source=mail",
    "http://{0}/page/{1}?fbclid=x&a=1&b=2",
    "http://{0}/page/{1}/?utm_id=3&b=2&a=1#top",
    "http://{0}/p%61ge/{1}?gclid=1&b=2&a=1",
    "http://{0}/page//{1}?a=1&b=2&UTM_Medium=x",
]


def spelled(spelling: str, host: str, number: int) -> str:
    return spelling.format(host, number, f"3{number}")  # %35 is 5


class Site(BaseHTTPRequestHandler):
    """Every page links to the next ones, in every spelling; /page/N/ is where /page/N leads."""

    protocol_version = "HTTP/1.1"
    pages: int
    spellings: list[str]
    redirects = False
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        url = urlsplit(self.path)
        number = int(unquote(url.path).strip("/").rpartition("/")[2])
        assert {"a", "b"} <= {name for name, _ in parse_qsl(url.query)} or number < 0
        if self.redirects and not url.path.endswith("/"):
            return self._say(301, b"", Location=f"{url.path}/?{url.query}")
        others = [(number * ON_A_PAGE + step) % self.pages for step in range(ON_A_PAGE)]
        host = self.headers["Host"]
        links = [
            f'<a href="{spelled(each, host, other)}">x</a>' for other in others for each in self._turned(number + other)
        ]
        return self._say(200, f"<title>{number}</title>{''.join(links)}".encode())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.asked.append(f"POST {self.path} {body.decode()} {self.headers['Accept-Language']}")
        self._say(200, b"thanks")

    def _turned(self, by: int) -> list[str]:
        """The spellings, each first on some page."""
        return self.spellings[by % 10 :] + self.spellings[: by % 10]

    def _say(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "text/html", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def main(way: str, pages: int) -> None:
    import scrapy
    from scrapy.crawler import CrawlerProcess
    from scrapy.linkextractors import LinkExtractor
    from scrapy.spiders import CrawlSpider, Rule

    from canonry.integrations.scrapy import link_filter

    policy = "aggressive" if way != "conservative" else way
    Site.spellings = CONSERVATIVE if way == "conservative" else AGGRESSIVE
    Site.redirects = way == "redirects"
    Site.asked = []
    Site.pages = pages
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    host = f"127.0.0.1:{server.server_port}"
    titles: list[str] = []
    filtered = link_filter(policy) if way == "aggressive" else None

    class Reading(CrawlSpider):
        name = "reading"
        rules = (Rule(LinkExtractor(), process_links=filtered, callback="read", follow=True),)

        async def start(self) -> Any:
            # start_urls would be asked for without being remembered as seen (dont_filter).
            yield scrapy.Request(spelled(CONSERVATIVE[0], host, 0))

        def parse_start_url(self, response: Any, **_: Any) -> Any:
            return self.read(response)

        def read(self, response: Any) -> Any:
            titles.append(response.css("title::text").get())
            return ()

    class Posting(scrapy.Spider):
        name = "posting"

        async def start(self) -> Any:
            url = spelled(AGGRESSIVE[5], host, 0)
            for body in ("x", "x", "y"):
                for language in ("de", "fr"):
                    yield scrapy.Request(url, method="POST", body=body, headers={"Accept-Language": language})

        def parse(self, response: Any, **_: Any) -> Any:
            titles.append(response.text)

    settings = {
        "REQUEST_FINGERPRINTER_CLASS": "canonry.integrations.scrapy.Fingerprinter",
        "CANONRY_POLICY": policy,
        "CANONRY_HEADERS": ["Accept-Language"] if way == "posting" else [],
        "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
        "DOWNLOAD_DELAY": 0,
        "ROBOTSTXT_OBEY": False,
        "LOG_LEVEL": "WARNING",
        "CLOSESPIDER_PAGECOUNT": 2 * pages,  # should it not end by itself
        "TELNETCONSOLE_ENABLED": False,
    }
    process = CrawlerProcess(settings)
    process.crawl(Posting if way == "posting" else Reading)
    process.start()
    server.shutdown()
    print(json.dumps({"asked": Site.asked, "titles": titles}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
