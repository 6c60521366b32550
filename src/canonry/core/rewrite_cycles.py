"""Refuse overrides whose rewrites would never end, when the overrides are loaded (contract N4 rule 12).

The rewrites are edges of a graph. A state is the known beginning of a URL after a rewrite; an edge leads
to the state after the next rewrite, and its weight is the growth of the URL. A cycle that does not make
the URL shorter is refused: `/amp/` → `/` may repeat, but `/a/` → `/b/` with `/b/` → `/a/` may not, nor
`/` → `/x/` alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from canonry.core.normalize import apply_edits, apply_override_once, get_plan, limit_rounds, normalize
from canonry.core.url import parse
from canonry.url_errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from canonry.core.overrides import Overrides, Rewrite
    from canonry.core.policy import Policy


# URLs that site rules change: endings for any prefix, and whole pages for prefixes that end inside a word.
_ENDINGS = (
    "", "a", "1", "/", "?v=a", "watch?v=a", "playlist?list=a", "shorts/a", "status/1", "/status/1", "u/status/1",
    "u/status/1/photo/1", "?format=xml", "atom.xml", "rss.xml", "posts/default", "feeds/posts/default?alt=rss",
)  # fmt: skip
_PAGES = (
    "https://www.youtube.com/watch?v=a", "https://www.youtube.com/playlist?list=a", "https://www.youtube.com/shorts/a",
    "https://x.com/u/status/1", "https://feeds.feedburner.com/a?format=xml", "https://youtu.be/a",
)  # fmt: skip
# Harmless overrides reach a few states for each rewrite; if there are more states, the rewrites count as endless.
_MIN_STATES, _STATES_PER_REWRITE = 1_000, 20


class _Edge(NamedTuple):
    """A rewrite that leads to the state `target` and makes the URL longer by `growth` characters."""

    target: str
    growth: int
    rewrite: Rewrite


def refuse_cycles(overrides: Overrides, policy: Policy) -> None:
    """Raise a PolicyError that names the rewrites that undo each other or make a URL longer without end."""
    prefix_policies = _make_prefix_policies(policy)
    edges: dict[str, list[_Edge]] = {}
    rewrites = [rewrite for override in overrides.by_host.values() for rewrite in override.rewrites]
    max_states = _MIN_STATES + _STATES_PER_REWRITE * len(rewrites)
    queue = [(state, rewrite) for rewrite in rewrites for state in _list_states(rewrite.to_prefix, prefix_policies)]
    while queue:
        state, rewrite = queue.pop()
        if state in edges:
            continue
        if len(edges) == max_states:
            raise _make_error([rewrite], overrides)
        edges[state] = list(_find_edges(state, overrides, prefix_policies))
        queue += [(edge.target, edge.rewrite) for edge in edges[state]]
    cycle = _find_cycle(edges) or _find_undone_rewrite(rewrites, policy)
    if cycle:
        raise _make_error(cycle, overrides)
    _refuse_undone_hosts(overrides, policy)


def _refuse_undone_hosts(overrides: Overrides, policy: Policy) -> None:
    """Raise a PolicyError if the policy moves a host back that rules of overrides.v1 moved."""
    for host, override in overrides.by_host.items():
        if override.rules is not None and not _settles(f"https://{host}/a1/b2?c=3", policy, set()):
            raise PolicyError(f"the rules for {host} and the policy {policy.name} undo each other", overrides.file)


def _find_undone_rewrite(rewrites: list[Rewrite], policy: Policy) -> list[Rewrite]:
    """Find a rewrite that a site rule undoes, by trying URLs: the beginning of a URL alone does not show it."""
    settled: set[str] = set()
    for rewrite in rewrites if policy.sites else ():
        tries = [rewrite.from_prefix + ending for ending in _ENDINGS]
        tries += [page for page in _PAGES if page.startswith(rewrite.from_prefix)]
        if not all(_settles(url, policy, settled) for url in tries):
            return [rewrite]
    return []


def _settles(url: str, policy: Policy, settled: set[str]) -> bool:
    """Return whether the rewrites of a URL end; `settled` has the URLs for which this is known already.

    In a chain of rewrites each URL leads to the next one, so the rest of a chain is followed only once.
    """
    parts = parse(url)
    apply_edits(get_plan(policy), parts)
    passed: list[str] = []
    for _ in limit_rounds(url, policy):
        text = str(parts)
        passed.append(text)
        changed = None if text in settled else apply_override_once(text, parts, policy)
        if changed is None:
            settled.update(passed)
            return True
        parts = changed
    return False


def _make_prefix_policies(policy: Policy) -> tuple[Policy, Policy]:
    """Return the policy for the beginning of a URL, with and without the rules that need the whole URL."""
    start = policy.without_overrides().without_rules("strip_trailing_slash")
    return start, start.without_sites(*start.sites).without_params(*start.strip_params)


def _list_states(prefix: str, prefix_policies: tuple[Policy, ...]) -> list[str]:
    """Return the beginning of a URL as written and as the policies normalize it, each form once."""
    return list(dict.fromkeys([prefix, *(normalize(prefix, policy) for policy in prefix_policies)]))


def _find_edges(state: str, overrides: Overrides, prefix_policies: tuple[Policy, ...]) -> Iterator[_Edge]:
    override = overrides.by_host.get(parse(state).host)
    for rewrite in override.rewrites if override else ():
        matches = state.startswith(rewrite.from_prefix)
        if matches or rewrite.from_prefix.startswith(state):
            after = rewrite.to_prefix + state[len(rewrite.from_prefix) :]
            before = max(len(state), len(rewrite.from_prefix))
            for target in _list_states(after, prefix_policies):
                yield _Edge(target, len(target) - before, rewrite)
        if matches:
            return  # only the first rewrite that matches is applied


def _find_cycle(edges: dict[str, list[_Edge]]) -> list[Rewrite]:
    """Find the rewrites of a cycle that does not shrink the URL, by Bellman-Ford for the longest path."""
    scale = len(edges) + 1  # so that a cycle of growth 0 counts as a gain, and one of -1 as a loss
    gains = dict.fromkeys(edges, 0)
    previous: dict[str, tuple[str, Rewrite]] = {}
    raised = ""
    for _ in range(scale):
        raised = ""
        for state, outgoing in edges.items():
            for edge in outgoing:
                gain = gains[state] + edge.growth * scale + 1
                if gain > gains[edge.target]:
                    gains[edge.target] = gain
                    previous[edge.target] = (state, edge.rewrite)
                    raised = edge.target
        if not raised:
            return []
    for _ in edges:  # the last raised state may come after the cycle: walk back until inside it
        raised = previous[raised][0]
    cycle: list[Rewrite] = []
    state = raised
    while not cycle or state != raised:
        state, rewrite = previous[state]
        cycle.append(rewrite)
    return cycle[::-1]


def _make_error(cycle: list[Rewrite], overrides: Overrides) -> PolicyError:
    names = " → ".join(f"{rewrite.place} ({rewrite.from_prefix} → {rewrite.to_prefix})" for rewrite in cycle)
    return PolicyError(f"rewrites that repeat without end: {names}", overrides.file, cycle[0].place)
