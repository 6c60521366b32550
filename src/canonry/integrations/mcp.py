"""An MCP server: normalize, explain and canonicalize as tools that only read (https://modelcontextprotocol.io).

Every request that canonicalize makes passes the guard.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Annotated, ParamSpec, TypeVar

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field

import canonry
from canonry.core.explain import explain_text

_GIVEN = ParamSpec("_GIVEN")
_ANSWER = TypeVar("_ANSWER")
_LONGEST = 65_536
_ABOUT = """\
Tells when two URLs are the same thing. normalize gives the one spelling of a URL under a policy, explain says which
rules led to it, canonicalize asks the web which URL stands for a feed. Policies: {policies}."""

Text = Annotated[str, Field(max_length=_LONGEST, description="A URL, as a person would type it.")]
Name = Annotated[
    str, Field(max_length=100, description="`bookmark` is the newest version of a policy, `bookmark@1` that one.")
]
Requests = Annotated[int, Field(ge=0, le=10, description="Requests after the first fetch.")]
Discover = Annotated[bool, Field(description="Given a web page, take the first feed it names.")]


class _Out(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class Normalized(_Out):
    """The one spelling of a URL under a policy; `hash` is its sha256."""

    url: str
    policy: str
    hash: str


class Step(_Out):
    """One rule that changed something."""

    rule: str
    before: str
    after: str
    reason: str


class Explanation(_Out):
    """What a URL becomes under a policy, and why."""

    url: str
    policy: str
    steps: list[Step]


class Candidate(_Out):
    """A URL that was put to the test."""

    url: str
    verdict: str
    reason: str
    score: float


class Feed(_Out):
    """The feed that was found."""

    title: str
    format: str
    item_count: int


class FeedLink(_Out):
    """A feed a page names."""

    url: str
    title: str
    format: str


class Canonical(_Out):
    """The URL that stands for a feed, with the evidence; `aliases` were proven to be the same feed."""

    url: str
    reason: str
    source: str
    preset: str | None
    requests: int
    total_requests: int
    candidates: list[Candidate]
    aliases: list[str]
    feed: Feed | None
    input_url: str
    response_url: str | None
    self_url: str | None
    discovered: list[FeedLink]


def _said(tool: Callable[_GIVEN, Awaitable[_ANSWER]]) -> Callable[_GIVEN, Awaitable[_ANSWER]]:
    """The tool, with canonry's own sentence as its error."""

    @functools.wraps(tool)
    async def told(*given: _GIVEN.args, **named: _GIVEN.kwargs) -> _ANSWER:
        try:
            return await tool(*given, **named)
        except canonry.CanonryError as error:
            raise ToolError(str(error)) from None

    return told


@_said
async def normalize(url: Text, policy: Name = "bookmark") -> Normalized:
    """The one spelling of a URL under a policy; the network is not asked."""
    chosen = canonry.policy(policy)
    normal = canonry.normalize(canonry.read_url(url), chosen)
    return Normalized(url=normal, policy=chosen.id, hash=canonry.canonical_hash(normal, chosen))


@_said
async def explain(url: Text, policy: Name = "bookmark") -> Explanation:
    """What each rule of a policy did to a URL, and why; the network is not asked."""
    return Explanation.model_validate(explain_text(url, canonry.policy(policy)))


@_said
async def canonicalize(url: Text, discover: Discover = False, max_requests: Requests = 3) -> Canonical:
    """The URL that stands for a feed: fetched, and proven to serve it, with every attempt."""
    return Canonical.model_validate(await canonry.canonicalize(url, discover=discover, max_requests=max_requests))


def server() -> MCPServer[object]:
    """The server; `server().run()` speaks over standard input and output."""
    policies = ", ".join(policy.id for policy in canonry.policies())
    made: MCPServer[object] = MCPServer(
        "canonry",
        title="canonry",
        version=canonry.__version__,
        instructions=_ABOUT.format(policies=policies),
        log_level="WARNING",
    )
    for tool, asks_the_web in ((normalize, False), (explain, False), (canonicalize, True)):
        hints = ToolAnnotations(
            read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=asks_the_web
        )
        made.add_tool(tool, annotations=hints)
    return made
