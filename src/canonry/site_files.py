"""Describe known sites and tracking parameters for people, from the tables in core/data (`canonry rules`, /rules)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, cast

from canonry.core.native import normalize

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

_POLICY = "bookmark"


@dataclass(frozen=True, slots=True)
class PageDescription:
    """One kind of page of a site: what it shows, its paths, and how it is written or where it leads."""

    about: str
    paths: tuple[str, ...]
    write: str
    target: str


@dataclass(frozen=True, slots=True)
class SiteExample:
    """A URL before and after the rules of its site, under the newest policy for bookmarks."""

    before: str
    after: str


@dataclass(frozen=True, slots=True)
class SiteDescription:
    """A site that is a table: its hosts, its pages, and examples from its rows."""

    site: str
    about: str
    source: str
    hosts: tuple[str, ...]
    drop: tuple[str, ...]
    pages: tuple[PageDescription, ...]
    examples: tuple[SiteExample, ...]


@dataclass(frozen=True, slots=True)
class TrackingParameter:
    """A query parameter that is only for tracking, on every host or on one."""

    name: str
    host: str | None
    owner: str
    what: str
    source: str
    lists: tuple[str, ...]
    agreed_by: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The name, with the host if it is for one only."""
        return self.name if self.host is None else f"{self.name} (on {self.host})"


@cache
def list_tracking_parameters() -> tuple[TrackingParameter, ...]:
    """Return the parameters for every host, then those for one host, in the order of the table."""
    table = read_data("params.toml")
    by_host: dict[str, dict[str, Any]] = table.pop("on")
    rows: list[tuple[str, str | None, Any]] = [(name, None, row) for name, row in table.items()]
    rows += [(name, host, row) for host, names in by_host.items() for name, row in names.items()]
    return tuple(
        TrackingParameter(
            name,
            host,
            row["owner"],
            row["what"],
            row["source"],
            tuple(row["lists"]),
            tuple(row.get("agreed_by", ())),
        )
        for name, host, row in rows
    )


@cache
def describe_sites() -> tuple[SiteDescription, ...]:
    """Return every site that is a table, by name."""
    folder = files("canonry.core") / "data" / "sites"
    tables = sorted(folder.iterdir(), key=lambda file: file.name)
    return tuple(_describe(file) for file in tables if file.name.endswith(".toml"))


def read_data(name: str) -> dict[str, Any]:
    """Read a table of core/data: `params.toml`, `sites.toml`."""
    return tomllib.loads((files("canonry.core") / "data" / name).read_text(encoding="utf-8"))


def _describe(file: Traversable) -> SiteDescription:
    table = tomllib.loads(file.read_text(encoding="utf-8"))
    sites = cast("list[dict[str, Any]]", table["site"])
    values = cast("dict[str, list[str]]", table.get("values", {}))
    patterns = [
        each for site in sites for each in [site.get("host", ""), *_list_texts(site.get("mirrors", []))] if each
    ]
    hosts = [host for pattern in patterns for host in _list_hosts(pattern, values)]
    pages = [page for site in sites for page in site.get("page", [])]
    return SiteDescription(
        site=f"{file.name.removesuffix('.toml')}@{table.get('version', 1)}",
        about=table["about"],
        source=table["source"],
        hosts=tuple(dict.fromkeys(hosts)),
        drop=tuple(dict.fromkeys(name for site in sites for name in site.get("drop", []))),
        pages=tuple(
            PageDescription(
                page.get("about", ""), tuple(_list_texts(page["path"])), page.get("write", ""), page.get("target", "")
            )
            for page in pages
        ),
        examples=tuple(_list_examples(table["row"])),
    )


def _list_examples(rows: list[dict[str, Any]]) -> Iterator[SiteExample]:
    """Yield the first URL of each row that the rules change."""
    for row in rows:
        for url in row.get("same", []):
            after = normalize(url, _POLICY)
            if after != url:
                yield SiteExample(url, after)
                break


def _list_hosts(pattern: str, values: dict[str, list[str]]) -> list[str]:
    """Return the hosts of a pattern whose list holds whole hosts (`www.{news}`), or the pattern (`amazon.{shop}`)."""
    start, brace, name = pattern.partition("{")
    if not brace or start not in ("", "www.") or name.removesuffix("}") not in values:
        return [pattern]
    return [start + host for host in values[name.removesuffix("}")]]


def _list_texts(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value
