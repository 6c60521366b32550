"""Crawl one site, each page once, with the links a person could click (contract C)."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from canonry import __version__
from canonry.core.native import normalize
from canonry.core.scope import CRAWL_POLICY
from canonry.core.url import parse, read_url
from canonry.crawler.crawl_options import (
    NEWEST_POLICY,
    UNSET,
    CrawlOptions,
    Unset,
    check_browser_options,
    choose_crawl_policy,
)
from canonry.crawler.crawl_run import CrawlRun
from canonry.crawler.crawl_store import Crawl, CrawlState, CrawlStore
from canonry.crawler.crawl_views import CrawlViews
from canonry.crawler.known_pages import make_page_key
from canonry.crawler.lease_owners import find_dead_owners
from canonry.crawler.recrawl import make_history
from canonry.crawler.results import PageOutcome, PageUrl
from canonry.crawler.warc import open_warc
from canonry.errors import CrawlNotFound, OptionsFixed, StartMoved
from canonry.net.origin import Origin
from canonry.settings import load_settings
from canonry.store.database import Database

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from canonry.core.policy import Policy
    from canonry.crawler.crawl_options import OptionChanges
    from canonry.crawler.pages import Page
    from canonry.crawler.recrawl import History
    from canonry.net.engine import Engine
    from canonry.net.fetch import Client
    from canonry.net.response import Fetch
    from canonry.net.site_access import SiteAccess

EngineName = Literal["chrome", "http"]


async def crawl(
    seed: str,
    *,
    engine: EngineName | Engine | None = None,
    store: str | Database = "",
    resume: bool = False,
    again: bool = False,
    fetch: Fetch | None = None,
    client: Client | None = None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    on_start: Callable[[Crawl], object] = lambda _: None,
    max_pages: int | Unset | None = UNSET,
    depth: int | Unset | None = UNSET,
    concurrency: int | Unset = UNSET,
    per_host: int | Unset = UNSET,
    delay: float | Unset = UNSET,
    robots: bool | Unset = UNSET,
    sitemaps: bool | Unset = UNSET,
    follow_start: bool | Unset = UNSET,
    retries: int | Unset = UNSET,
    backoff: float | Unset = UNSET,
    patience: float | Unset = UNSET,
    policy: str | Unset = UNSET,
    include: Sequence[str] | Unset = UNSET,
    exclude: Sequence[str] | Unset = UNSET,
    wait: str | Unset = UNSET,
    scroll: bool | Unset = UNSET,
    routes: bool | Unset = UNSET,
    load_images: bool | Unset = UNSET,
    nofollow: bool | Unset = UNSET,
    sessions: bool | Unset = UNSET,
    fold: bool | Unset = UNSET,
    learn: bool | Unset = UNSET,
    control: bool | Unset = UNSET,
    trap_pages: int | Unset | None = UNSET,
    access: SiteAccess | None = None,
    warc: str | Path | None = None,
) -> AsyncGenerator[Page]:
    """Yield the pages of the site of `seed`, each once, as they are read.

    `engine` is `chrome` (the default), `http`, or an engine of your own. `store` is a database URL (default: the one of
    the settings) or an open `Database`. `resume` continues the latest crawl of this seed: its pages come first, and
    options that are not given keep their values. `again` repeats the latest finished crawl of this seed with its
    options, and each page has a `change`: new, changed, gone or same. `policy` names a shipped policy or a TOML file
    (default: the newest `crawl`), `include` and `exclude` are patterns of paths as in robots.txt; `resume` and `again`
    cannot change these. `CrawlOptions` has the meaning and the defaults of the options.
    `fetch` or `client` replace the guarded client for robots.txt, sitemaps and the `http` engine. `access` has
    headers and cookies for the site, which are not stored. `warc` is a file, `….warc.gz`, for all requests and
    answers; it must not exist, except with `resume`, which appends. Raises StartMoved if the seed redirects to another
    host, unless `follow_start` is set, and InvalidFields for `wait`, `scroll`, `routes` and `load_images` with the
    `http` engine.
    """
    given: dict[str, object] = {
        "engine": UNSET if engine is None else engine if isinstance(engine, str) else engine.name,
        "max_pages": max_pages,
        "depth": depth,
        "concurrency": concurrency,
        "per_host": per_host,
        "delay": delay,
        "robots": robots,
        "sitemaps": sitemaps,
        "follow_start": follow_start,
        "retries": retries,
        "backoff": backoff,
        "patience": patience,
        "include": include if isinstance(include, Unset) else tuple(include),
        "exclude": exclude if isinstance(exclude, Unset) else tuple(exclude),
        "wait": wait,
        "scroll": scroll,
        "routes": routes,
        "load_images": load_images,
        "nofollow": nofollow,
        "sessions": sessions,
        "fold": fold,
        "learn": learn,
        "control": control,
        "trap_pages": trap_pages,
        "shared": False,
    }
    changes = cast("OptionChanges", {name: value for name, value in given.items() if value is not UNSET})
    if not isinstance(policy, Unset):
        changes |= choose_crawl_policy(policy)
    check_browser_options(changes, engine=changes.get("engine", ""))  # before a file is made for `warc`
    async with AsyncExitStack() as stack:
        database = store if isinstance(store, Database) else Database(store or load_settings().database_url)
        if database is not store:
            stack.callback(database.close)
        crawls = CrawlStore(database)
        archive = None
        if warc is not None:
            secrets = () if access is None else tuple(access.headers)
            is_private = access is not None or "@" in seed
            info = {"software": f"canonry/{__version__}", "robots": "ignore" if robots is False else "obey"}
            archive = stack.enter_context(
                open_warc(Path(warc), appends=resume, is_private=is_private, secret_headers=secrets, info=info)
            )
        started = await start_or_resume(crawls, seed, changes, clock(), resume=resume, again=again)
        on_start(started)
        unread = _UnreadPages()
        if resume:
            async for page in read_pages(crawls, started.id):
                unread.add(page)
                yield page
        own_engine = None if engine is None or isinstance(engine, str) else engine
        run = await stack.enter_async_context(
            CrawlRun(
                crawls,
                started,
                engine=own_engine,
                fetch=fetch,
                client=client,
                clock=clock,
                seed=seed,
                access=access,
                history=await load_history(crawls, started),
                archive=archive,
            )
        )
        pages = run.crawl_pages()
        stack.push_async_callback(pages.aclose)
        async for page in pages:
            if unread.add(page):
                yield page


class _UnreadPages:
    """The pages that were returned and not read: another spelling of the URL may be found, and fail as well."""

    def __init__(self) -> None:
        self._keys: set[str] = set()

    def add(self, page: Page) -> bool:
        """Note a page; return whether it is new or better than before."""
        if page.outcome is PageOutcome.READ:
            return True
        key = make_page_key(page.url)
        is_new = key not in self._keys
        self._keys.add(key)
        return is_new


async def start_or_resume(
    crawls: CrawlStore,
    seed: str,
    changes: OptionChanges,
    now: datetime,
    *,
    resume: bool = False,
    again: bool = False,
) -> Crawl:
    """Start a crawl; with `resume` reopen the latest one of this seed, with `again` repeat it, if there is one."""
    name = _parse_seed(seed, CRAWL_POLICY).url
    if again and (previous := await crawls.find_latest(name, state=CrawlState.DONE)) is not None:
        options = replace(previous.options, **changes)
        check_browser_options(changes, engine=options.engine)
        return await repeat_crawl(crawls, previous, options, now, seed=seed)
    if resume and (latest := await crawls.find_latest(name)) is not None:
        options = replace(latest.options, **changes)
        check_browser_options(changes, engine=options.engine)
        if options.fixed != latest.options.fixed:
            raise OptionsFixed(latest.id)
        return await reopen_crawl(crawls, latest, options)
    newest = choose_crawl_policy(NEWEST_POLICY)
    options = replace(CrawlOptions(), **(newest | changes))
    check_browser_options(changes, engine=options.engine)
    return await start_crawl(crawls, seed, options, now)


async def start_crawl(
    crawls: CrawlStore, seed: str, options: CrawlOptions, now: datetime, *, previous_id: int | None = None
) -> Crawl:
    """Store a new crawl whose first page is queued."""
    start, name = _parse_seed(seed, options.load_policy()), _parse_seed(seed, CRAWL_POLICY).url
    host = parse(start.requested_url).host
    return await crawls.start(start, host, options, now, name=name, previous_id=previous_id)


async def repeat_crawl(
    crawls: CrawlStore, previous: Crawl, options: CrawlOptions, now: datetime, *, seed: str = ""
) -> Crawl:
    """Store a new crawl whose pages are compared with those of an earlier one of the same site.

    The URLs of both must be equal under one policy, and the same pages left out.
    """
    if options.fixed != previous.options.fixed:
        raise OptionsFixed(previous.id)
    return await start_crawl(crawls, seed or previous.seed, options, now, previous_id=previous.id)


async def load_history(crawls: CrawlStore, crawl: Crawl) -> History | None:
    """Return the pages of the earlier crawl that this one repeats, if they can save requests."""
    if crawl.previous_id is None:
        return None
    try:
        return make_history(crawls.database, crawl, await crawls.get(crawl.previous_id))
    except CrawlNotFound:  # it was removed: every page is requested
        return None


async def reopen_crawl(crawls: CrawlStore, before: Crawl, options: CrawlOptions) -> Crawl:
    """Let a crawl continue under these options; return it with the `state` that it had before."""
    await crawls.release(before.id, find_dead_owners(await crawls.list_owners(before.id)))
    await crawls.reopen(before.id, options)
    return replace(await crawls.get(before.id), state=before.state)


def _parse_seed(seed: str, policy: Policy | str) -> PageUrl:
    """Return the URL that a person gave as the start page, without fragment and credentials, which are not stored."""
    start = parse(read_url(seed))
    start.userinfo = start.fragment = None
    return PageUrl(normalize(str(start), policy), str(start), Origin.PERSON)


async def read_pages(crawls: CrawlStore, crawl_id: int) -> AsyncGenerator[Page]:
    """Yield the pages that a crawl has recorded, in the order in which they were found."""
    after = 0
    while stored := await crawls.list_pages(crawl_id, after=after):
        for each in stored:
            yield each.page
        after = stored[-1].id


async def read_refused(crawls: CrawlStore, crawl_id: int) -> AsyncGenerator[Page]:
    """Yield the pages that a crawl did not request because of robots.txt, in the order in which they were found."""
    after = 0
    views = CrawlViews(crawls.database)
    while stored := await views.list_refused(crawl_id, after=after):
        for each in stored:
            yield each.page
        after = stored[-1].id


async def work_on_crawl(
    crawls: CrawlStore,
    crawl: Crawl,
    *,
    slots: int,
    seconds: float,
    engine: Engine | None = None,
    client: Client | None = None,
    clock: Callable[[], datetime],
) -> bool:
    """Crawl for `seconds`, one page at a time, as one of `slots` workers; return whether the crawl is over."""
    if crawl.state is not CrawlState.RUNNING:
        return True
    await crawls.release(crawl.id, find_dead_owners(await crawls.list_owners(crawl.id)))
    options = replace(crawl.options, delay=crawl.options.delay * slots, per_host=1)
    share = replace(crawl, options=options)
    try:
        async with CrawlRun(
            crawls,
            share,
            engine=engine,
            client=client,
            clock=clock,
            seconds=seconds,
            slots=slots,
            history=await load_history(crawls, crawl),
        ) as run:
            async for _ in run.crawl_pages():
                pass
            return run.is_over
    except StartMoved:
        return True
