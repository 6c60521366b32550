"""Kinds of sites that were written last, after the learner was finished: their first result is in decision 23."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.learn_sites import Maker, Site

if TYPE_CHECKING:
    import random
    from collections.abc import Callable


def make_podcast(host: str, rng: random.Random) -> Site:
    """Players before the path (`/embed/`), a start time that says nothing, and transcripts that are other pages."""
    make = Maker("podcast", host, rng, "param:start", "seg:first:embed")
    for number in range(120):
        path = f"/show/{make.name(5)}-{number}"
        for _ in range(3):
            prefix = "/embed" if rng.random() < 0.4 else ""
            tail = f"?start={rng.randrange(3000)}" if rng.random() < 0.5 else ""
            make.add(f"{prefix}{path}{tail}", f"episode {number}")
        make.add(f"{path}/transcript", f"transcript {number}")
    return make.site


def make_map(host: str, rng: random.Random) -> Site:
    """Coordinates that matter, a zoom that matters, a layer that is the default, and a token nobody needs."""
    make = Maker("map", host, rng, "value:layer=std", "param:key_id")
    for number in range(130):
        lat, lon = number // 12, number % 12
        for _ in range(4):
            zoom, layer = rng.choice([5, 9]), rng.choice(["std", "std", "sat"])
            pairs: list[tuple[str, object]] = [("lat", lat), ("lon", lon), ("z", zoom)]
            pairs += [("layer", layer)] if layer != "std" or rng.random() < 0.5 else []
            pairs += [("key_id", make.token(10))] if rng.random() < 0.4 else []
            make.add(f"/map{make.query(pairs)}", f"map {lat} {lon} {zoom} {layer}")
    return make.site


def make_jobs(host: str, rng: random.Random) -> Site:
    """A title before the number in one segment, an agency that says nothing, and closed jobs with one answer."""
    make = Maker("jobs", host, rng, "id-end:/jobs", "param:agency")
    for number in range(7000, 7150):
        is_closed = rng.random() < 0.3
        for _ in range(3):
            tail = f"?agency={make.word()}" if rng.random() < 0.5 else ""
            content = "this job is closed" if is_closed else None
            make.add(f"/jobs/{make.slug()}-{number}{tail}", f"job {number}", content=content)
    return make.site


def make_mirrors(host: str, rng: random.Random) -> Site:
    """`cdn1.` and `cdn2.` have the same files; `old.` has an earlier state of most of them."""
    make = Maker("mirrors", host, rng, "host:cdn1", "host:cdn2")
    for number in range(130):
        path = f"/files/{make.name(6)}{number}.pdf"
        make.add(path, f"file {number}")
        make.add(path, f"file {number}", host=f"cdn1.{host}")
        make.add(path, f"file {number}", host=f"cdn2.{host}")
        make.add(path, f"file {number}" if rng.random() < 0.2 else f"old {number}", host=f"old.{host}")
    return make.site


def make_votes(host: str, rng: random.Random) -> Site:
    """Comments in an order that matters, permalinks (`/c/id`) that are pages of their own, and a campaign."""
    make = Maker("votes", host, rng, "param:utmx")
    for number in range(120):
        for _ in range(4):
            order = rng.choice(["top", "new"])
            tail = f"&utmx={make.word()}" if rng.random() < 0.5 else ""
            make.add(f"/t/{number}?o={order}{tail}", f"thread {number} {order}")
        make.add(f"/t/{number}/c/{rng.randrange(10**6)}", f"comment of {number}")
    return make.site


def make_library(host: str, rng: random.Random) -> Site:
    """A session after a semicolon, `.html` or not, and a format below one folder that says nothing."""
    make = Maker("library", host, rng, "sem:visit", "ext:html", "folder:/record/|fmt or folder:/record|fmt")
    for number in range(130):
        for _ in range(4):
            ending = rng.choice(["", ".html"])
            visit = f";visit={make.token(14)}" if rng.random() < 0.4 else ""
            make.add(f"/record/r{number}{ending}{visit}?fmt={rng.choice('abc')}", f"record {number}")
            form = rng.choice("abc")
            make.add(f"/export/r{number}?fmt={form}", f"export {number} {form}")
    return make.site


LATE_KINDS: list[Callable[[str, random.Random], Site]] = [
    make_podcast, make_map, make_jobs, make_mirrors, make_votes, make_library,
]  # fmt: skip
