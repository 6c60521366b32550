"""Options of a crawl: typed in Python, JSON in the database."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Final, TypedDict

from canonry.net.engine import WAIT_QUIET, ReadOptions


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
    shared: bool = False  # opened by worker processes instead of the process that started the crawl
    wait: str = WAIT_QUIET  # when Chrome reads the links: load, quiet, or a CSS selector that must match
    scroll: bool = False  # Chrome scrolls to the end of each page
    load_images: bool = False  # Chrome also loads pictures, media and fonts
    routes: bool = False  # `#/about` and `#!/about` are pages of their own

    @property
    def read_options(self) -> ReadOptions:
        """How an engine reads the pages."""
        return ReadOptions(wait=self.wait, scroll=self.scroll, load_images=self.load_images)

    @property
    def slots(self) -> int:
        """How many pages of the site are open at the same time; a site is one host."""
        return min(self.concurrency, self.per_host)

    def to_json(self) -> str:
        """Return the options as the database stores them."""
        return json.dumps(asdict(self))


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
    shared: bool
    wait: str
    scroll: bool
    routes: bool
    load_images: bool


def parse_options(text: str) -> CrawlOptions:
    """Read options from the JSON of the database; an option that is missing there has its default."""
    return CrawlOptions(**json.loads(text))
