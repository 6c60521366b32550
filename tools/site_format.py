"""Read and check the site tables that people write: core/data/sites/*.toml (docs/howto/add-a-site.md).

A table is compiled into plain values for core/site_tables.py: hosts are expanded, defaults left out. Every mistake is
a `SiteTableError` that names the file, the place and the reason.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from canonry.core.rules import is_param_name, strip_www
from canonry.core.site_patterns import CLASSES, FILTERS, MAX_LENGTH, TARGET_CODES, Capture, list_fields, split_pattern

FOLDER = Path(__file__).parent.parent / "src" / "canonry" / "core" / "data" / "sites"
_FILE_KEYS = {"version", "about", "source", "values", "site", "row"}
_SITE_KEYS = {
    "host", "mirrors", "except_hosts", "https", "slash", "drop", "needs", "defaults", "drop_fragments", "page",
}  # fmt: skip
_PAGE_KEYS = {
    "about", "path", "only_on", "also_on", "ignore_case", "query", "without", "no_other_params", "not", "write", "keep",
    "drop", "defaults", "rename", "fragment", "drop_fragments", "target", "target_code", "target_query", "whole",
}  # fmt: skip
_ROW_KEYS = {"same", "different", "source", "why"}
_HOST = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z][a-z0-9-]*")
_TARGET_FILTERS = {"base64", "decode", "proofpoint"}
_MAX_GROUPS = 31
_SAFE_IN_QUERY = set(CLASSES)
_SAFE_IN_HOST = {"base36", "digits", "lower"}  # no hyphens: `xn--` could begin a label that is not valid
_LONGEST_LABEL = 63


class SiteTableError(ValueError):
    """A mistake in a site table."""

    def __init__(self, file: str, place: str, reason: str) -> None:
        super().__init__(f"{file}: {place}: {reason}")
        self.file = file
        self.place = place
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Row:
    """URLs that show the same page, or that must all stay apart, with the source of the fact."""

    same: bool
    urls: tuple[str, ...]
    source: str
    why: str


@dataclass(frozen=True, slots=True)
class SiteFile:
    """A site table: its versioned name, its compiled blocks and its rows."""

    name: str
    version: int
    about: str
    source: str
    blocks: list[dict[str, Any]]
    rows: tuple[Row, ...]

    @property
    def id(self) -> str:
        """`name@version`, as policies name the site."""
        return f"{self.name}@{self.version}"


def read_site_files(folder: Path = FOLDER) -> list[SiteFile]:
    """Read every table of a folder, by name."""
    files = [read_site_file(path.stem, path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.toml"))]
    owners: dict[str, str] = {}
    for file in files:
        for host in (host[0] for block in file.blocks for host in block["hosts"]):
            if owners.setdefault(host, file.name) != file.name:
                raise SiteTableError(f"{file.name}.toml", "site", f"{host} belongs to {owners[host]}.toml already")
    return files


def read_site_file(name: str, text: str) -> SiteFile:
    """Read one table; SiteTableError on any mistake."""
    return _Reader(f"{name}.toml").read(name, text)


class _Reader:
    def __init__(self, file: str) -> None:
        self._file = file
        self._place = "top level"

    def read(self, name: str, text: str) -> SiteFile:
        try:
            table = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise SiteTableError(self._file, "TOML", str(error)) from None
        self._check_keys(table, _FILE_KEYS)
        self._require(re.fullmatch("[a-z][a-z0-9-]*", name), "the file name must hold only a-z, 0-9 and -")
        version = table.get("version", 1)
        self._require(isinstance(version, int) and version >= 1, "version must be a whole number, 1 or more")
        for key in ("about", "source"):
            self._require(isinstance(table.get(key), str) and table[key], f"{key} is missing")
        self._require(str(table["source"]).startswith("https://"), "source must be an https URL")
        values = cast("dict[str, list[str]]", table.get("values", {}))
        self._require(table.get("site"), "needs at least one [[site]]")
        blocks: list[dict[str, Any]] = []
        for number, site in enumerate(table["site"], 1):
            self._place = f"site {number}"
            blocks.append(self._read_site(site, values))
        self._check_hosts_are_unique(blocks)
        rows = self._read_rows(table.get("row", []), table["source"])
        return SiteFile(name, version, table["about"], table["source"], blocks, rows)

    # --- hosts ---

    def _read_site(self, site: dict[str, Any], values: dict[str, list[str]]) -> dict[str, Any]:
        self._check_keys(site, _SITE_KEYS)
        place = self._place
        main = site.get("host", "")
        mirrors = self._read_texts(site, "mirrors")
        self._require(main or mirrors, "needs `host`, or `mirrors` for hosts that stay as they are")
        names = {name for mirror in [main, *mirrors] for name in re.findall(r"\{([a-z0-9_]+)\}", mirror)} & set(values)
        excluded = tuple(sorted(host.partition(".")[0] for host in self._read_texts(site, "except_hosts")))
        pages: list[dict[str, Any]] = []
        groups: dict[str, int] = {}
        for number, page in enumerate(site.get("page", []), 1):
            self._place = f"{place}, page {number}"
            pages.append(self._read_page(page, groups))
        self._place = place
        self._require(len(groups) <= _MAX_GROUPS, f"more than {_MAX_GROUPS} hosts in only_on and also_on")
        hosts: list[tuple[str, str, int, str, tuple[str, ...]]] = []
        for choice in self._list_choices(names, values):
            written = self._fill(main, choice)
            listed = [(self._fill(mirror, choice), 0) for mirror in ([main] if main else []) + mirrors]
            listed += [(self._fill(host, choice), group) for host, group in groups.items()]
            hosts += [self._read_host(host, written, group, excluded) for host, group in listed]
        unique = list(dict.fromkeys(hosts))
        block: dict[str, Any] = {"hosts": tuple(unique)}
        if site.get("https", bool(main)):
            block["https"] = True
        slash = site.get("slash", "keep")
        self._require(slash in ("keep", "strip", "add"), "slash must be keep, strip or add")
        if slash != "keep":
            block["slash"] = slash
        self._read_params(site, block, ("drop", "needs"))
        self._read_defaults(site, block)
        if fragments := self._read_texts(site, "drop_fragments"):
            block["drop_fragments"] = tuple(fragments)
        if pages:
            block["pages"] = tuple(pages)
        elsewhere = [page["write"][8:].partition("/")[0] for page in pages if page.get("write", "").startswith("https")]
        if elsewhere:
            block["written_hosts"] = tuple(sorted(set(elsewhere)))
        return block

    def _list_choices(self, names: set[str], values: dict[str, list[str]]) -> list[dict[str, str]]:
        ordered = sorted(names)
        return [
            dict(zip(ordered, combination, strict=True))
            for combination in itertools.product(*(values[name] for name in ordered))
        ]

    def _fill(self, host: str, choice: dict[str, str]) -> str:
        for name, value in choice.items():
            host = host.replace(f"{{{name}}}", value)
        return host

    def _read_host(
        self, host: str, main: str, group: int, excluded: tuple[str, ...]
    ) -> tuple[str, str, int, str, tuple[str, ...]]:
        """Read a host as (host without www., main host, group, pattern of its first label, labels left out)."""
        label, is_wild = "", host.startswith("{")
        if is_wild:
            label, _, domain = host.partition(".")
            host = f"*.{domain}"
            (capture,) = self._split(label)
            self._require(isinstance(capture, Capture), f"{label!r} must be one capture")
            if main.startswith("{"):
                self._require(
                    main.partition(".")[0].strip("{}").partition(":")[0] == label.strip("{}").partition(":")[0],
                    f"the main host {main!r} must take over the first label of {host!r}",
                )
            assert isinstance(capture, Capture)
            label = "" if capture.kind == "any" and not capture.choices and not capture.longest else label
        if main.startswith("{"):
            self._require(is_wild or group, f"{host!r} has no first label for {main!r}")
            main = f"*.{main.partition('.')[2]}" if is_wild else ""
        bare = host.removeprefix("*.")
        self._require(_HOST.fullmatch(bare), f"{host!r} is not a host")
        self._require(not main or _HOST.fullmatch(main.removeprefix("*.")), f"{main!r} is not a host")
        return (host if is_wild else strip_www(host), main, group, label, excluded if is_wild else ())

    def _check_hosts_are_unique(self, blocks: list[dict[str, Any]]) -> None:
        seen: dict[tuple[str, str], int] = {}
        for number, block in enumerate(blocks, 1):
            self._place = f"site {number}"
            for host, _, _, label, _ in block["hosts"]:
                self._require(
                    (host, label) not in seen, f"{host} is listed twice, first in site {seen.get((host, label))}"
                )
                seen[host, label] = number

    # --- pages ---

    def _read_page(self, page: dict[str, Any], groups: dict[str, int]) -> dict[str, Any]:
        self._check_keys(page, _PAGE_KEYS)
        read: dict[str, Any] = {"path": tuple(self._read_texts(page, "path"))}
        self._require(read["path"], "path is missing")
        path_names = [self._check_path(path) for path in read["path"]]
        names = path_names[0]
        self._require(all(set(each) == set(names) for each in path_names), "every path must have the same captures")
        query = cast("dict[str, str]", page.get("query", {}))
        query_names: dict[str, Capture] = {}
        for param, pattern in query.items():
            self._require(param and "{" not in param, f"{param!r} is not a parameter")
            query_names |= self._check_pieces(pattern)
        self._require(not set(names) & set(query_names), "path and query captures need different names")
        if query:
            read["query"] = dict(query)
        self._read_groups(page, read, groups)
        for key in ("ignore_case", "no_other_params", "target_query", "whole"):
            self._require(isinstance(page.get(key, False), bool), f"{key} must be true or false")
            if page.get(key):
                read[key] = True
        if excluded := page.get("not"):
            known = set(names) | set(query_names)
            self._require(set(excluded) <= known, f"not names {sorted(set(excluded) - known)}, which is not captured")
            read["not"] = {name: tuple(words) for name, words in excluded.items()}
        if absent := self._read_texts(page, "without"):
            read["without"] = tuple(absent)
        self._read_write(page, read, names, query_names)
        self._read_params(page, read, ("keep", "drop"))
        self._read_defaults(page, read)
        if rename := page.get("rename"):
            read["rename"] = dict(rename)
            self._require(not set(rename) & set(rename.values()), "a parameter is renamed to one that is renamed")
            kept = read.get("keep")
            self._require(kept is None or set(rename.values()) <= set(kept), "keep must list what rename writes")
        self._require(page.get("fragment", "keep") in ("keep", "drop"), "fragment must be keep or drop")
        if page.get("fragment") == "drop":
            read["fragment"] = "drop"
        if fragments := self._read_texts(page, "drop_fragments"):
            read["drop_fragments"] = tuple(fragments)
        return read

    def _read_groups(self, page: dict[str, Any], read: dict[str, Any], groups: dict[str, int]) -> None:
        only, also = self._read_texts(page, "only_on"), self._read_texts(page, "also_on")
        self._require(not (only and also), "only_on and also_on exclude each other")
        for host in (*only, *also):
            groups.setdefault(host, len(groups) + 1)
        if only:
            read["groups"] = tuple(groups[host] for host in only)
        elif also:
            read["groups"] = (0, *(groups[host] for host in also))

    def _read_write(
        self, page: dict[str, Any], read: dict[str, Any], names: dict[str, Capture], query_names: dict[str, Capture]
    ) -> None:
        target, write = page.get("target", ""), page.get("write", "")
        self._require(
            sum(map(bool, (target, write, read.get("whole")))) <= 1, "write, target and whole exclude each other"
        )
        self._require(bool(target) or "target_query" not in read, "target_query needs target")
        if code := page.get("target_code"):
            self._require(code in TARGET_CODES, f"unknown target_code {code!r}; known are {', '.join(TARGET_CODES)}")
            self._require(not (target or write or "whole" in read), "target_code stands alone")
            read["target_code"] = code
        captured = names | query_names
        for template in (target, write):
            leftover = re.sub(r"\{[a-z][a-z0-9_]*(?:\|[a-z0-9]+)*\}", "", template)
            self._require("{" not in leftover and "}" not in leftover, f"malformed capture in {template!r}")
            for name, filters in list_fields(template):
                self._require(name in captured, f"{template!r} writes {name}, which is not captured")
                self._require(set(filters) <= set(FILTERS), f"unknown filter in {template!r}")
        if target:
            read["target"] = target
            self._require(
                target.startswith(("https://", "http://", "{")),
                "target must begin with https:// or a capture",
            )
        if write:
            self._check_write(write, names, query_names)
            read["write"] = write

    def _check_write(self, write: str, names: dict[str, Capture], query_names: dict[str, Capture]) -> None:
        self._require(write.startswith(("/", "https://")), "write must begin with / or https://")
        path, _, query = write.partition("?")
        if write.startswith("https://"):
            for name, filters in list_fields(write[8:].partition("/")[0]):
                capture = (names | query_names)[name]
                self._require(
                    capture.kind in _SAFE_IN_HOST
                    and not capture.choices
                    and 0 < capture.longest <= _LONGEST_LABEL
                    and not filters,
                    f"{name} is written into the host: give it the class base36, digits or lower and a length of 1-63",
                )
        for _, filters in list_fields(write):
            self._require(not _TARGET_FILTERS & set(filters), "base64, decode and proofpoint are for target only")
        for name, _ in list_fields(path):
            if name in query_names:
                capture = query_names[name]
                self._require(
                    bool(capture.choices) or capture.kind != "any",
                    f"{name} comes from the query: give it a class before it is written into the path",
                )
        for name, _ in list_fields(query):
            capture = (names | query_names)[name]
            self._require(
                bool(capture.choices) or capture.kind in _SAFE_IN_QUERY,
                f"{name} is written into the query: give it a class other than any and text",
            )

    def _check_path(self, path: str) -> dict[str, Capture]:
        self._require(path.startswith("/"), f"{path!r} must begin with /")
        self._require(path == "/" or not path.endswith("/"), f"{path!r} must not end with /: the slash is ignored")
        self._require("//" not in path and "?" not in path and "#" not in path, f"{path!r} is not a path")
        found: dict[str, Capture] = {}
        segments = path[1:].split("/")
        for number, segment in enumerate(segments, 1):
            captures = self._check_pieces(segment)
            for name, capture in captures.items():
                self._require(name not in found, f"{name} is captured twice in {path!r}")
                is_last = number == len(segments) and segment.startswith("{") and segment.endswith("}")
                self._require(
                    not capture.spans or (is_last and len(captures) == 1), f"{{{name}+}} must be the last segment"
                )
            found |= captures
        return found

    def _check_pieces(self, text: str) -> dict[str, Capture]:
        """Check one segment or value: at most two captures, and only one way to split the text between them."""
        pieces = self._split(text)
        captures = [piece for piece in pieces if isinstance(piece, Capture)]
        for capture in captures:
            self._require(
                capture.shortest >= 1 and (not capture.longest or capture.shortest <= capture.longest <= MAX_LENGTH),
                f"the length of {capture.name} must be 1 to {MAX_LENGTH}",
            )
            self._require(not capture.longest or capture.kind != "text", "text has no length")
        self._require(len(captures) <= 2, f"{text!r} has more than two captures in one segment")
        if len(captures) == 2:
            left, right = captures
            between = pieces[pieces.index(left) + 1]
            self._require(isinstance(between, str), f"{text!r} needs a character between two captures")
            assert isinstance(between, str)
            self._require(len(between) == 1, f"{text!r} may have only one character between two captures")
            self._require(
                not may_hold(left, between) or not may_hold(right, between),
                f"{text!r} can be split in several ways: one of its captures must have a class without {between!r}",
            )
        return {capture.name: capture for capture in captures}

    def _split(self, text: str) -> list[str | Capture]:
        try:
            return list(split_pattern(text))
        except ValueError as error:
            raise SiteTableError(self._file, self._place, str(error)) from None

    # --- parameters and rows ---

    def _read_params(self, table: dict[str, Any], read: dict[str, Any], keys: tuple[str, ...]) -> None:
        for key in keys:
            if key in table:
                names = self._read_texts(table, key)
                for name in names:
                    self._require(is_param_name(name), f"{key}: {name!r} is not a parameter name")
                read[key] = tuple(sorted({name.lower() for name in names}))

    def _read_defaults(self, table: dict[str, Any], read: dict[str, Any]) -> None:
        defaults = cast("dict[str, Any]", table.get("defaults", {}))
        if defaults:
            read["defaults"] = {
                name.lower(): tuple([values] if isinstance(values, str) else values)
                for name, values in defaults.items()
            }

    def _read_rows(self, rows: list[dict[str, Any]], source: str) -> tuple[Row, ...]:
        read: list[Row] = []
        for number, row in enumerate(rows, 1):
            self._place = f"row {number}"
            self._check_keys(row, _ROW_KEYS)
            self._require(("same" in row) != ("different" in row), "needs same or different")
            urls = self._read_texts(row, "same" if "same" in row else "different")
            self._require(len(urls) >= 2, "needs at least two URLs")
            read.append(Row("same" in row, tuple(urls), row.get("source", source), row.get("why", "")))
        self._place = "row"
        self._require(read, "needs at least one [[row]]")
        return tuple(read)

    def _read_texts(self, table: dict[str, Any], key: str) -> list[str]:
        value = table.get(key, [])
        texts = [value] if isinstance(value, str) else value
        is_list = isinstance(texts, list) and all(isinstance(text, str) for text in cast("list[object]", texts))
        self._require(is_list, f"{key} must be a list of strings")
        return cast("list[str]", texts)

    def _check_keys(self, table: dict[str, Any], known: set[str]) -> None:
        unknown = sorted(set(table) - known)
        self._require(not unknown, f"unknown key {', '.join(unknown)}; known are {', '.join(sorted(known))}")

    def _require(self, condition: object, reason: str) -> None:
        if not condition:
            raise SiteTableError(self._file, self._place, reason)


def may_hold(capture: Capture, character: str) -> bool:
    """Return whether a capture may hold this character."""
    if capture.choices:
        return any(character in word for word in capture.choices)
    if capture.kind in ("any", "text"):
        return True
    return re.fullmatch(f"[{CLASSES[capture.kind]}]", character) is not None
