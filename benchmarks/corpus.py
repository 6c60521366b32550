"""URLs for benchmarks and tests: two generated corpora, and real URLs if CANONRY_REAL_URLS names a file."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

_WORDS = (  # noqa: SIM905 – a hundred quotes are harder to read
    "about archive article audio blog books budget business calendar city climate comments community contact culture "
    "data debate design docs download economy editor energy events family feed film food football forum gallery garden "
    "guide health help history home image index interview item jobs journal kitchen language law letters library life "
    "local mail maps market media members music nature network news notes office opinion page paper people photo "
    "podcast politics post press product profile project radio reader recipe report research review rss sale school "
    "science search security series service shop show sport staff story stream studio support tag team technology "
    "theme thread topic travel tutorial update user video view weather weekly wiki winter women world writing year"
).split()
_NAMES = (  # noqa: SIM905
    "acme alpine amber anchor atlas beacon birch bluebird bridge canyon cedar clover comet copper coral cricket delta "
    "ember falcon fern field forge fox garnet granite grove harbor hazel heron horizon iris ivory juniper lantern lark "
    "lighthouse linden lotus maple meadow meridian mosaic north oak oasis onyx orchard otter pebble pine pioneer "
    "prairie quarry quartz raven redwood river robin saffron sage sierra silver sparrow spruce stone summit sunrise "
    "swift thistle timber tulip valley velvet violet walnut willow wren zephyr"
).split()
_SUFFIXES = ("com", "com", "com", "com", "org", "org", "net", "de", "co.uk", "fr", "io", "edu", "gov", "info", "com.au")
_SUBDOMAINS = ("blog", "news", "en", "shop", "docs", "m", "feeds", "static", "forum", "my")
_IDN_HOSTS = ("bücher", "müller-café", "københavn", "пример", "日本語", "españa", "straße", "δοκιμή")
_EXTENSIONS = (".html", ".html", ".htm", ".php", ".aspx", ".asp", ".pdf", ".xml", ".jsp", ".shtml", ".cfm", ".jpg")
_PARAMS = ("id", "p", "page", "q", "cat", "lang", "sort", "tag", "view", "start", "article_id", "color", "format", "v")
_TRACKING = (
    ("utm_source", ("newsletter", "twitter", "rss", "google")),
    ("utm_medium", ("email", "social", "feed", "cpc")),
    ("utm_campaign", ("spring_sale", "launch", "weekly-digest", "Feed%3A+main")),
    ("fbclid", ("IwAR0a9d8Jq2", "IwAR3xkP0z1")),
    ("gclid", ("EAIaIQobChMI", "CjwKCAjw")),
    ("mc_cid", ("a1b2c3d4e5", "0f9e8d7c6b")),
    ("ref", ("homepage", "sidebar")),
)
_ESCAPES = ("%20", "%C3%A9", "%2C", "%28", "%E2%80%93", "%3A", "%26")
_FRAGMENTS = ("top", "comments", "section-2", "respond", "/inbox", "!/list", "L42", ":~:text=a%20word")
_ID_CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"


def make_urls(count: int, seed: int = 1) -> list[str]:
    """Generate URLs as found on the web: most are clean, some have tracking parameters, a few need the parser."""
    random = Random(seed)
    return [_site_link(random) if _chance(random, 0.03) else _page(random) for _ in range(count)]


def make_dirty_urls(count: int, seed: int = 1) -> list[str]:
    """Generate URLs of which nine in ten need work: upper case, dot segments, spaces, ports, tracking, IDN."""
    random = Random(seed)
    return [_page(random) if _chance(random, 0.1) else _dirty_page(random) for _ in range(count)]


def read_real_urls() -> list[str] | None:
    """Read the file that CANONRY_REAL_URLS names, one URL in a line; None if it is not set."""
    named = os.environ.get("CANONRY_REAL_URLS")
    if not named:
        return None
    lines = Path(named).read_text(encoding="utf-8-sig").split("\n")  # splitlines() would also split at U+0085
    return [line.strip() for line in lines if line.strip()]


def _page(random: Random) -> str:
    scheme = "https" if _chance(random, 0.8) else "http"
    port = random.choice((":8080", ":8443", ":3000", ":80", ":443")) if _chance(random, 0.01) else ""
    query = f"?{_query(random)}" if _chance(random, 0.3) else ""
    fragment = f"#{random.choice(_FRAGMENTS)}" if _chance(random, 0.05) else ""
    return f"{scheme}://{_host(random)}{port}{_path(random)}{query}{fragment}"


def _host(random: Random) -> str:
    if _chance(random, 0.005):
        return f"{random.choice(_IDN_HOSTS)}.{random.choice(_SUFFIXES)}"
    name = random.choice(_NAMES)
    if _chance(random, 0.4):
        name += f"{random.choice(('', '-'))}{random.choice(_WORDS)}"
    host = f"{name}.{random.choice(_SUFFIXES)}"
    if _chance(random, 0.4):
        host = f"www.{host}"
    elif _chance(random, 0.2):
        host = f"{random.choice(_SUBDOMAINS)}.{host}"
    return host.title() if _chance(random, 0.01) else host


def _path(random: Random) -> str:
    segments = [_segment(random) for _ in range(random.choice((0, 1, 1, 2, 2, 2, 3, 3, 4, 5)))]
    if not segments:
        return random.choice(("", "/", "/"))
    if _chance(random, 0.04):
        segments[-1] += random.choice(_ESCAPES) + random.choice(_WORDS)
    end = random.choice(("", "", "/", "/", random.choice(_EXTENSIONS)))
    return "/" + "/".join(segments) + end


def _segment(random: Random) -> str:
    kind = random.random()
    if kind < 0.15:
        return str(random.randrange(1, 100_000))
    if kind < 0.25:
        return f"{random.randrange(2005, 2026)}/{random.randrange(1, 13):02}"
    if kind < 0.45:
        return "-".join(random.choice(_WORDS) for _ in range(random.randrange(3, 8)))
    if kind < 0.55:
        return random.choice(_WORDS).title() + random.choice(_WORDS).title()
    return random.choice(_WORDS)


def _query(random: Random) -> str:
    params = [_param(random) for _ in range(random.choice((1, 1, 1, 2, 2, 3)))]
    if _chance(random, 0.35):
        params += _tracking(random)
    return "&".join(params)


def _param(random: Random) -> str:
    value = str(random.randrange(10_000)) if _chance(random, 0.6) else random.choice(_WORDS)
    if _chance(random, 0.1):
        value += f"{random.choice(('+', '%20', '%2B'))}{random.choice(_WORDS)}"
    return f"{random.choice(_PARAMS)}={value}"


def _tracking(random: Random) -> list[str]:
    chosen = random.sample(_TRACKING, random.randrange(1, 4))
    return [f"{name}={random.choice(values)}" for name, values in chosen]


def _site_link(random: Random) -> str:
    """Make a link to a site that canonry has rules for."""
    video = "".join(random.choice(_ID_CHARACTERS) for _ in range(11))
    user, post, blog = random.choice(_NAMES), random.randrange(10**17, 10**18), random.choice(_NAMES)
    return random.choice(
        (
            f"https://www.youtube.com/watch?v={video}",
            f"https://www.youtube.com/watch?v={video}&t=42s&feature=share",
            f"https://youtu.be/{video}?si={video}",
            f"https://m.youtube.com/shorts/{video}",
            f"https://twitter.com/{user}/status/{post}?s=20",
            f"https://x.com/{user}/status/{post}/photo/1",
            f"http://{blog}.blogspot.com/2012/05/{random.choice(_WORDS)}-{random.choice(_WORDS)}.html",
            f"http://{blog}.blogspot.co.uk/feeds/posts/default?alt=rss",
            f"http://feeds.feedburner.com/{blog.title()}?format=xml",
        )
    )


def _dirty_page(random: Random) -> str:
    scheme = random.choice(("HTTP", "Https", "http", "https", "https"))
    port = {"http": ":80", "https": ":443"}[scheme.lower()] if _chance(random, 0.3) else ""
    query = f"?{_dirty_query(random)}" if _chance(random, 0.7) else ""
    fragment = f"#{random.choice(_FRAGMENTS)}" if _chance(random, 0.3) else ""
    url = f"{scheme}://{_dirty_host(random)}{port}{_dirty_path(random)}{query}{fragment}"
    return f"  {url}\n" if _chance(random, 0.02) else url


def _dirty_host(random: Random) -> str:
    if _chance(random, 0.08):
        return f"www.{random.choice(_IDN_HOSTS)}.{random.choice(_SUFFIXES)}"
    host = _host(random)
    return random.choice((host, host, host.upper(), host.title()))


def _dirty_path(random: Random) -> str:
    segments = [_segment(random) for _ in range(random.randrange(1, 4))]
    for dirt in random.sample(("..", ".", "", "%2e", "%7euser", "a b", "caf%c3%a9", "café", "%41bc"), 2):
        segments.insert(random.randrange(len(segments) + 1), dirt)
    path = "/" + "/".join(segments) + random.choice(("", "/", "//", random.choice(_EXTENSIONS)))
    return f"/{path[1:].replace('/', chr(92))}" if _chance(random, 0.05) else path


def _dirty_query(random: Random) -> str:
    params = [_param(random) for _ in range(random.randrange(1, 4))] + _tracking(random)
    if _chance(random, 0.2):
        params.append(random.choice(("q=a b", "q=caf%c3%a9", "q=%7Eme", "q=naïve", "empty=", "flag", "")))
    random.shuffle(params)
    return "&".join(params)


def _chance(random: Random, probability: float) -> bool:
    return random.random() < probability
