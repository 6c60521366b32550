"""The one setting of the overrides file: `--overrides`, CANONRY_OVERRIDES, `overrides` in canonry.toml (contract N5).

The file is looked up each time a policy is named, and read again if it changed: a command that starts now and a
service that has run since yesterday give the same answer (docs/decisions/0017-one-overrides-setting.md).
"""

from __future__ import annotations

import os
import time

from canonry.core.configured_overrides import DEFAULT_OVERRIDES, OVERRIDES_VARIABLE, SETTINGS_FILE
from canonry.core.overrides import Overrides, parse_overrides
from canonry.policy_files import read_text

NO_FILE = "none"  # the value that turns overrides off, also those at the default place

# File systems round the time of a change: a file that changed a moment ago may change again without a trace.
_UNSETTLED_NANOSECONDS = 2_000_000_000

# The path, device, inode, time of change and size of a file.
_State = tuple[str, int, int, int, int]
# What was read last, with the state of its file; each list has one element at most.
_last_overrides: list[tuple[_State | None, Overrides]] = []
_last_setting: list[tuple[_State, str]] = []


def find_overrides() -> Overrides | None:
    """Return the overrides of the configured file, None if there is no file; PolicyError if it cannot be used."""
    path = find_overrides_file()
    if path is None:
        return None
    state = _read_state(path)
    last_state, last = _last_overrides[0] if _last_overrides else (None, None)
    if last is not None and state is not None and state == last_state:
        return last
    text = read_text(path)
    found = last if last is not None and (last.text, last.file) == (text, path) else parse_overrides(text, path)
    _last_overrides[:] = [(state, found)]
    return found


def find_overrides_file() -> str | None:
    """Return the path of the configured overrides file; without a setting, the default place if a file is there."""
    named = os.environ.get(OVERRIDES_VARIABLE) or _read_settings_file()
    if named == NO_FILE:
        return None
    return named or (DEFAULT_OVERRIDES if os.path.lexists(DEFAULT_OVERRIDES) else None)


def _read_settings_file() -> str:
    """Return `overrides` of canonry.toml; empty if there is no such file or key."""
    if not os.path.exists(SETTINGS_FILE):
        return ""
    state = _read_state(SETTINGS_FILE)
    if state is not None and _last_setting and _last_setting[0][0] == state:
        return _last_setting[0][1]
    from canonry.settings import load_settings

    named = load_settings(environ={}).overrides
    _last_setting[:] = [] if state is None else [(state, named)]
    return named


def _read_state(path: str) -> _State | None:
    """Return what changes with the content of a file; None if it cannot be found or changed a moment ago."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    if abs(time.time_ns() - found.st_mtime_ns) < _UNSETTLED_NANOSECONDS:
        return None
    return path, found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size
