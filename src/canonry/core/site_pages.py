"""Rules 2 and 8 for sites that are tables: find the page that a URL shows, and write it in one way (contract N8b).

A host belongs to a block of a table: its main host, mirrors, and hosts that share only some pages. A page is
matched by host, by the path as rules 5 to 7 would leave it, and by the parameters that no rule drops, so that the
answer is the same under every policy. tools/site_format.py checks the tables; native/sites.c is the same in C.
"""

from __future__ import annotations

import re
from functools import cached_property

from canonry.core.rules import (
    clean_path,
    drop_params,
    embeds_address,
    get_param_name,
    lower_ascii,
    make_name_matcher,
    normalize_escapes,
    strip_trailing_slashes,
    strip_www,
)
from canonry.core.site_patterns import TARGET_CODES, is_web_address, make_expression, make_writer, read_form_value
from canonry.core.url import Parts, parse
from canonry.url_errors import InvalidUrl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    Matcher = Callable[[str], bool]

# A redirect page may lead to another. A URL with more of them inside each other is kept as it is.
MAX_MOVES = 8
_DOTS = frozenset({".", ".."})  # never captured: as segments, the parser would resolve them
MAIN_GROUP = 0  # the main host of a block and its mirrors; a host of another group shares only some pages


class SiteHost:
    """A host of a site: the block it belongs to, the host to write, and the group of hosts it is in."""

    def __init__(self, block: SiteBlock, main: str, *, group: int, label: str, excluded: tuple[str, ...]) -> None:
        self.block = block
        self.main = main  # `*.example.com` takes over the first label; empty: the host stays
        self.main_domain = main[1:] if main[:1] == "*" else ""
        self.group = group
        self.label = re.compile(make_expression(label)) if label else None
        self.excluded = frozenset(excluded)

    @cached_property
    def pages(self) -> list[SitePage]:
        """The kinds of pages that this host shares, in the order in which they are tried."""
        return [page for page in self.block.pages if self.group in page.groups]

    @cached_property
    def may_move(self) -> bool:
        """Whether a page of this host leads to another host or is kept whole."""
        return any(page.moves for page in self.pages)

    def match_path(self, path: str) -> tuple[SitePage | None, dict[str, str]]:
        """Return the first page with this path, whatever its parameters, and what it captures."""
        for page in self.pages:
            for expression in page.paths:
                if (found := expression.fullmatch(path)) and _DOTS.isdisjoint(found.groups()):
                    return page, found.groupdict()
        return None, {}

    def get_main_host(self, host: str) -> str:
        """Return the main host for a host of this entry."""
        if self.main_domain:
            return strip_www(host).partition(".")[0] + self.main_domain
        return self.main or host

    def accepts(self, label: str) -> bool:
        """Return whether a host with this first label belongs to the block."""
        return label not in self.excluded and (self.label is None or self.label.fullmatch(label) is not None)


class SitePage:
    """One kind of page, ready to match and to write; docs/howto/add-a-site.md has the keys of its table."""

    __slots__ = (
        "defaults", "drop", "drop_fragments", "fragment", "groups", "has_conditions", "is_plain", "keep", "moves",
        "no_other_params", "not_values", "paths", "query", "rename", "target", "target_code", "target_query", "whole",
        "without", "write", "write_address",
    )  # fmt: skip

    def __init__(self, table: dict[str, Any]) -> None:
        ignore_case = table.get("ignore_case", False)
        self.paths = [re.compile(make_expression(path, ignore_case=ignore_case)) for path in table["path"]]
        self.query = [
            (name, re.compile(make_expression(value, in_query=True))) for name, value in table.get("query", {}).items()
        ]
        self.groups = frozenset(table.get("groups", (MAIN_GROUP,)))
        self.not_values = {name: frozenset(values) for name, values in table.get("not", {}).items()}
        self.without = frozenset(table.get("without", ()))
        self.no_other_params = table.get("no_other_params", False)
        self.has_conditions = bool(self.query or self.without or self.no_other_params)
        self.write = table.get("write", "")
        self.keep = make_name_matcher(table["keep"]) if "keep" in table else None
        self.drop = make_name_matcher(table.get("drop", ()))
        self.defaults = {lower_ascii(name): frozenset(values) for name, values in table.get("defaults", {}).items()}
        self.rename = dict(table.get("rename", {}))
        self.fragment = table.get("fragment", "keep")
        self.drop_fragments = tuple(table.get("drop_fragments", ()))
        self.target_code = table.get("target_code", "")
        self.target = table.get("target", self.target_code)
        self.target_query = table.get("target_query", False)
        self.whole = table.get("whole", False)
        self.moves = bool(self.target or self.whole or self.write.startswith("https://"))
        # The path alone decides whether a URL shows this page, and how it is written.
        self.is_plain = bool(self.write) and not (self.has_conditions or self.not_values or self.moves)
        self.write_address = make_writer(self.target or self.write)

    def match(self, path: str, params: list[str]) -> dict[str, str] | None:
        """Return what the page captures, or None if the URL does not show this kind of page."""
        for expression in self.paths:
            if (found := expression.fullmatch(path)) and _DOTS.isdisjoint(found.groups()):
                captures = found.groupdict()
                break
        else:
            return None
        if self.has_conditions and not self._match_query(params, captures):
            return None
        if self.not_values and any(captures.get(name) in values for name, values in self.not_values.items()):
            return None
        return captures

    def _match_query(self, params: list[str], captures: dict[str, str]) -> bool:
        names = [get_param_name(param) for param in params]
        for name, expression in self.query:
            if names.count(name) != 1:
                return False
            value = params[names.index(name)].partition("=")[2]
            found = expression.fullmatch(value if self.target else read_form_value(normalize_escapes(value)))
            if found is None or not _DOTS.isdisjoint(found.groups()) or (self.write and not _can_be_written(found[0])):
                return False
            captures.update(found.groupdict())
        if self.without and not self.without.isdisjoint(names):
            return False
        wanted = {name for name, _ in self.query}
        return not self.no_other_params or all(
            not param
            or name in wanted
            or self.drop(param)
            or _is_default(param, self.defaults)
            or (self.keep is not None and self.keep(param))
            for name, param in zip(names, params, strict=True)
        )


def _can_be_written(value: str) -> bool:
    """Return whether a value has no segment that is empty or that the parser would resolve, as in `a/../b`."""
    return all(segment not in ("", ".", "..") for segment in value.split("/"))


class SiteBlock:
    """Some hosts of a site that show the same pages; its tables are read when the first URL needs them."""

    def __init__(self, table: dict[str, Any]) -> None:
        self._table = table
        self.https: bool = table.get("https", False)
        self.slash: str = table.get("slash", "keep")
        self.drop = make_name_matcher(table.get("drop", ()))
        self.needs = make_name_matcher(table["needs"]) if "needs" in table else None
        self.defaults = {lower_ascii(name): frozenset(values) for name, values in table.get("defaults", {}).items()}
        self.drop_fragments = tuple(table.get("drop_fragments", ()))

    @cached_property
    def pages(self) -> list[SitePage]:
        """The kinds of pages, in the order in which they are tried."""
        return [SitePage(page) for page in self._table.get("pages", ())]

    def write_slash(self, path: str) -> str:
        """Write the slash at the end of a path as the block says."""
        if self.slash == "keep":
            return path
        stripped = strip_trailing_slashes(path)
        return stripped if self.slash == "strip" or stripped == "/" else f"{stripped}/"


class SiteTables:
    """The tables of a policy, by host; `get_dropped` returns the matcher of rule 9 for a host."""

    __slots__ = ("_endings", "_exact", "_get_dropped", "_keep_embedded", "_wild", "main_hosts")

    def __init__(
        self, tables: Iterable[dict[str, Any]], get_dropped: Callable[[str], Matcher], *, keep_embedded: bool = False
    ) -> None:
        self._keep_embedded = keep_embedded
        self._exact: dict[str, SiteHost] = {}
        self._wild: dict[str, list[SiteHost]] = {}
        self._get_dropped = get_dropped
        main_hosts: set[str] = set()
        for table in tables:
            for block_table in table["blocks"]:
                block = SiteBlock(block_table)
                for host, main, group, label, excluded in block_table["hosts"]:
                    entry = SiteHost(block, main, group=group, label=label, excluded=excluded)
                    if host.startswith("*."):
                        self._wild.setdefault(host[2:], []).append(entry)
                    else:
                        self._exact[host] = entry
                    main_hosts.add(main)
                main_hosts.update(block_table.get("written_hosts", ()))
        # Only those that rule 3 would change otherwise.
        self.main_hosts = frozenset(host for host in main_hosts if host.startswith("www."))
        self._endings = frozenset(host[-4:] for host in (*self._exact, *self._wild))

    def find(self, host: str) -> SiteHost | None:
        """Return the entry of a host, with or without leading `www.`."""
        if host[-4:] not in self._endings:
            return None
        bare = strip_www(host)
        entry = self._exact.get(bare)
        if entry is None:
            label, _, domain = bare.partition(".")
            return next((wild for wild in self._wild.get(domain, ()) if wild.accepts(label)), None)
        return entry

    def list_hosts(self) -> list[SiteHost]:
        """List the entry of every host."""
        return [*self._exact.values(), *(entry for entries in self._wild.values() for entry in entries)]

    def move_host(self, parts: Parts) -> bool:
        """Apply rule 2: follow redirect pages, move to the main host; True if no other rule may change the URL."""
        start = parts.copy()
        for _ in range(MAX_MOVES):
            entry = self.find(parts.host) if parts.port is None else None
            if entry is None:
                return False
            page, captures = self._find_page(parts, entry)
            if page is None:
                if entry.group == MAIN_GROUP:
                    _set_host(parts, entry)
                return False
            if page.target:
                if _has_unclear_slashes(parts, page):
                    return True
                parts.set_all(parse(_make_target(parts, page, captures)))
            elif page.whole:
                _set_host(parts, entry)
                return True
            elif entry.group != MAIN_GROUP or page.write.startswith("https://"):
                _write_page(parts, entry, page, captures)
            elif self._keep_embedded and embeds_address(parts):
                _set_host(parts, entry)
                return True
            elif not self._rewrite_to_moving_page(parts, entry, page, captures):
                _set_host(parts, entry)
                return False
        parts.set_all(start)
        return True

    def _rewrite_to_moving_page(self, parts: Parts, entry: SiteHost, page: SitePage, captures: dict[str, str]) -> bool:
        """Write a page that, once written, is one that leaves this host or is kept whole; False for most."""
        main_entry = self.find(entry.get_main_host(parts.host))
        if main_entry is None or not main_entry.may_move:
            return False
        written = parts.copy()
        for _ in range(MAX_MOVES):
            before = (written.path, written.query)
            _write_page(written, entry, page, captures)
            next_entry = self.find(written.host)
            if (written.path, written.query) == before or next_entry is None:
                return False
            next_page, captures = self._find_page(written, next_entry)
            if next_page is None or next_page is page:
                return False
            if next_page.moves:
                parts.set_all(written)
                return True
            entry, page = next_entry, next_page
        return False

    def rewrite_path(self, parts: Parts) -> None:
        """Apply rule 8: write path, query and fragment of a page in one way."""
        entry = self.find(parts.host) if parts.port is None else None
        if entry is None or entry.group != MAIN_GROUP:
            return
        start = parts.copy()
        page, captures = self._find_page(parts, entry)
        for _ in range(MAX_MOVES):
            if page is None or page.target:
                break
            before = (parts.host, parts.path, parts.query)
            _write_page(parts, entry, page, captures)
            if (parts.host, parts.path, parts.query) == before:
                return
            page, captures = self._find_page(parts, entry)  # `/amp/amp/a`: what was written may be a page again
        if page is not None and not page.target:
            parts.set_all(start)
        parts.path = entry.block.write_slash(parts.path)
        parts.query = _clean_query(parts.query, entry.block, None)
        parts.fragment = _clean_fragment(parts.fragment, entry.block.drop_fragments)

    def write_plain(self, host: str, path: str) -> str | None:
        """Return what rules 2 and 8 make of a host and a plain path without query; None where they may do more."""
        entry = self.find(host)
        while entry is not None and entry.block.https:  # at most twice: a main host is in the main group
            host, stripped = entry.get_main_host(host), strip_trailing_slashes(path)
            page, captures = entry.match_path(stripped)
            if page is None and entry.group == MAIN_GROUP:
                return f"https://{host}{entry.block.write_slash(path)}"
            if page is None or not page.is_plain:
                break
            path = page.write_address(captures)
            if entry.group == MAIN_GROUP:
                return f"https://{host}{path}" if path == stripped else None
            if path[-1] == "/" or "//" in path or "%" in path or "?" in path:
                break
            entry = self.find(host)
        return None

    def find_needed(self, host: str) -> Matcher | None:
        """Return the matcher of the parameters that a site needs although the policy lists them; None for most."""
        entry = self.find(host)
        return entry.block.needs if entry else None

    def _find_page(self, parts: Parts, entry: SiteHost) -> tuple[SitePage | None, dict[str, str]]:
        pages = entry.pages
        if not pages:
            return None, {}
        path, params = clean_path(parts.path), self._list_visible_params(parts, entry)
        for page in pages:
            captures = page.match(path, params)
            if captures is not None and (
                not page.target or _has_unclear_slashes(parts, page) or _make_target(parts, page, captures)
            ):
                return page, captures
        return None, {}

    def _list_visible_params(self, parts: Parts, entry: SiteHost) -> list[str]:
        """List the parameters that neither the policy nor the site drops."""
        if parts.query is None:
            return []
        dropped, needs = self._get_dropped(entry.get_main_host(parts.host)), entry.block.needs
        return [
            param
            for param in parts.query.split("&")
            if not entry.block.drop(param)
            and not _is_default(param, entry.block.defaults)
            and (not dropped(param) or (needs is not None and needs(param)))
        ]


def _set_host(parts: Parts, entry: SiteHost) -> None:
    parts.host = entry.get_main_host(parts.host)
    if entry.block.https and parts.scheme != "https":
        parts.set_scheme("https")


def _has_unclear_slashes(parts: Parts, page: SitePage) -> bool:
    """Return whether it is not known which slashes belong to the target: such an address is kept whole."""
    return page.target_query and "//" in parts.path


def _make_target(parts: Parts, page: SitePage, captures: dict[str, str]) -> str:
    """Return the address to which a redirect page leads; empty if it is not an http(s) URL."""
    query = "" if parts.query is None else f"?{parts.query}"
    if page.target_code:
        text = TARGET_CODES[page.target_code](normalize_escapes(parts.path + query))
    else:
        text = page.write_address(captures)
    if page.target_query:
        text += "/" if parts.path.endswith("/") else ""
        kept = drop_params(parts.query, page.drop)  # the others are those of the target
        text += "" if kept is None else f"?{kept}"
    if not is_web_address(text):
        return ""
    fragment = _clean_fragment(parts.fragment, page.drop_fragments)
    if fragment is not None and "#" not in text and _is_valid(f"{text}#{fragment}"):
        return f"{text}#{fragment}"
    # Also after `https://a.com `: blanks at the end are not part of a URL, but before a fragment they are.
    return text if _is_valid(text) else ""


def _is_valid(text: str) -> bool:
    try:
        parse(text)
    except InvalidUrl:
        return False
    return True


def _write_page(parts: Parts, entry: SiteHost, page: SitePage, captures: dict[str, str]) -> None:
    _set_host(parts, entry)
    parts.query = _clean_query(parts.query, entry.block, page)
    if page.write:
        path, _, query = page.write_address(captures).partition("?")
        if path.startswith("https://"):
            parts.host, _, path = path[8:].partition("/")
            parts.set_scheme("https")
            path = f"/{path}"
        parts.path = path
        if query:
            written = {param.partition("=")[0] for param in query.split("&")}
            others = [
                param for param in (parts.query or "").split("&") if param and get_param_name(param) not in written
            ]
            parts.query = "&".join([query, *others])
    else:
        parts.path = entry.block.write_slash(parts.path)
    parts.fragment = None if page.fragment == "drop" else _clean_fragment(parts.fragment, entry.block.drop_fragments)
    parts.fragment = _clean_fragment(parts.fragment, page.drop_fragments)


def _clean_query(query: str | None, block: SiteBlock, page: SitePage | None) -> str | None:
    """Drop, rename and keep parameters as the block and the page say."""
    if query is None:
        return None
    params = query.split("&")
    if page is not None and page.rename:
        params = _rename_params(params, page.rename)
    kept = [param for param in params if not _is_dropped(param, block, page)]
    return query if kept == query.split("&") else "&".join(kept) or None


def _is_dropped(param: str, block: SiteBlock, page: SitePage | None) -> bool:
    if block.drop(param) or _is_default(param, block.defaults):
        return True
    if page is None:
        return False
    if page.drop(param) or _is_default(param, page.defaults):
        return True
    if page.write and any(name == get_param_name(param) for name, _ in page.query):
        return True  # the template has written it
    return page.keep is not None and not page.keep(param)


def _is_default(param: str, defaults: dict[str, frozenset[str]]) -> bool:
    if not defaults:
        return False
    values = defaults.get(lower_ascii(get_param_name(param)))
    return values is not None and normalize_escapes(param.partition("=")[2]) in values


def _rename_params(params: list[str], rename: dict[str, str]) -> list[str]:
    """Write each old name as the new one, unless the new one is there; only the first of several counts."""
    taken = {get_param_name(param) for param in params}
    renamed: list[str] = []
    for param in params:
        name, equals, value = param.partition("=")
        new = rename.get(get_param_name(name))
        if new is None:
            renamed.append(param)
        elif new not in taken:
            renamed.append(f"{new}{equals}{value}")
            taken.add(new)
    return renamed


def _clean_fragment(fragment: str | None, dropped: tuple[str, ...]) -> str | None:
    """Drop a fragment that, without text directives, equals one of these, or starts with one that ends with `*`."""
    if fragment is None:
        return None
    selected = fragment.partition(":~:")[0]
    for pattern in dropped:
        if selected == pattern or (pattern.endswith("*") and selected.startswith(pattern[:-1])):
            return None
    return fragment
