"""The click group: the names of all commands, error messages and exit codes."""

from __future__ import annotations

import sys
from importlib import import_module

import click

from canonry import __version__
from canonry.core.native import CORE
from canonry.core.suggest import suggest
from canonry.errors import CanonryError, InvalidSize, InvalidStoreUrl

# The module of canonry.cli that defines each command; only that of the command in use is imported.
_COMMAND_MODULES = {
    "normalize": "normalize",
    "explain": "explain",
    "canonicalize": "canonicalize",
    "resolve": "resolve",
    "ingest": "ingest",
    "learn": "learn",
    "feeds": "feeds",
    "bookmarks": "bookmarks",
    "crawl": "crawl",
    "crawls": "crawls",
    "bulk": "bulk",
    "serve": "serve",
    "user": "user",
    "worker": "worker",
    "mcp": "mcp",
    "policies": "policies",
    "policy": "policies",
    "rekey": "rekey",
    "rules": "rules",
    "demo": "demo",
    "config": "config",
    "completion": "completion",
    "backup": "backup",
    "restore": "backup",
}

# Which extra installs a module that a command misses.
_MODULES_OF_EXTRAS = {
    "feeds": "aiohttp alembic dbos psycopg selectolax sqlalchemy structlog webencodings",
    "crawl": "h11 protego warcio",
    "bulk": "duckdb numpy pyarrow",
    "spark": "pandas py4j pyspark",
    "mcp": "mcp",
    "serve": "fastapi httptools jinja2 prometheus_client pydantic python_multipart redis starlette uvicorn",
}
_EXTRAS = {module: extra for extra, modules in _MODULES_OF_EXTRAS.items() for module in modules.split()}


class CommandGroup(click.Group):
    """A group that imports the module of a command when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        del ctx
        return sorted(_COMMAND_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; None if there is none of this name."""
        del ctx
        module = _COMMAND_MODULES.get(cmd_name)
        if module is None:
            return None
        command: click.Command = getattr(import_module(f"canonry.cli.{module}"), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command to run; for a mistyped name, suggest one (click knows no command before its import)."""
        name = args[0]
        if name not in _COMMAND_MODULES and not name.startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"No such command {name!r}{suggest(name, _COMMAND_MODULES)}.")
        return super().resolve_command(ctx, args)


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="canonry", message=f"%(prog)s, version %(version)s ({CORE} core)")
@click.option("--debug", is_flag=True, help="Show the traceback of errors.")
def canonry(*, debug: bool) -> None:
    """Know when two URLs are the same thing.

    \b
    canonry explain 'https://youtu.be/dQw4w9WgXcQ?si=abc&utm_source=mail'
    """
    del debug  # run() reads it from sys.argv, because an error may occur before click has parsed it


def run() -> None:
    """Run the command line. An error is one line and exit code 1; wrong usage is exit code 2."""
    try:
        canonry(prog_name="canonry")
    except CanonryError as error:
        if "--debug" in sys.argv:
            raise
        click.echo(f"canonry: {error}", err=True)
        sys.exit(2 if isinstance(error, InvalidStoreUrl | InvalidSize) else 1)
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None or "--debug" in sys.argv:
            raise
        click.echo(
            f"canonry: this command needs the module {error.name}. Install it with: pip install 'canonry[{extra}]'",
            err=True,
        )
        sys.exit(1)
