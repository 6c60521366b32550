"""The settings in force, where each was set, and its purpose: for `canonry config` and the settings page."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, cast

from canonry.errors import mask_credentials
from canonry.overrides_setting import find_overrides_file
from canonry.settings import SETTING_DESCRIPTIONS, Settings, name_variable, read_given_settings

if TYPE_CHECKING:
    from collections.abc import Collection


@dataclass(frozen=True, slots=True)
class SettingReport:
    """A setting; passwords in its value are masked, and `source` is the file or variable that set it."""

    setting: str
    value: str
    source: str
    variable: str
    meaning: str


def report_settings() -> list[SettingReport]:
    """Return every setting as the files and variables of this moment set it."""
    given, defaults = read_given_settings(), Settings()
    reports: list[SettingReport] = []
    for each in fields(Settings):
        value, source = given.get(each.name, (getattr(defaults, each.name), "default"))
        if each.name == "overrides" and not value:
            value = find_overrides_file() or ""
        reports.append(
            SettingReport(
                each.name, format_setting(value), source, name_variable(each.name), SETTING_DESCRIPTIONS[each.name]
            )
        )
    return reports


def format_setting(value: object) -> str:
    """Return the value as it would be set, with passwords masked."""
    if value is None:
        return ""
    if isinstance(value, range):
        return f"{value[0]}-{value[-1]}"
    if isinstance(value, tuple | frozenset):
        return ", ".join(map(str, sorted(cast("Collection[Any]", value))))
    return mask_credentials(str(value))
