"""An MCP server with the read-only tools normalize, explain, canonicalize and resolve (https://modelcontextprotocol.io).

Every request of canonicalize and resolve passes the guard.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Annotated, ParamSpec, TypeVar

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field, RootModel

import canonry

# Not public: `canonry.explain` takes a whole URL, and the tool also takes what a person types.
from canonry.core.explain import explain_text

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")
_MAX_URL_CHARACTERS = 65_536
_INSTRUCTIONS = """\
Finds out when two URLs are the same thing. normalize returns the normalized URL under a policy, explain lists the rules
that changed it, canonicalize fetches a feed to find its canonical URL, resolve fetches a page to find the URL that
stands for it. Policies: {policies}."""

UrlText = Annotated[str, Field(max_length=_MAX_URL_CHARACTERS, description="A URL; https:// may be left out.")]
PolicyName = Annotated[
    str,
    Field(max_length=100, description="`bookmark` is the newest version of a policy, `bookmark@1` a fixed version."),
]
MaxRequests = Annotated[int, Field(ge=0, le=10, description="Maximum number of requests after the first fetch.")]
Discover = Annotated[bool, Field(description="If the URL is a web page, use the first feed it links to.")]


class NormalizeAnswer(BaseModel):
    """The normalized URL, the id of the policy, and the hex sha256 of the URL."""

    url: str
    policy: str
    hash: str


class ExplainAnswer(RootModel[canonry.Explanation]):
    """The normalized URL, the id of the policy, and the steps that changed something."""


class CanonicalizeAnswer(RootModel[canonry.Canonical]):
    """The canonical URL of a feed with the evidence; `aliases` are other URLs proven to serve the same feed."""


class ResolveAnswer(RootModel[canonry.Resolved]):
    """The URL that stands for a page with the evidence; `aliases` are other URLs proven to show the same page."""


def _convert_errors(tool: Callable[_Parameters, Awaitable[_Result]]) -> Callable[_Parameters, Awaitable[_Result]]:
    """Return the tool; it raises ToolError with the message of a CanonryError."""

    @functools.wraps(tool)
    async def call(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        try:
            return await tool(*args, **kwargs)
        except canonry.CanonryError as error:
            raise ToolError(str(error)) from None

    return call


@_convert_errors
async def normalize(url: UrlText, policy: PolicyName = "bookmark") -> NormalizeAnswer:
    """Normalize a URL under a policy, without a network request."""
    chosen = canonry.policy(policy)
    normalized = canonry.normalize(canonry.read_url(url), chosen)
    return NormalizeAnswer(url=normalized, policy=chosen.id, hash=canonry.canonical_hash(normalized, chosen))


@_convert_errors
async def explain(url: UrlText, policy: PolicyName = "bookmark") -> ExplainAnswer:
    """List what each rule of a policy changed in a URL, and why, without a network request."""
    return ExplainAnswer(explain_text(url, canonry.policy(policy)))


@_convert_errors
async def canonicalize(url: UrlText, discover: Discover = False, max_requests: MaxRequests = 3) -> CanonicalizeAnswer:
    """Find the canonical URL of a feed: fetch it, and list every URL that was tested."""
    return CanonicalizeAnswer(await canonry.canonicalize(url, discover=discover, max_requests=max_requests))


@_convert_errors
async def resolve(url: UrlText, policy: PolicyName = "bookmark", max_requests: MaxRequests = 3) -> ResolveAnswer:
    """Find the URL that stands for a web page: fetch it, and list every candidate with its verdict and evidence."""
    return ResolveAnswer(await canonry.resolve(url, policy, max_requests=max_requests))


def server() -> MCPServer[object]:
    """Return the MCP server; `server().run()` serves standard input and output."""
    policies = ", ".join(policy.id for policy in canonry.policies())
    mcp_server: MCPServer[object] = MCPServer(
        "canonry",
        title="canonry",
        version=canonry.__version__,
        instructions=_INSTRUCTIONS.format(policies=policies),
        log_level="WARNING",
    )
    for tool, uses_network in ((normalize, False), (explain, False), (canonicalize, True), (resolve, True)):
        annotations = ToolAnnotations(
            read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=uses_network
        )
        mcp_server.add_tool(tool, annotations=annotations)
    return mcp_server
