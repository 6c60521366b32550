"""Generated sites with the truth about their URLs, for benchmarks/learn.py.

A kind of site is a function that draws URLs of a host, each with the content that the site would answer and the
page it belongs to (`identity`). Two URLs are the same page if and only if their identity is the same.
"""

from __future__ import annotations

import hashlib
import random
import string
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

DAY = 86_400
WORDS = (
    "amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "haven", "indigo", "jasper", "karma", "lunar",
    "maple", "nectar", "onyx", "pearl", "quartz", "raven", "sable", "tidal", "umber", "velvet", "willow", "xenon",
    "yonder", "zephyr", "acorn", "birch", "cobalt", "dune", "echo", "flint", "garnet", "hazel", "iris", "juniper",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """One fetch: what a learner sees, and the identity, which it does not see."""

    url: str
    content_hash: str
    identity: str
    simhash: int | None = None
    canonical_url: str | None = None
    fetched_at: int = 0


@dataclass(slots=True)
class Site:
    """The fetches of one host. `truth` lists the rules to find; each is a set of names that count as this rule."""

    kind: str
    host: str
    truth: list[frozenset[str]]
    rows: list[Row] = field(default_factory=list)
    must_not_merge: bool = False


class Maker:
    """What the kinds have in common: random names, contents, and the list of fetches."""

    def __init__(self, kind: str, host: str, rng: random.Random, *truth: str, strict: bool = False) -> None:
        self.rng = rng
        self.host = host
        self.site = Site(kind, host, [frozenset(rule.split(" or ")) for rule in truth], must_not_merge=strict)

    def word(self) -> str:
        return self.rng.choice(WORDS)

    def name(self, length: int = 6) -> str:
        """A made-up name, so that no learner can know it."""
        return "".join(self.rng.choice("bcdfghklmnprstvz" if i % 2 == 0 else "aeiou") for i in range(length))

    def slug(self) -> str:
        return "-".join(self.rng.choice(WORDS) for _ in range(self.rng.randint(2, 4)))

    def token(self, length: int = 12) -> str:
        letters = "".join(self.rng.choice(string.ascii_lowercase + string.digits) for _ in range(length - 2))
        return f"a{letters}7"

    def add(self, path: str, identity: str, *, content: str | None = None, scheme: str = "https", host: str = "",
            simhash: int | None = None, canonical: str | None = None, at: int | None = None) -> None:  # fmt: skip
        digest = hashlib.sha256(f"{self.site.host} {content or identity}".encode()).hexdigest()[:32]
        when = self.rng.randrange(30 * DAY) if at is None else at
        url = f"{scheme}://{host or self.host}{path}"
        self.site.rows.append(Row(url, digest, f"{self.site.host} {identity}", simhash, canonical, when))

    def query(self, pairs: list[tuple[str, object]], *, shuffle: bool = False) -> str:
        if shuffle:
            self.rng.shuffle(pairs)
        return "?" + "&".join(f"{name}={value}" for name, value in pairs) if pairs else ""


def make_shop(host: str, rng: random.Random) -> Site:
    """Facets that matter, a session that does not, and products."""
    sid, facet, sort, click = (Maker("", host, rng).name(n) for n in (5, 6, 4, 7))
    make = Maker("shop", host, rng, f"param:{sid}", f"param:{click}")
    for product in range(120):
        for _ in range(rng.randint(2, 4)):
            pairs: list[tuple[str, object]] = [("id", product)]
            if rng.random() < 0.6:
                pairs.append((sid, make.token()))
            if rng.random() < 0.5:
                pairs.append((click, rng.randrange(10**6)))
            make.add(f"/product{make.query(pairs)}", f"product {product}")
    for category in range(25):
        for _ in range(8):
            color, order = rng.choice(["red", "blue", "green"]), rng.choice(["price", "name"])
            pairs = [(facet, color), (sort, order)]
            if rng.random() < 0.6:
                pairs.append((sid, make.token()))
            make.add(f"/list/{category}{make.query(pairs)}", f"list {category} {color} {order}")
    return make.site


def make_forum(host: str, rng: random.Random) -> Site:
    """`start=0` is the first page, other values are other pages; a session id before or after."""
    start, sid = Maker("", host, rng).name(5), Maker("", host, rng).name(4)
    make = Maker("forum", host, rng, f"value:{start}=0", f"param:{sid}")
    for thread in range(90):
        for page in range(rng.randint(1, 4)):
            for _ in range(rng.randint(2, 4)):
                pairs: list[tuple[str, object]] = [("t", thread)]
                if page or rng.random() < 0.5:
                    pairs.append((start, page * 15))
                if rng.random() < 0.4:
                    pairs.append((sid, make.token(16)))
                make.add(f"/viewtopic.php{make.query(pairs)}", f"thread {thread} page {page}")
    return make.site


def make_wiki(host: str, rng: random.Random) -> Site:
    """`/wiki/Title` and `/index.php?title=Title` are one page; old revisions are others."""
    make = Maker("wiki", host, rng, "path-query:/index.php|title")
    for number in range(130):
        title = f"{make.word().title()}_{make.word()}_{number}"
        make.add(f"/wiki/{title}", f"page {title}")
        if rng.random() < 0.7:
            make.add(f"/index.php?title={title}", f"page {title}")
        for _ in range(rng.randint(0, 2)):
            old = rng.randrange(10**6)
            make.add(f"/index.php?title={title}&oldid={old}", f"page {title} revision {old}")
        if rng.random() < 0.3:
            make.add(f"/index.php?title={title}&action=history", f"history {title}")
    return make.site


def make_news(host: str, rng: random.Random) -> Site:
    """AMP copies below a folder, and tracking parameters nobody knows."""
    track, medium = Maker("", host, rng).name(6), Maker("", host, rng).name(8)
    make = Maker("news", host, rng, f"param:{track}", f"param:{medium}", "seg:first:amp")
    for number in range(140):
        path = f"/{make.rng.choice(['world', 'sport', 'local'])}/{make.slug()}-{number}"
        for _ in range(rng.randint(2, 4)):
            pairs: list[tuple[str, object]] = []
            if rng.random() < 0.5:
                pairs = [(track, make.word()), (medium, rng.choice(["mail", "rss", "feed"]))]
            prefix = "/amp" if rng.random() < 0.35 else ""
            make.add(f"{prefix}{path}{make.query(pairs)}", f"article {number}")
    return make.site


def make_calendar(host: str, rng: random.Random) -> Site:
    """Endless months, most of them without events, that all look the same."""
    make = Maker("calendar", host, rng, strict=True)
    for _ in range(400):
        year, month = rng.randrange(1990, 2060), rng.randrange(1, 13)
        is_empty = rng.random() < 0.6
        make.add(f"/calendar?year={year}&month={month}", f"month {year} {month}",
                 content=f"no events {rng.randrange(3)}" if is_empty else None)  # fmt: skip
    for event in range(60):
        make.add(f"/event/{event}", f"event {event}")
    return make.site


def make_soft_404(host: str, rng: random.Random) -> Site:
    """A search that mostly finds nothing, and missing products that answer with one page."""
    make = Maker("soft-404", host, rng, strict=True)
    for number in range(300):
        term = f"{make.word()}+{make.word()}{number}"
        make.add(f"/search?q={term}", f"search {term}", content="nothing found" if rng.random() < 0.7 else None)
    for product in range(300):
        make.add(f"/item/{product}", f"item {product}", content="gone" if rng.random() < 0.4 else None)
    return make.site


def make_login_wall(host: str, rng: random.Random) -> Site:
    """Pages for members answer with a login form, with the way back in a parameter."""
    make = Maker("login", host, rng, strict=True)
    for number in range(200):
        make.add(f"/member/{make.slug()}?tab={rng.randrange(4)}&n={number}", f"member {number}", content="log in")
        make.add(f"/login?next=/member/{number}", f"login {number}", content="log in")
    for number in range(100):
        make.add(f"/public/{number}?tab=1", f"public {number}")
    return make.site


def make_case_insensitive(host: str, rng: random.Random) -> Site:
    """The server ignores the case of the path."""
    make = Maker("case-insensitive", host, rng, "case:last", "case:first")
    for number in range(110):
        first, last = make.word(), f"{make.slug()}{number}"
        for _ in range(rng.randint(2, 4)):
            path = "/".join(rng.choice([part, part.title(), part.upper()]) for part in (first, last))
            make.add(f"/{path}", f"page {first} {last}")
    return make.site


def make_case_sensitive(host: str, rng: random.Random) -> Site:
    """Short ids in which the case matters; the name of the folder is written in two ways."""
    make = Maker("case-sensitive", host, rng, "case:first", strict=True)
    for _ in range(350):
        name = "".join(rng.choice("abcABC") for _ in range(4))
        folder = rng.choice(["View", "view"])
        make.add(f"/{folder}/{name}", f"paste {name}")
    return make.site


def make_slug_site(host: str, rng: random.Random) -> Site:
    """Text after the id that the server ignores."""
    make = Maker("slug", host, rng, "slug:/questions/#")
    for number in range(1000, 1140):
        title = make.slug()
        for slug in {title, title.rsplit("-", 1)[0], make.slug() if rng.random() < 0.5 else title}:
            make.add(f"/questions/{number}/{slug}", f"question {number}")
        if rng.random() < 0.4:
            make.add(f"/questions/{number}", f"question {number}")
    for user in range(60):
        make.add(f"/users/{user}/{make.word()}{user}", f"user {user}")
    return make.site


def make_slug_id_site(host: str, rng: random.Random) -> Site:
    """Text and id in one segment: `/news/a-title-123.html`."""
    make = Maker("slug-id", host, rng, "id-end:/news")
    for number in range(5000, 5130):
        for _ in range(rng.randint(2, 3)):
            make.add(f"/news/{make.slug()}-{number}.html", f"news {number}")
    for number in range(60):
        make.add(f"/tags/{make.slug()}-{number}", f"tag {number}")
    return make.site


def make_session_in_path(host: str, rng: random.Random) -> Site:
    """A session as the first segment: `/s-8f3ab2/page`."""
    make = Maker("session-in-path", host, rng, "shape:first:s-#")
    for number in range(120):
        path = f"/{make.word()}/{make.slug()}-{number}"
        for _ in range(rng.randint(2, 4)):
            session = f"/s-{make.token(8)}" if rng.random() < 0.6 else ""
            make.add(f"{session}{path}", f"page {number}")
    return make.site


def make_path_param(host: str, rng: random.Random) -> Site:
    """A session after a semicolon."""
    name = Maker("", host, rng).name(8)
    make = Maker("path-param", host, rng, f"sem:{name}")
    for number in range(120):
        for _ in range(rng.randint(2, 4)):
            session = f";{name}={make.token(20)}" if rng.random() < 0.6 else ""
            make.add(f"/doc/{number}{session}?v={number % 3}", f"doc {number}")
    return make.site


def make_rotating_ads(host: str, rng: random.Random) -> Site:
    """Every fetch has other bytes; only the simhash shows that pages are the same."""
    ref = Maker("", host, rng).name(5)
    make = Maker("rotating-ads", host, rng, f"param:{ref}")
    for number in range(130):
        base = rng.getrandbits(64)
        for _ in range(rng.randint(2, 4)):
            pairs: list[tuple[str, object]] = [("story", number)]
            if rng.random() < 0.6:
                pairs.append((ref, make.word()))
            url = f"/read{make.query(pairs)}"
            for _ in range(rng.randint(1, 2)):
                noisy = base
                for _ in range(rng.randint(0, 2)):
                    noisy ^= 1 << rng.randrange(64)
                make.add(url, f"story {number}", content=f"{number} {rng.random()}", simhash=noisy)
    return make.site


def make_thin_pages(host: str, rng: random.Random) -> Site:
    """Pages with so little on them that a few of them are the same."""
    make = Maker("thin", host, rng)
    for number in range(300):
        make.add(f"/photo?id={number}&size={rng.choice(['s', 'm'])}", f"photo {number}", content=f"thin {number // 3}")
    return make.site


def make_bad_canonicals(host: str, rng: random.Random) -> Site:
    """Every page names the front page or its section as canonical; the bytes change at every fetch."""
    make = Maker("bad-canonical", host, rng, strict=True)
    for number in range(200):
        for _ in range(2):
            target = f"https://{host}/" if rng.random() < 0.6 else f"https://{host}/section/{number % 5}"
            make.add(f"/page?n={number}&x={number % 7}", f"page {number}", content=str(rng.random()), canonical=target)
    return make.site


def make_good_canonicals(host: str, rng: random.Random) -> Site:
    """The bytes change at every fetch; a simhash is known of one page in ten, and confirms what the pages declare."""
    ref = Maker("", host, rng).name(6)
    make = Maker("good-canonical", host, rng, f"param:{ref}")
    for number in range(130):
        simhash = None if number % 10 else rng.getrandbits(64)
        for _ in range(rng.randint(2, 4)):
            tail = f"&{ref}={make.word()}" if rng.random() < 0.6 else ""
            for _ in range(2):
                make.add(f"/page?n={number}{tail}", f"page {number}", content=str(rng.random()), simhash=simhash,
                         canonical=f"https://{host}/page?n={number}")  # fmt: skip
    return make.site


def make_first_page_canonicals(host: str, rng: random.Random) -> Site:
    """All pages of a list name its first page as canonical; the bytes change at every fetch."""
    make = Maker("first-page-canonical", host, rng, strict=True)
    page = make.name(5)
    for number in range(60):
        for part in range(1, rng.randint(3, 7)):
            tail = f"?{page}={part}" if part > 1 else ""
            for _ in range(2):
                make.add(f"/list/{number}{tail}", f"list {number} {part}", content=str(rng.random()),
                         canonical=f"https://{host}/list/{number}")  # fmt: skip
    return make.site


def make_edits(host: str, rng: random.Random) -> Site:
    """Pages that are edited while they are crawled."""
    sid = Maker("", host, rng).name(4)
    make = Maker("edits", host, rng, f"param:{sid}")
    for number in range(130):
        edited_at = rng.randrange(5 * DAY, 25 * DAY) if rng.random() < 0.3 else 40 * DAY
        urls = [f"/p/{number}"] + [f"/p/{number}?{sid}={make.token()}" for _ in range(rng.randint(2, 3))]
        for url in urls:
            for _ in range(2):
                at = rng.randrange(30 * DAY)
                make.add(url, f"p {number}", content=f"p {number} version {at >= edited_at}", at=at)
    return make.site


def make_tiny(host: str, rng: random.Random) -> Site:
    """Too few pages to say anything."""
    make = Maker("tiny", host, rng, strict=True)
    for number in range(6):
        for x in range(3):
            make.add(f"/p?id={number}&x={x}", f"page {number} {x}", content=f"{number}")
    return make.site


def make_sometimes(host: str, rng: random.Random) -> Site:
    """A parameter that matters on one page in twenty."""
    variant, click = Maker("", host, rng).name(6), Maker("", host, rng).name(5)
    make = Maker("sometimes", host, rng, f"param:{click}")
    for number in range(160):
        matters = number % 20 == 0
        for _ in range(4):
            value = rng.randrange(4)
            pairs: list[tuple[str, object]] = [("id", number), (variant, value)]
            if rng.random() < 0.5:
                pairs.append((click, rng.randrange(10**5)))
            identity = f"item {number} {value if matters else ''}"
            make.add(f"/item{make.query(pairs)}", identity)
    return make.site


def make_folder_param(host: str, rng: random.Random) -> Site:
    """A parameter that matters in the lists and not on the articles."""
    view = Maker("", host, rng).name(4)
    make = Maker("folder-param", host, rng, f"folder:/article/|{view}")
    for number in range(120):
        for _ in range(3):
            value = rng.choice(["a", "b", "c"])
            make.add(f"/article/{number}?{view}={value}", f"article {number}")
            make.add(f"/list/{number}?{view}={value}", f"list {number} {value}")
    return make.site


def make_aliases(host: str, rng: random.Random) -> Site:
    """`www.` and `m.` are the same site, http too; `shop.` is another one."""
    make = Maker("aliases", host, rng, "host:www or host:m", "scheme")
    for number in range(130):
        for _ in range(rng.randint(2, 4)):
            prefix = rng.choice(["www.", "m."])
            make.add(f"/story/{number}", f"story {number}", host=prefix + host, scheme=rng.choice(["http", "https"]))
        make.add(f"/story/{number}", f"product {number}", host=f"shop.{host}")
    return make.site


def make_slash(host: str, rng: random.Random) -> Site:
    """A slash at the end does not matter, nor does an index file or the order of parameters."""
    make = Maker("slash", host, rng, "slash", "seg:last:index.htm", "order")
    for number in range(120):
        path = f"/{make.word()}/{make.slug()}-{number}"
        for _ in range(rng.randint(2, 4)):
            pairs: list[tuple[str, object]] = [("a", number % 4), ("b", number % 5)]
            ending = rng.choice(["", "/", "/index.htm"])
            make.add(f"{path}{ending}{make.query(pairs, shuffle=True)}", f"page {number}")
    return make.site


def make_slash_matters(host: str, rng: random.Random) -> Site:
    """`/a` and `/a/` are two pages, and so are `?a&b` and `?b&a`; on a few pages they are the same."""
    make = Maker("slash-matters", host, rng, strict=True)
    for number in range(200):
        same = number % 10 == 0
        make.add(f"/dir/{number}", f"d {number}" if same else f"file {number}")
        make.add(f"/dir/{number}/", f"d {number}" if same else f"folder {number}")
        make.add(f"/q?x={number}&y=1", f"x {number}")
        make.add(f"/q?y=1&x={number}", f"x {number}" if same else f"y {number}")
    return make.site


def make_print_site(host: str, rng: random.Random) -> Site:
    """`/print` at the end and `.html` say nothing."""
    make = Maker("print", host, rng, "seg:last:print", "ext:html")
    for number in range(130):
        path = f"/{make.word()}/{make.slug()}{number}"
        for _ in range(rng.randint(2, 4)):
            make.add(f"{path}{rng.choice(['', '/print', '.html'])}", f"page {number}")
    return make.site


KINDS: list[Callable[[str, random.Random], Site]] = [
    make_shop, make_forum, make_wiki, make_news, make_calendar, make_soft_404, make_login_wall, make_case_insensitive,
    make_case_sensitive, make_slug_site, make_slug_id_site, make_session_in_path, make_path_param, make_rotating_ads,
    make_thin_pages, make_bad_canonicals, make_good_canonicals, make_first_page_canonicals, make_edits, make_tiny,
    make_sometimes, make_folder_param, make_aliases, make_slash, make_slash_matters, make_print_site,
]  # fmt: skip


def make_sites(seed: int, kinds: list[Callable[[str, random.Random], Site]], hosts: int = 2) -> list[Site]:
    """Return sites of each kind, on hosts of their own."""
    sites: list[Site] = []
    for kind in kinds:
        for number in range(hosts):
            rng = random.Random(f"{seed} {kind.__name__} {number}")
            sites.append(kind(f"{kind.__name__[5:].replace('_', '-')}{number}-{seed}.example", rng))
    return sites
