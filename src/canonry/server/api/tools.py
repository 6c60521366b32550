"""`/api/normalize`, `/check`, `/canonicalize`, `/policies`, `/rules`: what canonry knows; nothing is kept."""

from __future__ import annotations

import dataclasses
import tomllib
from functools import cache
from importlib.resources import files
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from canonry.bookmarks.bookmark_rows import make_key
from canonry.bookmarks.url_pipeline import Preview, read_http_url
from canonry.core import presets
from canonry.core.catalog import RULE_DESCRIPTIONS
from canonry.core.explain import explain
from canonry.core.score import score
from canonry.errors import PolicyError
from canonry.feeds.canonicalize import canonicalize
from canonry.feeds.canonicalize.result import Reason, Source
from canonry.server.api.bookmarks import Exact, owner, service
from canonry.server.api.models import BookmarkOut, Url
from canonry.server.problems import CandidateOut, Refused, said

router = APIRouter(prefix="/api", tags=["answers"])
_LONGEST_IN_QUERY = 4000  # characters; escaped they may be twelve times as long, and servers take 64 KiB


class NormalizeIn(BaseModel):
    """A URL to try out; without a policy, the one bookmarks are under."""

    url: Url
    policy: Annotated[str, Field(max_length=100, examples=["bookmark", "feed-aggressive@1"])] | None = None
    exact_url: bool = False


class StepOut(BaseModel):
    """One rule that changed something."""

    rule: str
    before: str
    after: str
    reason: str


class ScoreOut(BaseModel):
    """How clean a URL is, in parts that add up; higher is cleaner."""

    model_config = ConfigDict(from_attributes=True)

    total: float
    https: float
    no_www: float
    no_trailing_slash: float
    few_params: float
    no_tracking: float
    no_userinfo: float
    no_fragment: float
    short: float


class NormalizeOut(BaseModel):
    """What a URL becomes and why; `hash` is the sha256 of `url`, `is_short` says that keeping it would follow it."""

    url: str
    original_url: str | None
    policy: str
    steps: list[StepOut]
    score: ScoreOut
    hash: str
    is_short: bool


class CheckIn(BaseModel):
    """A URL to look for."""

    url: Url
    exact_url: bool = False


class CheckOut(BaseModel):
    """The form under which a URL is looked for, and the bookmark that has it."""

    url: str
    bookmark: BookmarkOut | None


class CanonicalizeIn(BaseModel):
    """A feed, or with `discover` a page that names one."""

    url: Url
    max_requests: Annotated[int, Field(ge=0, le=20, description="Requests after the first fetch.")] = 3
    discover: bool = False


class FeedSummaryOut(BaseModel):
    """The feed that was found."""

    title: str
    format: str
    item_count: int


class HopOut(BaseModel):
    """A redirect."""

    status: int
    url: str
    location: str


class FeedLinkOut(BaseModel):
    """A feed a page names."""

    url: str
    title: str
    format: str


class CanonicalOut(BaseModel):
    """The URL that stands for a feed, with the evidence."""

    url: str
    reason: Reason
    source: Source
    preset: str | None
    requests: int
    total_requests: int
    candidates: list[CandidateOut]
    aliases: list[str]
    feed: FeedSummaryOut | None
    input_url: str
    response_url: str | None
    self_url: str | None
    hops: list[HopOut]
    discovered: list[FeedLinkOut]


class PolicyOut(BaseModel):
    """A policy: every option by value."""

    id: str
    about: str
    digest: str
    parse: bool
    strip_www: bool
    strip_auth: bool
    normalize_escapes: bool
    collapse_slashes: bool
    strip_trailing_slash: bool
    sort_params: bool
    fragment: str
    sites: list[str]
    strip_params: list[str]
    strip_params_on: dict[str, list[str]]


class RuleOut(BaseModel):
    """A rule, shown on a URL."""

    rule: str
    option: str
    what: str
    before: str
    after: str


class SiteOut(BaseModel):
    """A site whose URLs are understood."""

    site: str
    about: str
    source: str


class ParamOut(BaseModel):
    """A query parameter that only follows readers around, everywhere or on one host."""

    name: str
    host: str | None
    owner: str
    what: str
    source: str
    lists: list[str]


class RulesOut(BaseModel):
    """The rules in the order they run, the sites and the tracking parameters."""

    rules: list[RuleOut]
    sites: list[SiteOut]
    params: list[ParamOut]


@router.post("/normalize", response_model=NormalizeOut, responses=said(400), summary="What a URL becomes, step by step")
async def normalize_url(request: Request, body: NormalizeIn) -> dict[str, Any]:
    """A dry run: nothing is kept, and no short link is followed."""
    told = await service(request).bookmarks.pipeline.preview(body.url, exact_url=body.exact_url)
    if body.policy is not None and not body.exact_url:
        told = _under(body.policy, told, body.url)
    return {**_fields(told), "score": score(told.url), "hash": make_key(told.url)}


@router.get("/check", response_model=CheckOut, responses=said(400), summary="Is a URL kept already?")
async def check_url(
    request: Request, url: Annotated[str, Query(max_length=_LONGEST_IN_QUERY)], exact_url: Exact = False
) -> CheckOut:
    """Without asking the network: a short link is looked for as it is."""
    return await _checked(request, url, exact_url=exact_url)


@router.post("/check", response_model=CheckOut, responses=said(400), summary="Is a URL kept already?")
async def check_long_url(request: Request, body: CheckIn) -> CheckOut:
    """The same for URLs that are too long for a query."""
    return await _checked(request, body.url, exact_url=body.exact_url)


@router.post(
    "/canonicalize",
    response_model=CanonicalOut,
    responses=said(400, 422, 424),
    summary="The URL that stands for a feed",
)
async def canonicalize_url(request: Request, body: CanonicalizeIn) -> object:
    """Fetches the feed, then tests its self link and cleaner forms of the URL; 424 and 422 say what was tried."""
    client = service(request).client
    return await canonicalize(
        body.url, fetch=client.fetch, guard=client.guard, max_requests=body.max_requests, discover=body.discover
    )


@router.get("/policies", response_model=list[PolicyOut], summary="The policies there are")
async def list_policies() -> list[dict[str, Any]]:
    return [_policy(each.id) for each in presets.policies()]


@router.get("/policies/{policy_id}", response_model=PolicyOut, responses=said(404), summary="One policy")
async def get_policy(
    policy_id: Annotated[str, Path(max_length=100, description="`bookmark` is the newest version, `bookmark@1` that.")],
) -> dict[str, Any]:
    try:
        return _policy(policy_id)
    except PolicyError as error:
        raise Refused(404, str(error)) from None


@router.get("/rules", response_model=RulesOut, summary="The rules, sites and tracking parameters")
async def list_rules() -> RulesOut:
    return _rules()


async def _checked(request: Request, text: str, *, exact_url: bool) -> CheckOut:
    bookmarks = service(request).bookmarks
    told = await bookmarks.pipeline.preview(text, exact_url=exact_url)
    found = await bookmarks.find(owner(request), text, exact_url=exact_url)
    return CheckOut(url=told.url, bookmark=BookmarkOut.model_validate(found[0]) if found else None)


def _under(policy: str, told: Preview, text: str) -> Preview:
    """The same under another policy."""
    other = explain(read_http_url(text), presets.policy(policy))
    given = told.original_url or told.url
    original_url = given if given != other.url else None
    return Preview(other.url, original_url, other.policy, other.steps, told.is_short)


def _fields(value: Preview) -> dict[str, Any]:
    return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}


def _policy(name: str) -> dict[str, Any]:
    policy = presets.policy(name)
    return {"id": policy.id, "about": policy.about, "digest": policy.digest, **policy.options()}


@cache
def _rules() -> RulesOut:
    sites, params = _data("sites.toml"), _data("params.toml")
    by_host: dict[str, dict[str, Any]] = params.pop("on")
    found: list[tuple[str, str | None, Any]] = [(name, None, note) for name, note in params.items()]
    found += [(name, host, note) for host, names in by_host.items() for name, note in names.items()]
    return RulesOut(
        rules=[RuleOut(**dataclasses.asdict(note)) for note in RULE_DESCRIPTIONS],
        sites=[SiteOut(site=site, about=table["about"], source=table["source"]) for site, table in sites.items()],
        params=[ParamOut(name=name, host=host, **note) for name, host, note in found],
    )


def _data(name: str) -> dict[str, Any]:
    return tomllib.loads((files("canonry.core") / "data" / name).read_text(encoding="utf-8"))
