"""The click group: all commands, error messages and exit codes."""

from __future__ import annotations

import sys

import click

from canonry import __version__
from canonry.cli.backup import backup, restore
from canonry.cli.bookmarks import bookmarks
from canonry.cli.bulk import bulk
from canonry.cli.canonicalize import canonicalize
from canonry.cli.completion import completion
from canonry.cli.config import config
from canonry.cli.crawl import crawl
from canonry.cli.crawls import crawls
from canonry.cli.demo import demo
from canonry.cli.explain import explain
from canonry.cli.feeds import feeds
from canonry.cli.ingest import ingest
from canonry.cli.learn import learn
from canonry.cli.mcp import mcp
from canonry.cli.normalize import normalize
from canonry.cli.policies import policies, policy
from canonry.cli.rekey import rekey
from canonry.cli.resolve import resolve
from canonry.cli.rules import rules
from canonry.cli.serve import serve
from canonry.cli.user import user
from canonry.cli.worker import worker
from canonry.core.native import CORE
from canonry.errors import CanonryError

# Which extra installs a module that a command misses.
_MODULES_OF_EXTRAS = {
    "feeds": "aiohttp alembic dbos psycopg selectolax sqlalchemy structlog webencodings",
    "crawl": "h11 protego",
    "bulk": "duckdb numpy pyarrow",
    "spark": "pandas py4j pyspark",
    "mcp": "mcp",
    "serve": "fastapi httptools jinja2 prometheus_client pydantic python_multipart redis starlette uvicorn",
}
_EXTRAS = {module: extra for extra, modules in _MODULES_OF_EXTRAS.items() for module in modules.split()}


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="canonry", message=f"%(prog)s, version %(version)s ({CORE} core)")
@click.option("--debug", is_flag=True, help="Show the traceback of errors.")
def canonry(*, debug: bool) -> None:
    """Know when two URLs are the same thing.

    \b
    canonry explain 'https://youtu.be/dQw4w9WgXcQ?si=abc&utm_source=mail'
    """
    del debug  # run() reads it from sys.argv, because an error may occur before click has parsed it


for command in (
    normalize,
    explain,
    canonicalize,
    resolve,
    ingest,
    learn,
    feeds,
    bookmarks,
    crawl,
    crawls,
    bulk,
    serve,
    user,
    worker,
    mcp,
    policies,
    policy,
    rekey,
    rules,
    demo,
    config,
    completion,
    backup,
    restore,
):
    canonry.add_command(command)


def run() -> None:
    """Run the command line. An error is one line and exit code 1; wrong usage is exit code 2."""
    try:
        canonry(prog_name="canonry")
    except CanonryError as error:
        if "--debug" in sys.argv:
            raise
        click.echo(f"canonry: {error}", err=True)
        sys.exit(1)
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None or "--debug" in sys.argv:
            raise
        click.echo(
            f"canonry: this command needs the module {error.name}. Install it with: pip install 'canonry[{extra}]'",
            err=True,
        )
        sys.exit(1)
