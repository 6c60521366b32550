"""URLs of listed sites: chosen among given URLs, or made from the tables: hosts, page patterns, parameters."""

from __future__ import annotations

import base64
from random import Random
from typing import TYPE_CHECKING, Any

from canonry import InvalidUrl
from canonry.core.site_pages import SiteTables
from canonry.core.site_patterns import Capture, split_pattern
from canonry.core.site_tables import SITE_PAGES
from canonry.core.url import parse

if TYPE_CHECKING:
    from collections.abc import Iterable

Table = dict[str, Any]

_LOWER = "abcdefghijklmnopqrstuvwxyz"
_UPPER = _LOWER.upper()
_DIGITS = "0123456789"
_ALPHABETS = {
    "digits": _DIGITS,
    "lower": _LOWER,
    "letters": _LOWER + _UPPER,
    "hex": _DIGITS + "abcdef",
    "base36": _DIGITS + _LOWER,
    "code": _DIGITS + _UPPER,
    "alnum": _DIGITS + _LOWER + _UPPER,
    "label": _DIGITS + _LOWER + "-",
    "word": _DIGITS + _LOWER + _UPPER + "_",
    "id": _DIGITS + _LOWER + _UPPER + "_-",
    "name": _DIGITS + _LOWER + _UPPER + "_-.",
}
_WORDS = ("Ray_tracing", "the-long-way-home", "caf%C3%A9", "en", "News", "a-b_c", "C%2B%2B", "42", "index", "X")
_TRACKING = (
    "utm_source=newsletter",
    "utm_medium=social",
    "fbclid=IwAR0a9d8Jq2",
    "gclid=EAIaIQobChMI",
    "ref=share",
    "id=7",
)
_TARGET = "https%3A%2F%2Fexample.com%2Fnews%2F2024%3Fid%3D{}"
_FRAGMENTS = ("comments", "section-2", ":~:text=a%20word", "top", "utm_source=a")


def choose_site_urls(urls: Iterable[str]) -> list[str]:
    """Return the URLs whose host belongs to a listed site."""
    tables = SiteTables(SITE_PAGES.values(), lambda _: lambda _: False)
    return [url for url in urls if (host := _find_host(url)) and tables.find(host)]


def _find_host(url: str) -> str | None:
    try:
        return parse(url).host
    except InvalidUrl:
        return None


def make_site_urls(count: int, seed: int = 1) -> list[str]:
    """Generate URLs of every listed site in turn: pages that the tables describe, as people share them."""
    random = Random(seed)
    blocks = [block for site in SITE_PAGES.values() for block in site["blocks"]]
    return [make_site_url(random, blocks[number % len(blocks)]) for number in range(count)]


def make_site_url(random: Random, block: Table) -> str:
    """Generate one URL of a block of a site table."""
    pages: tuple[Table, ...] = block.get("pages", ())
    page = random.choice(pages) if pages else {}
    groups = page.get("groups", (0,))
    hosts = [host for host in block["hosts"] if host[2] in groups] or list(block["hosts"])
    scheme = "https" if random.random() < 0.9 else "http"
    path = _fill(random, random.choice(page["path"]), page) if page else "/" + random.choice(_WORDS)
    params = [f"{name}={_fill(random, value, page)}" for name, value in page.get("query", {}).items()]
    params += _choose_params(random, block, page)
    if random.random() < 0.2:
        random.shuffle(params)
    query = "?" + "&".join(params) if params else ""
    fragment = f"#{random.choice(_FRAGMENTS)}" if random.random() < 0.05 else ""
    slash = "/" if path != "/" and random.random() < 0.2 else ""
    return f"{scheme}://{_make_host(random, random.choice(hosts))}{path}{slash}{query}{fragment}"


def _make_host(random: Random, host: tuple[str, str, int, str, tuple[str, ...]]) -> str:
    name, main, _, label, _ = host
    if name.startswith("*."):
        return (_fill(random, label) if label else random.choice(("en", "de", "blog", "alice"))) + name[1:]
    return f"www.{name}" if main == f"www.{name}" and random.random() < 0.7 else name


def _choose_params(random: Random, block: Table, page: Table) -> list[str]:
    """Choose parameters that the tables drop, keep, rename or know the default of, and some of other origin."""
    chosen: list[str] = []
    for table in (page, block):
        names = [*table.get("drop", ()), *table.get("keep", ()), *table.get("rename", ())]
        if names and random.random() < 0.35:
            name = random.choice(names).replace("*", "x")
            chosen.append(f"{name}={random.choice(_WORDS)}")
        if defaults := table.get("defaults"):
            name = random.choice(list(defaults))
            if random.random() < 0.2:
                chosen.append(f"{name}={random.choice(defaults[name])}")
    if random.random() < 0.3:
        chosen += random.sample(_TRACKING, random.randrange(1, 3))
    return chosen


def _fill(random: Random, pattern: str, page: Table | None = None) -> str:
    return "".join(
        piece if isinstance(piece, str) else _make_capture(random, piece, page) for piece in split_pattern(pattern)
    )


def _make_capture(random: Random, capture: Capture, page: Table | None) -> str:
    if capture.choices:
        return random.choice(capture.choices)
    if page and "target" in page and capture.spans:
        return f"example.com/news/{random.randrange(1000)}"
    if capture.spans:
        return "/".join(random.choice(_WORDS) for _ in range(random.randrange(1, 3)))
    if page and "target" in page and capture.kind == "id":
        return base64.urlsafe_b64encode(b"https://example.com/news").decode().rstrip("=")
    if page and "target" in page and capture.kind == "any":
        return _TARGET.format(random.randrange(1000))
    if capture.kind in ("any", "text"):
        return random.choice(_WORDS)
    longest = max(capture.shortest, min(capture.longest or 9, 12))
    return "".join(random.choices(_ALPHABETS[capture.kind], k=random.randint(capture.shortest, longest)))
