"""Options of a crawl: typed in Python, JSON in the database."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypedDict

from canonry.core.policy_toml import parse_policy
from canonry.core.presets import policy
from canonry.core.scope import CRAWL_POLICY
from canonry.crawler.path_patterns import PathPatterns
from canonry.crawler.traps import DEFAULT_TRAP_PAGES
from canonry.errors import InvalidFields
from canonry.net.engine import WAIT_QUIET, ReadOptions
from canonry.policy_files import read_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from canonry.core.policy import Policy

BROWSER_OPTIONS = ("wait", "scroll", "load_images", "routes")  # which mean nothing to the http engine
NEWEST_POLICY = "crawl"
_FIRST_POLICY = "crawl@1"


class Unset(Enum):
    """The type of `UNSET`, the default of arguments for which None has a meaning."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET


@dataclass(frozen=True, slots=True)
class CrawlOptions:
    """How to crawl a site. None for `max_pages` and `depth` means no limit."""

    engine: str = "chrome"
    max_pages: int | None = None
    depth: int | None = None  # links to follow from the start page
    concurrency: int = 16
    per_host: int = 4  # pages of one host that are open at the same time
    delay: float = 0.0  # seconds between two requests
    robots: bool = True
    sitemaps: bool = False
    follow_start: bool = False  # crawl the other host if the start page redirects to one
    retries: int = 2
    backoff: float = 1.0  # seconds before the first retry, doubled before each further one
    patience: float = 300.0  # seconds to wait for a site that stopped answering
    policy: str = CRAWL_POLICY  # an id
    policy_text: str = ""  # the TOML of a policy from a file
    include: tuple[str, ...] = ()  # patterns of paths, as in robots.txt; the start page is always read
    exclude: tuple[str, ...] = ()
    shared: bool = False  # opened by worker processes instead of the process that started the crawl
    wait: str = WAIT_QUIET  # when Chrome reads the links: load, quiet, or a CSS selector that must match
    scroll: bool = False  # Chrome scrolls to the end of each page
    load_images: bool = False  # Chrome also loads pictures, media and fonts
    routes: bool = False  # `#/about` and `#!/about` are pages of their own
    nofollow: bool = True  # links are not followed where the page or the link asks for that
    sessions: bool = True  # a page is read once under different session identifiers
    fold: bool = True  # links of a page that repeats another one under the same path are not followed
    learn: bool = False  # pages that learned rules call the same as one that was read are left out
    control: bool = True  # a few pages are requested again, or without a parameter, so that rules can be learned
    trap_pages: int | None = DEFAULT_TRAP_PAGES  # pages in a row without new text that stop a pattern; None: no limit

    @property
    def read_options(self) -> ReadOptions:
        """How an engine reads the pages."""
        return ReadOptions(wait=self.wait, scroll=self.scroll, load_images=self.load_images)

    @property
    def slots(self) -> int:
        """How many pages of the site are open at the same time; a site is one host."""
        return min(self.concurrency, self.per_host)

    def load_policy(self) -> Policy:
        """Return the policy under which URLs are one page."""
        return parse_policy(self.policy_text, file=self.policy) if self.policy_text else policy(self.policy)

    @property
    def patterns(self) -> PathPatterns:
        """Which pages are left out by their path."""
        return PathPatterns(self.include, self.exclude)

    @property
    def fixed(self) -> tuple[object, ...]:
        """The options that resuming cannot change, because pages were found under them."""
        return self.policy, self.policy_text, self.include, self.exclude

    def to_json(self) -> str:
        """Return the options as the database stores them."""
        return json.dumps(asdict(self))


_DEFAULTS = asdict(CrawlOptions())


class OptionChanges(TypedDict, total=False):
    """The options that a caller gave; the others stay as they are."""

    engine: str
    max_pages: int | None
    depth: int | None
    concurrency: int
    per_host: int
    delay: float
    robots: bool
    sitemaps: bool
    follow_start: bool
    retries: int
    backoff: float
    patience: float
    policy: str
    policy_text: str
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    shared: bool
    wait: str
    scroll: bool
    routes: bool
    load_images: bool
    nofollow: bool
    sessions: bool
    fold: bool
    learn: bool
    control: bool
    trap_pages: int | None


def check_browser_options(given: Mapping[str, object], *, engine: str) -> None:
    """Raise InvalidFields for given options that only Chrome can follow, if the engine is `http`.

    Only what a caller gives is checked: a stored crawl may have such options, and continues without them.
    """
    if engine == "http":
        unused = [each for each in BROWSER_OPTIONS if given.get(each, _DEFAULTS[each]) != _DEFAULTS[each]]
        if unused:
            raise InvalidFields(dict.fromkeys(unused, "Only Chrome does this. Choose the engine chrome."))


def choose_crawl_policy(name: str) -> OptionChanges:
    """Return the options for a policy that a user names: a shipped one, by default its newest version, or a file."""
    if not name.endswith(".toml"):
        return {"policy": policy(name).id, "policy_text": ""}
    text = read_text(name)
    return {"policy": parse_policy(text, file=name).id, "policy_text": text}


def parse_options(text: str) -> CrawlOptions:
    """Read options from the JSON of the database; an option that is missing there has its default.

    A crawl without a policy was stored when crawl@1 was the only one.
    """
    values: dict[str, Any] = {"policy": _FIRST_POLICY, **json.loads(text)}
    values |= {name: tuple(values.get(name, ())) for name in ("include", "exclude")}
    return CrawlOptions(**values)
