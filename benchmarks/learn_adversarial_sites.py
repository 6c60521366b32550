"""Kinds of sites made to break the learner: many styles of names, few or many copies, several rules at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.learn_sites import DAY, Maker, Site

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

Pairs = list[tuple[str, object]]


def make_sparse_shop(host: str, rng: random.Random) -> Site:
    """Many products, few of them fetched under two URLs."""
    make = Maker("sparse", host, rng, "param:visitref")
    for number in range(1500):
        make.add(f"/Product/Show?ProductNo=A{number}", f"product {number}")
        if rng.random() < 0.06:
            make.add(f"/Product/Show?ProductNo=A{number}&VisitRef={make.token(20)}", f"product {number}")
    return make.site


def make_dense_docs(host: str, rng: random.Random) -> Site:
    """A few pages under very many URLs, all parameters always present."""
    names = [Maker("", host, rng).name(n) for n in (3, 5, 7)]
    make = Maker("dense", host, rng, *(f"param:{name}" for name in names))
    for number in range(35):
        for _ in range(30):
            pairs: Pairs = [("doc", number), ("part", rng.randrange(2))]
            pairs += [(name, rng.randrange(5)) for name in names]
            make.add(f"/reader{make.query(pairs)}", f"doc {number} {pairs[1][1]}")
    return make.site


def make_brackets(host: str, rng: random.Random) -> Site:
    """Names with brackets and dots; facets several times; one tracking name beside them."""
    make = Maker("brackets", host, rng, "param:trk.src", "param:opt[visit]")
    for number in range(110):
        for _ in range(3):
            pairs: Pairs = [("f[brand]", number), ("f[tag]", rng.choice("ab")), ("f[tag]", "c")]
            identity = f"list {number} {pairs[1][1]}"
            if rng.random() < 0.5:
                pairs.append(("trk.src", make.word()))
            if rng.random() < 0.5:
                pairs.insert(0, ("opt[visit]", make.token(9)))
            make.add(f"/c{make.query(pairs)}", identity)
    return make.site


def make_java_app(host: str, rng: random.Random) -> Site:
    """`;name=` in the path, http and https, and www, all at once."""
    name = Maker("", host, rng).name(9)
    make = Maker("java", host, rng, f"sem:{name}", "scheme", "host:www")
    for number in range(140):
        for _ in range(4):
            session = f";{name}={make.token(24).upper()}" if rng.random() < 0.5 else ""
            make.add(f"/app/show.do{session}?item={number}", f"item {number}", scheme=rng.choice(["http", "https"]),
                     host=rng.choice(["", "www."]) + host)  # fmt: skip
    return make.site


def make_cookieless(host: str, rng: random.Random) -> Site:
    """A session in brackets as the first segment, a print page at the end."""
    make = Maker("cookieless", host, rng, "shape:first:(S(#))", "seg:last:Printable")
    for number in range(130):
        path = f"/Reports/{make.word().title()}{number}"
        for _ in range(4):
            session = f"/(S({make.token(20)}))" if rng.random() < 0.5 else ""
            tail = "/Printable" if rng.random() < 0.4 else ""
            make.add(f"{session}{path}{tail}", f"report {number}")
    return make.site


def make_blog(host: str, rng: random.Random) -> Site:
    """Dates in the path, an AMP copy at the end, comments that say nothing, feeds that are other pages."""
    make = Maker("blog", host, rng, "param:replyto", "seg:last:amp")
    for number in range(150):
        path = f"/{rng.randrange(2009, 2024)}/{rng.randrange(1, 13):02}/{make.slug()}-{make.name(4)}/"
        make.add(path, f"post {number}")
        make.add(f"{path}feed/", f"feed {number}")
        for _ in range(rng.randint(0, 2)):
            make.add(f"{path}?replyto={rng.randrange(9999)}", f"post {number}")
        if rng.random() < 0.6:
            make.add(f"{path}amp/", f"post {number}")
    return make.site


def make_versioned_docs(host: str, rng: random.Random) -> Site:
    """`/latest/` and `/stable/` are equal except for one page in eight; a highlighted word says nothing."""
    make = Maker("versions", host, rng, "param:highlight", strict=True)
    for number in range(160):
        name = f"{make.slug()}-{make.name(4)}.html"
        changed = number % 8 == 0
        for version in ("latest", "stable"):
            identity = f"page {number} {version}" if changed else f"page {number}"
            make.add(f"/en/{version}/{name}", f"{identity}")
            if rng.random() < 0.6:
                make.add(f"/en/{version}/{name}?highlight={make.word()}", identity)
    return make.site


def make_defaults(host: str, rng: random.Random) -> Site:
    """Three parameters with default values that are often left out, and a session."""
    make = Maker("defaults", host, rng, "value:sortBy=new", "value:pageNo=1", "value:view=full", "param:sid")
    for number in range(120):
        for _ in range(6):
            page, sort, view = (
                rng.choice([1, 1, 2]),
                rng.choice(["new", "new", "old"]),
                rng.choice(["full", "full", "s"]),
            )
            pairs: Pairs = [("topicId", number)]
            pairs += [("pageNo", page)] if page != 1 or rng.random() < 0.5 else []
            pairs += [("sortBy", sort)] if sort != "new" or rng.random() < 0.5 else []
            pairs += [("view", view)] if view != "full" or rng.random() < 0.5 else []
            pairs += [("sid", make.token(10))] if rng.random() < 0.3 else []
            make.add(f"/board{make.query(pairs)}", f"topic {number} {page} {sort} {view}")
    return make.site


def make_deep_folders(host: str, rng: random.Random) -> Site:
    """A parameter that says nothing below `/shop/item/` and selects below `/shop/list/`."""
    name = Maker("", host, rng).name(5)
    make = Maker("deep-folders", host, rng, f"folder:/shop/item/|{name} or folder:/shop/item|{name}")
    for number in range(110):
        for _ in range(3):
            value = rng.choice(["x", "y", "z"])
            make.add(f"/shop/item/{number}?{name}={value}", f"item {number}")
            make.add(f"/shop/list/{number}?{name}={value}", f"list {number} {value}")
    return make.site


def make_any_case(host: str, rng: random.Random) -> Site:
    """Case is ignored in folders of three levels and in the extension."""
    make = Maker("any-case", host, rng, "case:first", "case:mid", "case:last")
    for number in range(130):
        parts = [make.word(), make.word(), f"{make.name()}{number}.htm"]
        for _ in range(rng.randint(2, 4)):
            make.add("/" + "/".join(rng.choice([p, p.upper(), p.capitalize()]) for p in parts), f"page {number}")
    return make.site


def make_numbered_pages(host: str, rng: random.Random) -> Site:
    """`/topic/5/page/2` is another page; a token of digits says nothing; `?print` has no value."""
    make = Maker("numbered", host, rng, "param:print", "param:t")
    for number in range(100):
        for page in (1, 2, 3):
            for _ in range(3):
                path = f"/topic/{number}" + (f"/page/{page}" if page > 1 else "")
                tail = rng.choice(["", "?print", f"?t={rng.randrange(10**9)}", f"?print&t={rng.randrange(10**9)}"])
                make.add(path + tail, f"topic {number} {page}")
    return make.site


def make_edits_and_errors(host: str, rng: random.Random) -> Site:
    """Pages that are edited, one answer in twelve is an error, and two parameters say nothing."""
    one, two = Maker("", host, rng).name(3), Maker("", host, rng).name(10)
    make = Maker("edits-errors", host, rng, f"param:{one}", f"param:{two}")
    for number in range(140):
        edited_at = rng.randrange(3 * DAY, 27 * DAY) if rng.random() < 0.4 else 40 * DAY
        urls = [f"/a/{number}"] + [
            f"/a/{number}{make.query([(name, make.token(6)) for name in (one, two) if rng.random() < 0.6])}"
            for _ in range(3)
        ]
        for url in urls:
            for _ in range(3):
                at = rng.randrange(30 * DAY)
                content = "error" if rng.random() < 0.08 else f"a {number} {at >= edited_at}"
                make.add(url, f"a {number}", content=content, at=at)
    return make.site


def make_similar_pages(host: str, rng: random.Random) -> Site:
    """Bytes change at every fetch, and pages of one template have simhashes that are not far apart."""
    make = Maker("similar", host, rng, "param:via")
    template = rng.getrandbits(64)
    for number in range(120):
        base = template
        for bit in rng.sample(range(64), 14):
            base ^= 1 << bit
        for _ in range(3):
            tail = f"&via={make.word()}" if rng.random() < 0.6 else ""
            for _ in range(2):
                noisy = base
                for _ in range(rng.randint(0, 1)):
                    noisy ^= 1 << rng.randrange(64)
                make.add(f"/n?story={number}{tail}", f"story {number}", content=str(rng.random()), simhash=noisy)
    return make.site


def make_syndication(host: str, rng: random.Random) -> Site:
    """`blog.` prints some articles of the main site under the same paths, but most of its pages are its own."""
    make = Maker("syndication", host, rng, "host:www")
    for number in range(130):
        make.add(f"/p/{number}", f"p {number}")
        make.add(f"/p/{number}", f"p {number}", host=f"www.{host}")
        is_copy = rng.random() < 0.3
        make.add(f"/p/{number}", f"p {number}" if is_copy else f"blog {number}", host=f"blog.{host}")
    return make.site


def make_rarely_matters(host: str, rng: random.Random) -> Site:
    """A parameter that matters on 5 % of the pages, always present; a second one never matters."""
    make = Maker("rarely", host, rng, "param:from")
    for number in range(300):
        for _ in range(2):
            mode = rng.randrange(3)
            pairs: Pairs = [("n", number), ("mode", mode)]
            pairs += [("from", make.word())] if rng.random() < 0.6 else []
            make.add(f"/x{make.query(pairs)}", f"x {number} {mode if number % 20 == 3 else ''}")
    return make.site


def make_correlated(host: str, rng: random.Random) -> Site:
    """A category that follows from the id and is sometimes left out; a region that matters."""
    make = Maker("correlated", host, rng, "param:cat")
    for number in range(140):
        for _ in range(4):
            region = rng.choice(["north", "south"])
            pairs: Pairs = [("cat", number % 6)] if rng.random() < 0.5 else []
            pairs += [("id", number), ("region", region)]
            make.add(f"/offer{make.query(pairs)}", f"offer {number} {region}")
    return make.site


def make_empty_albums(host: str, rng: random.Random) -> Site:
    """Pairs of albums with the same (empty) content, and a visit parameter that says nothing."""
    make = Maker("albums", host, rng, "param:visit")
    for number in range(200):
        for _ in range(2):
            tail = f"&visit={make.token(8)}" if rng.random() < 0.5 else ""
            content = f"empty {number // 2}" if number % 10 < 4 else None
            make.add(f"/album?no={number}{tail}", f"album {number}", content=content)
    return make.site


def make_two_ways(host: str, rng: random.Random) -> Site:
    """`/article.php?nr=55` and `/article/55`, both with a session."""
    make = Maker("two-ways", host, rng, "path-query:/article.php|nr", "param:sess")
    for number in range(140):
        for _ in range(4):
            session = f"sess={make.token(8)}" if rng.random() < 0.5 else ""
            if rng.random() < 0.5:
                make.add(f"/article/{number}" + (f"?{session}" if session else ""), f"article {number}")
            else:
                make.add(f"/article.php?nr={number}" + (f"&{session}" if session else ""), f"article {number}")
    return make.site


def make_default_language(host: str, rng: random.Random) -> Site:
    """`/en/` is the default language and can be left out; `/de/` is another text; `/m/` is the same page."""
    make = Maker("default-language", host, rng, "seg:first:en", "seg:first:m")
    for number in range(130):
        path = f"/{make.word()}/{make.slug()}-{make.name(4)}"
        for prefix in ("", "/en", "/m"):
            if rng.random() < 0.7:
                make.add(prefix + path, f"text {number}")
        make.add(f"/de{path}", f"text {number} de")
    return make.site


def make_hex_ids(host: str, rng: random.Random) -> Site:
    """Text after an id of hexadecimal digits, and a share parameter."""
    make = Maker("hex-ids", host, rng, "slug:/item/#", "param:share")
    for _ in range(140):
        key = f"{rng.getrandbits(40):010x}a7"
        for _copy in range(3):
            tail = f"?share={make.word()}" if rng.random() < 0.4 else ""
            make.add(f"/item/{key}/{make.slug()}{tail}", f"item {key}")
    return make.site


def make_formats(host: str, rng: random.Random) -> Site:
    """`.html` and `.php` say nothing, `.json` and `.txt` are other documents; slashes say nothing."""
    make = Maker("formats", host, rng, "ext:html", "ext:php", "slash")
    for number in range(140):
        path = f"/{make.word()}/{make.name()}{number}"
        for _ in range(3):
            make.add(path + rng.choice(["", ".html", ".php", "/"]), f"page {number}")
        make.add(f"{path}.json", f"json {number}")
        make.add(f"{path}.txt", f"txt {number}")
    return make.site


def make_wall_and_session(host: str, rng: random.Random) -> Site:
    """A third of the answers is a login form; a session and the order of parameters say nothing."""
    make = Maker("wall-session", host, rng, "param:PHPSESS or param:phpsess", "order", strict=True)
    for number in range(160):
        for _ in range(5):
            pairs: Pairs = [("forum", number % 7), ("topic", number)]
            if rng.random() < 0.5:
                pairs.append(("PHPSESS", make.token(16)))
            content = "please log in" if rng.random() < 0.33 else None
            make.add(f"/read{make.query(pairs, shuffle=True)}", f"topic {number}", content=content)
    return make.site


ADVERSARIAL_KINDS: list[Callable[[str, random.Random], Site]] = [
    make_sparse_shop, make_dense_docs, make_brackets, make_java_app, make_cookieless, make_blog, make_versioned_docs,
    make_defaults, make_deep_folders, make_any_case, make_numbered_pages, make_edits_and_errors, make_similar_pages,
    make_syndication, make_rarely_matters, make_correlated, make_empty_albums, make_two_ways, make_default_language,
    make_hex_ids, make_formats, make_wall_and_session,
]  # fmt: skip
