"""A site whose pages have ten URLs each, and a script that lets Scrapy crawl it: `python scrapy_site.py conservative 400`.

The script prints the requests of the server and the titles that the spider read, as JSON.
"""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

LINKED_PAGES = 3  # from each page, each with all its URLs
# URLs of one page that no server distinguishes, and those that few distinguish. {0} is host and port, {1} the number of
# the page, {2} the hex code of its first digit.
CONSERVATIVE_URLS = [
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
AGGRESSIVE_URLS = [
    *CONSERVATIVE_URLS[:2],
    "http://{0}/page/{1}/?a=1&b=2",
    "http://{0}//page/{1}?a=1&b=2",
    "http://{0}/page/{1}?b=2&a=1",
    "http://{0}/page/{1}?a=1&b=2&utm_source=mail",
    "http://{0}/page/{1}?fbclid=x&a=1&b=2",
    "http://{0}/page/{1}/?utm_id=3&b=2&a=1#top",
    "http://{0}/p%61ge/{1}?gclid=1&b=2&a=1",
    "http://{0}/page//{1}?a=1&b=2&UTM_Medium=x",
]


def make_url(template: str, host: str, number: int) -> str:
    return template.format(host, number, f"3{number}")  # %35 is 5


class Site(BaseHTTPRequestHandler):
    """Every page links to the next ones, with all their URLs; with `redirects`, /page/N redirects to /page/N/."""

    protocol_version = "HTTP/1.1"
    pages: int
    templates: list[str]
    redirects = False
    requests: list[str]

    def do_GET(self) -> None:
        self.requests.append(self.path)
        url = urlsplit(self.path)
        number = int(unquote(url.path).strip("/").rpartition("/")[2])
        assert {"a", "b"} <= {name for name, _ in parse_qsl(url.query)} or number < 0
        if self.redirects and not url.path.endswith("/"):
            return self._respond(301, b"", Location=f"{url.path}/?{url.query}")
        others = [(number * LINKED_PAGES + step) % self.pages for step in range(LINKED_PAGES)]
        host = self.headers["Host"]
        links = [
            f'<a href="{make_url(each, host, other)}">x</a>'
            for other in others
            for each in self._rotate_templates(number + other)
        ]
        return self._respond(200, f"<title>{number}</title>{''.join(links)}".encode())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.requests.append(f"POST {self.path} {body.decode()} {self.headers['Accept-Language']}")
        self._respond(200, b"thanks")

    def _rotate_templates(self, by: int) -> list[str]:
        """Return the templates, starting with another one on each page."""
        return self.templates[by % 10 :] + self.templates[: by % 10]

    def _respond(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "text/html", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def main(scenario: str, pages: int) -> None:
    import scrapy
    from scrapy.crawler import CrawlerProcess
    from scrapy.linkextractors import LinkExtractor
    from scrapy.spiders import CrawlSpider, Rule

    from canonry.integrations.scrapy import link_filter

    policy = "aggressive" if scenario != "conservative" else scenario
    Site.templates = CONSERVATIVE_URLS if scenario == "conservative" else AGGRESSIVE_URLS
    Site.redirects = scenario == "redirects"
    Site.requests = []
    Site.pages = pages
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    host = f"127.0.0.1:{server.server_port}"
    titles: list[str] = []
    process_links = link_filter(policy) if scenario == "aggressive" else None

    class ReadingSpider(CrawlSpider):
        name = "reading"
        rules = (Rule(LinkExtractor(), process_links=process_links, callback="read", follow=True),)

        async def start(self) -> Any:
            # Scrapy does not remember start_urls as seen (dont_filter).
            yield scrapy.Request(make_url(CONSERVATIVE_URLS[0], host, 0))

        def parse_start_url(self, response: Any, **_: Any) -> Any:
            return self.read(response)

        def read(self, response: Any) -> Any:
            titles.append(response.css("title::text").get())
            return ()

    class PostingSpider(scrapy.Spider):
        name = "posting"

        async def start(self) -> Any:
            url = make_url(AGGRESSIVE_URLS[5], host, 0)
            for body in ("x", "x", "y"):
                for language in ("de", "fr"):
                    yield scrapy.Request(url, method="POST", body=body, headers={"Accept-Language": language})

        def parse(self, response: Any, **_: Any) -> Any:
            titles.append(response.text)

    settings = {
        "REQUEST_FINGERPRINTER_CLASS": "canonry.integrations.scrapy.Fingerprinter",
        "CANONRY_POLICY": policy,
        "CANONRY_HEADERS": ["Accept-Language"] if scenario == "posting" else [],
        "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
        "DOWNLOAD_DELAY": 0,
        "ROBOTSTXT_OBEY": False,
        "LOG_LEVEL": "WARNING",
        "CLOSESPIDER_PAGECOUNT": 2 * pages,  # a limit in case the crawl does not end
        "TELNETCONSOLE_ENABLED": False,
    }
    process = CrawlerProcess(settings)
    process.crawl(PostingSpider if scenario == "posting" else ReadingSpider)
    process.start()
    server.shutdown()
    print(json.dumps({"requests": Site.requests, "titles": titles}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
