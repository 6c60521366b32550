"""`/api/normalize`, `/check`, `/canonicalize`, `/resolve`, `/policies`, `/rules`: answers about URLs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, Field

from canonry.bookmarks.bookmark import Bookmark
from canonry.bookmarks.bookmark_rows import make_key
from canonry.bookmarks.url_pipeline import Preview, read_http_url
from canonry.core import presets
from canonry.core.catalog import RULE_DESCRIPTIONS, RuleDescription
from canonry.core.explain import Step, explain
from canonry.core.score import Score, score
from canonry.errors import PolicyError
from canonry.evidence.resolve import resolve
from canonry.evidence.resolved import Resolved
from canonry.feeds.canonicalize import canonicalize
from canonry.feeds.canonicalize.result import Canonical
from canonry.server.api.bookmarks import ExactUrl
from canonry.server.bookmark_input import Url
from canonry.server.dependencies import get_owner_id, get_service
from canonry.server.problems import RequestRefused, describe_error, describe_problems
from canonry.site_files import SiteExample, TrackingParameter, describe_sites, list_tracking_parameters, read_data

router = APIRouter(prefix="/api", tags=["answers"])
_MAX_QUERY_URL_CHARS = 4000  # percent-encoded it may be 12 times as long, and servers accept 64 KiB


class NormalizeIn(BaseModel):
    """A URL to normalize; the default policy is the one bookmarks use."""

    url: Url
    policy: Annotated[str, Field(max_length=100, examples=["bookmark", "feed-aggressive@1"])] | None = None
    exact_url: bool = False


@dataclass(frozen=True, slots=True)
class NormalizedUrl:
    """The normal form of a URL and the steps to it.

    `hash` is the sha256 of `url`; `is_short` says that saving the URL as a bookmark would follow it.
    """

    url: str
    original_url: str | None
    policy: str
    steps: tuple[Step, ...]
    score: Score
    hash: str
    is_short: bool


class CheckIn(BaseModel):
    """A URL to look up."""

    url: Url
    exact_url: bool = False


@dataclass(frozen=True, slots=True)
class CheckedUrl:
    """The normal form of a URL, and the bookmark that has it."""

    url: str
    bookmark: Bookmark | None


class CanonicalizeIn(BaseModel):
    """A feed, or with `discover` a page that links to one."""

    url: Url
    max_requests: Annotated[int, Field(ge=0, le=20, description="Requests after the first fetch.")] = 3
    discover: bool = False


class ResolveIn(BaseModel):
    """A page; the default policy is the one bookmarks use."""

    url: Url
    policy: Annotated[str, Field(max_length=100, examples=["bookmark", "crawl@2"])] | None = None
    max_requests: Annotated[int, Field(ge=0, le=20, description="Requests after the first.")] = 3


@dataclass(frozen=True, slots=True)
class PolicyDetail:
    """A policy and the values of all its options."""

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
    keep_embedded: bool
    fragment: str
    sites: list[str]
    strip_params: list[str]
    strip_params_on: dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class SiteNote:
    """A site with rules of its own."""

    site: str
    about: str
    source: str
    hosts: tuple[str, ...] = ()
    examples: tuple[SiteExample, ...] = ()


@dataclass(frozen=True, slots=True)
class RuleCatalog:
    """The rules in the order in which they run, the sites and the tracking parameters."""

    rules: tuple[RuleDescription, ...]
    sites: tuple[SiteNote, ...]
    params: tuple[TrackingParameter, ...]


@router.post(
    "/normalize", response_model=NormalizedUrl, responses=describe_problems(400), summary="Normalize a URL, with steps"
)
async def normalize_url(request: Request, body: NormalizeIn) -> NormalizedUrl:
    """A dry run: nothing is stored, and no short link is followed."""
    preview = await get_service(request).bookmarks.pipeline.preview(body.url, exact_url=body.exact_url)
    if body.policy is not None and not body.exact_url:
        preview = _preview_under(body.policy, preview, body.url)
    return NormalizedUrl(
        url=preview.url,
        original_url=preview.original_url,
        policy=preview.policy,
        steps=preview.steps,
        score=score(preview.url),
        hash=make_key(preview.url),
        is_short=preview.is_short,
    )


@router.get(
    "/check", response_model=CheckedUrl, responses=describe_problems(400), summary="Look up whether a URL is saved"
)
async def check_url(
    request: Request, url: Annotated[str, Query(max_length=_MAX_QUERY_URL_CHARS)], exact_url: ExactUrl = False
) -> CheckedUrl:
    """Makes no network request: a short link is looked up as it is."""
    return await _look_up(request, url, exact_url=exact_url)


@router.post(
    "/check", response_model=CheckedUrl, responses=describe_problems(400), summary="Look up whether a URL is saved"
)
async def check_long_url(request: Request, body: CheckIn) -> CheckedUrl:
    """The same for URLs that are too long for a query."""
    return await _look_up(request, body.url, exact_url=body.exact_url)


@router.post(
    "/canonicalize",
    response_model=Canonical,
    response_model_exclude={"data"},  # for Python callers; the service never sets it
    responses=describe_problems(400, 422, 424),
    summary="Find the canonical URL of a feed",
)
async def canonicalize_url(request: Request, body: CanonicalizeIn) -> Canonical:
    """Fetches the feed, then tests its self link and cleaner forms of its URL; 422 and 424 list what was tried."""
    client = get_service(request).client
    return await canonicalize(
        body.url, fetch=client.fetch, guard=client.guard, max_requests=body.max_requests, discover=body.discover
    )


@router.post(
    "/resolve",
    response_model=Resolved,
    responses=describe_problems(400, 424),
    summary="Find the URL that stands for a page",
)
async def resolve_url(request: Request, body: ResolveIn) -> Resolved:
    """Fetches the page, then tests what it declares and cleaner forms of its URL; 424 lists what was tried."""
    service = get_service(request)
    policy = presets.policy(body.policy or await service.bookmarks.pipeline.get_policy())
    client = service.client
    return await resolve(body.url, policy, fetch=client.fetch, guard=client.guard, max_requests=body.max_requests)


@router.get("/policies", response_model=list[PolicyDetail], summary="List policies")
async def list_policies() -> list[PolicyDetail]:
    return [_describe_policy(policy.id) for policy in presets.policies()]


@router.get(
    "/policies/{policy_id}", response_model=PolicyDetail, responses=describe_problems(404), summary="One policy"
)
async def get_policy(
    policy_id: Annotated[
        str, Path(max_length=100, description="`bookmark` is the newest version, `bookmark@1` is version 1.")
    ],
) -> PolicyDetail:
    try:
        return _describe_policy(policy_id)
    except PolicyError as error:
        raise RequestRefused(404, describe_error(error)) from None


@router.get("/rules", response_model=RuleCatalog, summary="The rules, sites and tracking parameters")
async def list_rules() -> RuleCatalog:
    return _load_catalog()


async def _look_up(request: Request, text: str, *, exact_url: bool) -> CheckedUrl:
    bookmarks = get_service(request).bookmarks
    preview = await bookmarks.pipeline.preview(text, exact_url=exact_url)
    found = await bookmarks.find(get_owner_id(request), text, exact_url=exact_url)
    return CheckedUrl(preview.url, found[0] if found else None)


def _preview_under(policy: str, preview: Preview, text: str) -> Preview:
    """Return the preview of the same URL under another policy."""
    other = explain(read_http_url(text), presets.policy(policy))
    given = preview.original_url or preview.url
    original_url = given if given != other.url else None
    return Preview(other.url, original_url, other.policy, other.steps, preview.is_short)


def _describe_policy(name: str) -> PolicyDetail:
    policy = presets.policy(name)
    options: dict[str, Any] = policy.options()
    return PolicyDetail(id=policy.id, about=policy.about, digest=policy.digest, **options)


@cache
def _load_catalog() -> RuleCatalog:
    sites = read_data("sites.toml")
    return RuleCatalog(
        rules=RULE_DESCRIPTIONS,
        sites=(
            *(SiteNote(site, table["about"], table["source"]) for site, table in sites.items()),
            *(SiteNote(each.site, each.about, each.source, each.hosts, each.examples) for each in describe_sites()),
        ),
        params=list_tracking_parameters(),
    )
