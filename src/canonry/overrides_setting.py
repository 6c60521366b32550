"""The one setting of the overrides file: `--overrides`, CANONRY_OVERRIDES, `overrides` in canonry.toml (contract N5).

The file is looked up each time a policy is named, and read again if it changed: a command that starts now and a
service that runs since yesterday give the same answer (docs/decisions/0017-one-overrides-setting.md).
"""

from __future__ import annotations

import os

from canonry.core.overrides import Overrides, parse_overrides
from canonry.policy_files import DEFAULT_OVERRIDES, read_text

OVERRIDES_VARIABLE = "CANONRY_OVERRIDES"
NO_FILE = "none"  # the value that turns overrides off, also those at the default place

# The file that was read last and what it contained; another path, or another state of the file, is read again.
_Fingerprint = tuple[str, int, int, int]
_last: list[tuple[_Fingerprint, Overrides]] = []
_last_settings: list[tuple[_Fingerprint, str]] = []


def find_overrides() -> Overrides | None:
    """Return the overrides of the configured file, None if there is no file; PolicyError if it cannot be used."""
    path = find_overrides_file()
    if path is None:
        return None
    state = _fingerprint(path)
    if state is None or not _last or _last[0][0] != state:
        overrides = parse_overrides(read_text(path), path)
        if state is None:
            return overrides
        _last[:] = [(state, overrides)]
    return _last[0][1]


def find_overrides_file() -> str | None:
    """Return the path of the configured overrides file; without a setting, the default place if a file is there."""
    named = os.environ.get(OVERRIDES_VARIABLE) or _read_settings_file()
    if named == NO_FILE:
        return None
    return named or (DEFAULT_OVERRIDES if os.path.lexists(DEFAULT_OVERRIDES) else None)


def _read_settings_file() -> str:
    """Return `overrides` of canonry.toml; empty if there is no such file or key."""
    state = _fingerprint("canonry.toml")
    if state is None:
        return ""
    if not _last_settings or _last_settings[0][0] != state:
        from canonry.settings import load_settings

        _last_settings[:] = [(state, load_settings(environ={}).overrides)]
    return _last_settings[0][1]


def _fingerprint(path: str) -> _Fingerprint | None:
    """Return a value that changes with the content of a file; None if the file cannot be found."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return os.path.abspath(path), found.st_ino, found.st_mtime_ns, found.st_size
