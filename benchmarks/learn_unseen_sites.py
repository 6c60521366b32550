"""Kinds of sites that the learner was not made with: written after it, from the words of contract L3 alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.learn_sites import DAY, Maker, Site

if TYPE_CHECKING:
    import random
    from collections.abc import Callable


def make_recipe_site(host: str, rng: random.Random) -> Site:
    """Number and text in one segment, `/r/123-soup`, servings that matter, a language in the host."""
    servings, source = Maker("", host, rng).name(8), Maker("", host, rng).name(7)
    make = Maker("recipes", host, rng, "id-start:/r", f"param:{source}")
    for number in range(200, 330):
        for _ in range(rng.randint(2, 4)):
            amount = rng.choice([2, 4])
            tail = f"&{source}={make.word()}" if rng.random() < 0.5 else ""
            make.add(f"/r/{number}-{make.slug()}?{servings}={amount}{tail}", f"recipe {number} for {amount}")
    return make.site


def make_ticket_site(host: str, rng: random.Random) -> Site:
    """`/tickets/5/comments` and `/tickets/5/files` are pages of their own; a view parameter says nothing."""
    view = Maker("", host, rng).name(4)
    make = Maker("tickets", host, rng, f"param:{view}")
    for number in range(90):
        for tab in ("", "/comments", "/files"):
            for _ in range(2):
                tail = f"?{view}={rng.randrange(9)}" if rng.random() < 0.7 else ""
                make.add(f"/tickets/{number}{tab}{tail}", f"ticket {number}{tab}")
    return make.site


def make_archive_by_date(host: str, rng: random.Random) -> Site:
    """Dates in the path, days without articles, and a print version below a folder."""
    make = Maker("dates", host, rng, "seg:first:printable")
    for number in range(120):
        path = f"/{rng.randrange(2001, 2024)}/{rng.randrange(1, 13):02}/{make.slug()}{number}"
        make.add(path, f"article {number}")
        make.add(f"/printable{path}", f"article {number}")
    for year in range(2001, 2024):
        for month in range(1, 13):
            is_empty = rng.random() < 0.5
            make.add(f"/{year}/{month:02}/", f"month {year} {month}", content="no articles" if is_empty else None)
    return make.site


def make_busy_server(host: str, rng: random.Random) -> Site:
    """One answer in ten is an error page; a token says nothing."""
    token = Maker("", host, rng).name(6)
    make = Maker("busy", host, rng, f"param:{token}")
    for number in range(140):
        for _ in range(4):
            is_busy = rng.random() < 0.1
            tail = f"&{token}={make.token()}" if rng.random() < 0.7 else ""
            make.add(f"/view?doc={number}{tail}", f"doc {number}", content="busy, try again" if is_busy else None)
    return make.site


def make_language_site(host: str, rng: random.Random) -> Site:
    """Languages as folders and as parameters matter; on half of the pages the translation is missing."""
    make = Maker("languages", host, rng, strict=True)
    for number in range(130):
        is_translated = rng.random() < 0.5
        for language in ("en", "de", "fr"):
            content = f"page {number} {language}" if is_translated else f"page {number}"
            make.add(f"/{language}/page/{number}", f"page {number} {language}", content=content)
            make.add(f"/help/{number}?lang={language}", f"help {number} {language}",
                     content=f"help {number} {language if is_translated else ''}")  # fmt: skip
    return make.site


def make_gallery(host: str, rng: random.Random) -> Site:
    """`;width=` selects a size, `;visit=` says nothing."""
    width, visit = Maker("", host, rng).name(5), Maker("", host, rng).name(6)
    make = Maker("gallery", host, rng, f"sem:{visit}")
    for number in range(100):
        for size in (100, 200):
            for _ in range(2):
                tail = f";{visit}={make.token()}" if rng.random() < 0.6 else ""
                make.add(f"/photo/{number};{width}={size}{tail}", f"photo {number} {size}")
    return make.site


def make_cms(host: str, rng: random.Random) -> Site:
    """`/node/5` and `/index.php?n=5`, `default.aspx` at the end, any case of the file name."""
    make = Maker("cms", host, rng, "path-query:/index.php|n", "seg:last:default.aspx")
    for number in range(110):
        make.add(f"/node/{number}", f"node {number}")
        make.add(f"/index.php?n={number}", f"node {number}")
        make.add(f"/area/{make.name()}{number}/", f"area {number}")
        make.site.rows.append(make.site.rows[-1])
        path = make.site.rows[-1].url.split(host)[1]
        make.add(f"{path}default.aspx", f"area {number}")
    return make.site


def make_mobile_site(host: str, rng: random.Random) -> Site:
    """`mob.` is the same site as the bare host; `api.` is not, although both answer under the same paths."""
    make = Maker("mobile", host, rng, "host:mob")
    for number in range(120):
        make.add(f"/n/{number}", f"n {number}")
        if rng.random() < 0.7:
            make.add(f"/n/{number}", f"n {number}", host=f"mob.{host}")
        make.add(f"/n/{number}", f"json {number}", host=f"api.{host}")
    return make.site


def make_experiment(host: str, rng: random.Random) -> Site:
    """A parameter that does nothing until day 15 and then selects a variant."""
    variant, ref = Maker("", host, rng).name(5), Maker("", host, rng).name(6)
    make = Maker("experiment", host, rng, f"param:{ref}", strict=True)
    for number in range(120):
        for _ in range(5):
            at, value = rng.randrange(30 * DAY), rng.choice("ab")
            content = f"p {number} {value}" if at > 15 * DAY else f"p {number}"
            tail = f"&{ref}={make.word()}" if rng.random() < 0.5 else ""
            make.add(f"/p?id={number}&{variant}={value}{tail}", f"p {number} {value}", content=content, at=at)
    return make.site


def make_feed_reader(host: str, rng: random.Random) -> Site:
    """Tracking on a bare path, several names that always come together, and paging with `p=1` as default."""
    names = [Maker("", host, rng).name(length) for length in (4, 6, 8)]
    make = Maker("feed", host, rng, *(f"param:{name}" for name in names), "value:p=1")
    for number in range(110):
        for page in (1, 2, 3):
            for _ in range(2):
                pairs: list[tuple[str, object]] = [("p", page)] if page > 1 or rng.random() < 0.5 else []
                if rng.random() < 0.5:
                    pairs += [(name, make.word()) for name in names]
                make.add(f"/blog/{make.site.kind}{number}{make.query(pairs)}", f"post {number} page {page}")
    return make.site


UNSEEN_KINDS: list[Callable[[str, random.Random], Site]] = [
    make_recipe_site, make_ticket_site, make_archive_by_date, make_busy_server, make_language_site, make_gallery,
    make_cms, make_mobile_site, make_experiment, make_feed_reader,
]  # fmt: skip
