"""Options that give a crawl access to a site: headers, cookies, basic authentication and a login command."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from canonry.cli.options import require_files
from canonry.core.url import read_url
from canonry.errors import CanonryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from canonry.net.site_access import SiteAccess

AUTH_VARIABLE = "CANONRY_CRAWL_AUTH"
_LOGIN_SECONDS = 120.0
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def access_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command."""
    for option in (
        click.option(
            "--login",
            metavar="COMMAND",
            help="Run a command once that logs in and prints JSON: "
            '{"cookies": {"name": "value"}, "headers": {"Name": "value"}}.',
        ),
        click.option(
            "--auth-file",
            metavar="FILE",
            type=_FILE,
            help=f"Basic authentication: a file with user:password, or set {AUTH_VARIABLE}.",
        ),
        click.option("--cookie-file", metavar="FILE", type=_FILE, help="Send cookies of a cookies.txt to the site."),
        click.option(
            "--header",
            "header_lines",
            metavar="'NAME: VALUE'",
            multiple=True,
            help="Send a header to the site; @FILE reads such lines from a file. Repeatable.",
        ),
    ):
        command = option(command)
    return command


def read_access(seed: str, given: dict[str, Any]) -> SiteAccess | None:
    """Take the options out of `given` and return the credentials for the site; None if there are none."""
    from canonry.net.site_access import SiteAccess, make_basic_auth, parse_login, read_cookie_file

    lines, auth_file = given.pop("header_lines"), given.pop("auth_file")
    cookie_file, login = given.pop("cookie_file"), given.pop("login")
    site = read_url(seed)
    headers: dict[str, str] = {}
    cookies: dict[str, str] = {}
    auth = _read_text(auth_file).strip() if auth_file is not None else os.environ.get(AUTH_VARIABLE, "")
    if auth:
        headers |= make_basic_auth(auth)
    if cookie_file is not None:
        cookies |= read_cookie_file(cookie_file, site)
        if not cookies:
            raise CanonryError(f"{cookie_file}: no cookie of this file belongs to the start page")
    if login is not None:
        more_headers, more_cookies = parse_login(_run_login(login))
        headers |= more_headers
        cookies |= more_cookies
    headers |= _parse_headers(lines)
    access = SiteAccess(site, headers, cookies)
    return None if access.is_empty else access


def hide_headers(words: Iterable[str]) -> list[str]:
    """Return a command line without the values of headers and the login command, which may be secrets."""
    shown: list[str] = []
    for word in words:
        option, equals, value = word.partition("=")
        if (shown and shown[-1] == "--login") or (option == "--login" and equals):
            shown.append("--login=..." if equals and option == "--login" else "...")
        elif shown and shown[-1] == "--header" and not word.startswith("@"):
            shown.append(word.partition(":")[0] + ": ...")
        elif option == "--header" and equals and not value.startswith("@"):
            shown.append(f"--header={value.partition(':')[0]}: ...")
        else:
            shown.append(word)
    return shown


def _parse_headers(lines: Iterable[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for given in lines:
        if given.startswith("@"):
            require_files([given[1:]], "--header")
        texts = _read_text(Path(given[1:])).splitlines() if given.startswith("@") else [given]
        for text in filter(str.strip, texts):
            name, colon, value = text.partition(":")
            if not colon or not name.strip():
                raise click.BadParameter("a header is written as 'Name: value'", param_hint="--header")
            headers[name.strip()] = value.strip()
    return headers


def _read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise CanonryError(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CanonryError(f"{file}: cannot be read: the file is not UTF-8 text") from None


def _run_login(command: str) -> str:
    """Return what the login command prints; it runs without a shell."""
    try:
        words = shlex.split(command)
        if not words:
            raise CanonryError("The login command is empty")
        done = subprocess.run(words, stdout=subprocess.PIPE, check=True, timeout=_LOGIN_SECONDS)  # noqa: S603
    except subprocess.CalledProcessError as error:
        raise CanonryError(f"The login command failed with exit code {error.returncode}") from None
    except subprocess.TimeoutExpired:
        raise CanonryError(f"The login command did not end within {_LOGIN_SECONDS:g} s") from None
    except OSError as error:
        raise CanonryError(f"The login command could not be run: {error.strerror}") from None
    except ValueError as error:  # of shlex
        raise CanonryError(f"The login command could not be run: {error}") from None
    return done.stdout.decode(errors="replace")
