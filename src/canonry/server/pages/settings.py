"""The settings in force and where each was set, for admins (contract U4)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from fastapi import Request, Response

from canonry.server.dependencies import get_service, require_admin
from canonry.server.pages.forms import page_router
from canonry.server.pages.rendering import render
from canonry.settings_report import SettingReport, format_setting, report_settings

router = page_router()


@dataclass(frozen=True, slots=True)
class SettingInForce:
    """A setting of the running service; `needs_restart` if the file or variable says something else by now."""

    report: SettingReport
    value: str
    needs_restart: bool


@router.get("/settings")
async def show_settings(request: Request) -> Response:
    require_admin(request)
    service = get_service(request)
    shown: list[SettingInForce] = []
    for report in await asyncio.to_thread(report_settings):
        value = format_setting(getattr(service.settings, report.setting))
        is_unset = report.setting == "overrides" and not value  # the report names the file that is used then
        differs = value != report.value and not is_unset
        shown.append(SettingInForce(report, report.value if is_unset else value, differs))
    return render(request, "settings.html", settings=shown, options=service.options)
