"""Overrides whose rewrites can run in a circle are refused when they are loaded (contract N4 rule 12).

A state is the known beginning of a URL after a rewrite. From there it may fit further rewrites; a
way round that does not make the URL shorter is a circle. So `/amp/` → `/` may repeat itself, but
`/a/` → `/b/` together with `/b/` → `/a/` may not, nor `/` → `/x/` alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from canonry.core.normalize import normalize
from canonry.core.url import parse
from canonry.errors import InvalidUrl, PolicyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from canonry.core.overrides import Overrides, Rewrite
    from canonry.core.policy import Policy


# What sites react to: ends for any prefix, and whole pages for prefixes that stop inside a word.
_ENDINGS = (
    "", "a", "1", "/", "?v=a", "watch?v=a", "playlist?list=a", "shorts/a", "status/1", "/status/1", "u/status/1",
    "u/status/1/photo/1", "?format=xml", "atom.xml", "rss.xml", "posts/default", "feeds/posts/default?alt=rss",
)  # fmt: skip
_PAGES = (
    "https://www.youtube.com/watch?v=a", "https://www.youtube.com/playlist?list=a", "https://www.youtube.com/shorts/a",
    "https://x.com/u/status/1", "https://feeds.feedburner.com/a?format=xml", "https://youtu.be/a",
)  # fmt: skip


class _Edge(NamedTuple):
    target: str
    growth: int
    rewrite: Rewrite


def refuse_cycles(overrides: Overrides, policy: Policy) -> None:
    """PolicyError naming the rewrites that can undo each other or grow a URL for ever."""
    readings = _make_prefix_policies(policy)
    edges: dict[str, list[_Edge]] = {}
    rewrites = [rewrite for override in overrides.by_host.values() for rewrite in override.rewrites]
    limit = 1_000 + 20 * len(rewrites)
    waiting = [(state, rewrite) for rewrite in rewrites for state in _list_states(rewrite.to_prefix, readings)]
    while waiting:
        state, rewrite = waiting.pop()
        if state in edges:
            continue
        if len(edges) == limit:
            raise _make_error([rewrite], overrides)
        edges[state] = list(_find_edges(state, overrides, readings))
        waiting += [(edge.target, edge.rewrite) for edge in edges[state]]
    circle = _find_cycle(edges) or _find_undone_rewrite(rewrites, policy)
    if circle:
        raise _make_error(circle, overrides)


def _find_undone_rewrite(rewrites: list[Rewrite], policy: Policy) -> list[Rewrite]:
    """A rewrite that a site rule undoes: the beginning alone does not show it, so URLs are tried."""
    for rewrite in rewrites if policy.sites else ():
        tries = [rewrite.from_prefix + ending for ending in _ENDINGS]
        tries += [page for page in _PAGES if page.startswith(rewrite.from_prefix)]
        if not all(map(_make_settles_check(policy), tries)):
            return [rewrite]
    return []


def _make_settles_check(policy: Policy) -> Callable[[str], bool]:
    def settles(url: str) -> bool:
        try:
            normalize(url, policy)
        except InvalidUrl:
            return False
        return True

    return settles


def _make_prefix_policies(policy: Policy) -> tuple[Policy, Policy]:
    """The policy as it may act on the beginning of a URL: with and without the rules that need the rest."""
    start = policy.without_overrides().without_rules("strip_trailing_slash")
    return start, start.without_sites(*start.sites).without_params(*start.strip_params)


def _list_states(prefix: str, readings: tuple[Policy, ...]) -> list[str]:
    """The beginning as written and as the policy may leave it, each once."""
    return list(dict.fromkeys([prefix, *(normalize(prefix, policy) for policy in readings)]))


def _find_edges(state: str, overrides: Overrides, readings: tuple[Policy, ...]) -> Iterator[_Edge]:
    override = overrides.by_host.get(parse(state).host)
    for rewrite in override.rewrites if override else ():
        fits = state.startswith(rewrite.from_prefix)
        if fits or rewrite.from_prefix.startswith(state):
            after = rewrite.to_prefix + state[len(rewrite.from_prefix) :]
            before = max(len(state), len(rewrite.from_prefix))
            for target in _list_states(after, readings):
                yield _Edge(target, len(target) - before, rewrite)
        if fits:
            return  # the first that fits decides


def _find_cycle(edges: dict[str, list[_Edge]]) -> list[Rewrite]:
    """The rewrites of a way round that does not shrink (Bellman-Ford for the longest way), if any."""
    scale = len(edges) + 1  # makes a way round of growth 0 count as a gain, and one of -1 as a loss
    gains = dict.fromkeys(edges, 0)
    came: dict[str, tuple[str, Rewrite]] = {}
    risen = ""
    for _ in range(scale):
        risen = ""
        for state, ways in edges.items():
            for way in ways:
                gain = gains[state] + way.growth * scale + 1
                if gain > gains[way.target]:
                    gains[way.target] = gain
                    came[way.target] = (state, way.rewrite)
                    risen = way.target
        if not risen:
            return []
    for _ in edges:  # the search may stand behind the circle: walk back until inside it
        risen = came[risen][0]
    circle: list[Rewrite] = []
    state = risen
    while not circle or state != risen:
        state, rewrite = came[state]
        circle.append(rewrite)
    return circle[::-1]


def _make_error(circle: list[Rewrite], overrides: Overrides) -> PolicyError:
    names = " → ".join(f"{rewrite.place} ({rewrite.from_prefix} → {rewrite.to_prefix})" for rewrite in circle)
    return PolicyError(f"rewrites can run in a circle: {names}", overrides.file, circle[0].place)
