"""Rules 2 and 8 for the first versions of four sites, which are code (contract N8); others are tables: site_pages.py.

A site matches the host without leading `www.` and the path as rules 5 to 7 would leave it, so that it
gives the same answer under every policy.
"""

from __future__ import annotations

import re

from canonry.core.rules import clean_path, drop_params, get_param_name, make_name_matcher, strip_www

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from canonry.core.url import Parts

    Edit = Callable[[Parts], None]
    Table = Mapping[str, str | tuple[str, ...]]


class Site:
    """One site: its main host, its other hosts, and the functions for rules 2 and 8."""

    __slots__ = ("domains", "hosts", "main_host", "move_host", "rewrite_path")

    def __init__(
        self, main_host: str, hosts: tuple[str, ...], domains: tuple[str, ...], move_host: Edit, rewrite_path: Edit
    ) -> None:
        self.main_host = main_host
        self.hosts = hosts
        self.domains = domains  # a host with one label before one of these is a host of the site
        self.move_host = move_host
        self.rewrite_path = rewrite_path


def make_youtube_site(table: Table) -> Site:
    """`youtu.be/ID`, `/shorts/ID`, `/embed/ID`, `/live/ID`, `/v/ID` → `www.youtube.com/watch?v=ID`."""
    main_host = _get_text(table, "target")
    not_ids = frozenset(_get_texts(table, "not_ids"))
    keep = frozenset(_get_texts(table, "keep_params"))
    paths = frozenset(_get_texts(table, "paths"))
    always, short, by_path = (_get_texts(table, key) for key in ("hosts", "short_hosts", "hosts_for_paths"))
    folder = f"/(?:{'|'.join(_get_texts(table, 'id_folders'))})/([A-Za-z0-9_-]{{1,20}})"
    lone_id = "/([A-Za-z0-9_-]{1,20})"

    def find_video_id(pattern: str, path: str) -> str | None:
        match = re.fullmatch(pattern, path)
        return match[1] if match and match[1] not in not_ids else None

    def set_watch_url(parts: Parts, video: str) -> None:
        others = drop_params(parts.query, lambda param: get_param_name(param) == "v")
        parts.path = "/watch"
        parts.query = f"v={video}&{others}" if others else f"v={video}"

    def move_host(parts: Parts) -> None:
        host = strip_www(parts.host)
        path = clean_path(parts.path)
        if host in short:
            # A path that is not a video stays on this host: on the main host it would be another page.
            if video := find_video_id(lone_id, path):
                set_watch_url(parts, video)
            elif not (path == "/" or path in paths or find_video_id(folder, path)):
                return
        elif host in by_path and path not in paths:
            return
        parts.host = main_host

    def rewrite_path(parts: Parts) -> None:
        path = clean_path(parts.path)
        if video := find_video_id(folder, path):
            set_watch_url(parts, video)
            path = "/watch"
        if path in paths:
            parts.path = path
        if path == "/watch" and parts.query is not None:
            parts.query = _keep_watch_params(parts.query, keep)

    return Site(main_host, (main_host, *always, *short, *by_path), (), move_host, rewrite_path)


def _keep_watch_params(query: str, keep: frozenset[str]) -> str | None:
    """Keep the parameters that select the video and the time in it; the embedded player calls `t` `start`."""
    params = [(get_param_name(param), param.partition("=")[1:]) for param in query.split("&")]
    kept = [name + "".join(value) for name, value in params if name in keep]
    starts = [value for name, value in params if name == "start"]
    if starts and not any(name == "t" for name, _ in params):
        kept.append("t" + "".join(starts[0]))
    return "&".join(kept) or None


def make_x_site(table: Table) -> Site:
    """`mobile.twitter.com/u/Status/1/photo/1?s=20` → `x.com/u/status/1`."""
    main_host = _get_text(table, "target")
    dropped = make_name_matcher(_get_texts(table, "drop_params"))
    post = r"(?i)/([^/]+)/status/([0-9]+)(?:/mediaviewer(?:/.*)?|/(?:photo|video)/[0-9]+)?"

    def move_host(parts: Parts) -> None:
        parts.host = main_host

    def rewrite_path(parts: Parts) -> None:
        if match := re.fullmatch(post, clean_path(parts.path)):
            parts.path = f"/{match[1]}/status/{match[2]}"
            parts.query = drop_params(parts.query, dropped)

    return Site(main_host, _get_texts(table, "hosts"), (), move_host, rewrite_path)


def make_feedburner_site(table: Table) -> Site:
    """`feedproxy.google.com/Blog?format=xml` → `feeds.feedburner.com/Blog`."""
    main_host = _get_text(table, "target")

    def move_host(parts: Parts) -> None:
        parts.host = main_host

    def rewrite_path(parts: Parts) -> None:
        parts.query = drop_params(
            parts.query, lambda param: get_param_name(param) == "format" and param.partition("=")[2].lower() == "xml"
        )

    return Site(main_host, _get_texts(table, "hosts"), (), move_host, rewrite_path)


def make_blogger_site(table: Table) -> Site:
    """`http://b.blogspot.de/rss.xml` → `https://b.blogspot.com/feeds/posts/default?alt=rss`."""
    main_host = _get_text(table, "target")
    dropped = make_name_matcher(_get_texts(table, "drop_params"))
    drop_alt = frozenset(_get_texts(table, "drop_alt"))
    domains = tuple(f"blogspot.{suffix}" for suffix in _get_texts(table, "suffixes"))

    def move_host(parts: Parts) -> None:
        blog = strip_www(parts.host).partition(".")[0]
        parts.host = f"{blog}.{main_host}"
        parts.set_scheme("https")

    def is_dropped(param: str) -> bool:
        return dropped(param) or (get_param_name(param) == "alt" and param.partition("=")[2] in drop_alt)

    def rewrite_path(parts: Parts) -> None:
        path = clean_path(parts.path)
        if path == "/rss.xml":
            others = drop_params(parts.query, lambda param: get_param_name(param) == "alt")
            parts.query = f"alt=rss&{others}" if others else "alt=rss"
        if path in ("/atom.xml", "/rss.xml"):
            path = "/feeds/posts/default"
        if path.startswith("/feeds/"):
            parts.path = path
            parts.query = drop_params(parts.query, is_dropped)

    return Site(main_host, (), domains, move_host, rewrite_path)


SITES: dict[str, Callable[[Table], Site]] = {
    "youtube@1": make_youtube_site,
    "x@1": make_x_site,
    "feedburner@1": make_feedburner_site,
    "blogger@1": make_blogger_site,
}


_ENDING_CHARACTERS = 5  # no host of a site is shorter than x.com


class SiteRules:
    """The sites of one policy, by host."""

    __slots__ = ("_endings", "_main_domains", "_mains", "_mirror_domains", "_mirrors", "main_hosts")

    def __init__(self, sites: list[Site]) -> None:
        self._mirrors = {host: site for site in sites for host in site.hosts}
        self._mirror_domains = {domain: site for site in sites for domain in site.domains}
        self._mains = {site.main_host: site for site in sites if not site.domains}
        self._main_domains = {site.main_host: site for site in sites if site.domains}
        self.main_hosts = frozenset(self._mains)
        # Most hosts differ from those of the sites in their last characters: a quick test before the lookup.
        self._endings = frozenset(name[-_ENDING_CHARACTERS:] for name in (*self._mirrors, *self._mirror_domains))

    def move_host(self, parts: Parts) -> None:
        """Apply rule 2: replace a mirror host with the main host."""
        if parts.host[-_ENDING_CHARACTERS:] in self._endings:
            site = _find_site(strip_www(parts.host), self._mirrors, self._mirror_domains)
            if site is not None:
                site.move_host(parts)

    def rewrite_path(self, parts: Parts) -> None:
        """Apply rule 8: write path and query of a known page in one way."""
        if parts.host[-_ENDING_CHARACTERS:] in self._endings:
            site = _find_site(parts.host, self._mains, self._main_domains)
            if site is not None:
                site.rewrite_path(parts)


def _find_site(host: str, hosts: Mapping[str, Site], domains: Mapping[str, Site]) -> Site | None:
    site = hosts.get(host)
    if site is None:
        label, _, domain = host.partition(".")
        site = domains.get(domain) if label not in ("", "www") else None
    return site


def _get_text(table: Table, key: str) -> str:
    value = table[key]
    assert isinstance(value, str)
    return value


def _get_texts(table: Table, key: str) -> tuple[str, ...]:
    value = table[key]
    assert isinstance(value, tuple)
    return value
