"""canonry knows when two URLs are the same thing.

The public names are loaded at their first use, so importing canonry costs next to nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from canonry.core.explain import Explanation as Explanation
    from canonry.core.explain import Step as Step
    from canonry.core.explain import explain as explain
    from canonry.core.keys import Item as Item
    from canonry.core.keys import Key as Key
    from canonry.core.keys import dedupe_key as dedupe_key
    from canonry.core.keys import identity_keys as identity_keys
    from canonry.core.native import canonical_hash as canonical_hash
    from canonry.core.native import normalize as normalize
    from canonry.core.native import normalize_many as normalize_many
    from canonry.core.policy import Policy as Policy
    from canonry.core.presets import policies as policies
    from canonry.core.presets import policy as policy
    from canonry.core.scope import LinkRule as LinkRule
    from canonry.core.scope import LinkVerdict as LinkVerdict
    from canonry.core.scope import Verdict as Verdict
    from canonry.core.scope import judge_link as judge_link
    from canonry.core.score import Score as Score
    from canonry.core.score import score as score
    from canonry.core.url import read_url as read_url
    from canonry.core.variants import Variant as Variant
    from canonry.core.variants import variants as variants
    from canonry.crawler.crawl import crawl as crawl
    from canonry.crawler.pages import Page as Page
    from canonry.crawler.pages import PageLink as PageLink
    from canonry.errors import CanonryError as CanonryError
    from canonry.errors import FetchFailed as FetchFailed
    from canonry.errors import InvalidUrl as InvalidUrl
    from canonry.errors import NotAFeed as NotAFeed
    from canonry.errors import PolicyError as PolicyError
    from canonry.errors import StartMoved as StartMoved
    from canonry.errors import StoreError as StoreError
    from canonry.errors import UnsafeUrl as UnsafeUrl
    from canonry.evidence.resolve import resolve as resolve
    from canonry.evidence.resolve import resolve_sync as resolve_sync
    from canonry.evidence.resolved import Resolved as Resolved
    from canonry.feeds.canonicalize import canonicalize as canonicalize
    from canonry.feeds.canonicalize import canonicalize_sync as canonicalize_sync
    from canonry.feeds.canonicalize.result import Candidate as Candidate
    from canonry.feeds.canonicalize.result import Canonical as Canonical
    from canonry.feeds.canonicalize.result import Existing as Existing
    from canonry.feeds.content import FeedSignature as FeedSignature
    from canonry.feeds.content import content_hash as content_hash
    from canonry.feeds.content import feed_signature as feed_signature
    from canonry.feeds.ingest import ingest as ingest
    from canonry.feeds.ingest_report import Report as Report
    from canonry.feeds.read import Feed as Feed
    from canonry.learner import learn as learn
    from canonry.learner.values import Learned as Learned
    from canonry.learner.values import LearnedRule as LearnedRule
    from canonry.learner.values import RefusedRule as RefusedRule
    from canonry.net import guard as _guard  # pyright: ignore[reportUnusedImport]  # noqa: F401
    from canonry.net.response import Hop as Hop
    from canonry.net.response import Response as Response
    from canonry.net.response import Validators as Validators
    from canonry.net.search_fetcher import Event as Event
    from canonry.overrides_setting import find_overrides as find_overrides
    from canonry.policy_files import load_policy as load_policy

_NAMES_BY_MODULE = {
    "feeds.content": ("FeedSignature", "content_hash", "feed_signature"),
    "core.explain": ("Explanation", "Step", "explain"),
    "core.native": ("canonical_hash", "normalize", "normalize_many"),
    "core.keys": ("Item", "Key", "dedupe_key", "identity_keys"),
    "core.policy": ("Policy",),
    "core.presets": ("policies", "policy"),
    "core.scope": ("LinkRule", "LinkVerdict", "Verdict", "judge_link"),
    "core.score": ("Score", "score"),
    "core.url": ("read_url",),
    "core.variants": ("Variant", "variants"),
    "errors": (
        "CanonryError",
        "FetchFailed",
        "InvalidUrl",
        "NotAFeed",
        "PolicyError",
        "StartMoved",
        "StoreError",
        "UnsafeUrl",
    ),
    "overrides_setting": ("find_overrides",),
    "policy_files": ("load_policy",),
    "net.response": ("Hop", "Response", "Validators"),
    "feeds.canonicalize.result": ("Candidate", "Canonical", "Existing"),
    "net.search_fetcher": ("Event",),
    "evidence.resolve": ("resolve", "resolve_sync"),
    "evidence.resolved": ("Resolved",),
    "feeds.canonicalize": ("canonicalize", "canonicalize_sync"),
    "crawler.crawl": ("crawl",),
    "crawler.pages": ("Page", "PageLink"),
    "feeds.ingest": ("ingest",),
    "feeds.ingest_report": ("Report",),
    "feeds.read": ("Feed",),
    "learner": ("learn",),
    "learner.values": ("Learned", "LearnedRule", "RefusedRule"),
}
_MODULE_OF = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names}
_SUBMODULES = {"net": "guard", "bulk": "arrow"}  # `canonry.net.guard` works after `import canonry`
__version__ = "0.2.0"


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _SUBMODULES:
        import_module(f"canonry.{name}.{_SUBMODULES[name]}")
        return import_module(f"canonry.{name}")
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'canonry' has no attribute {name!r}")
    value: object = getattr(import_module(f"canonry.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    dunder_names = [name for name in globals() if name.startswith("__")]
    return sorted([*_MODULE_OF, *dunder_names])
