"""Load the usage statistics that the admin API and the statistics page show."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from canonry.bookmarks.usage import Usage, summarize_usage

if TYPE_CHECKING:
    from canonry.server.service import Service


async def load_usage(service: Service, days: int) -> Usage:
    """Return what was counted in the last `days` days, the current hour included."""
    await service.bookmarks.statistics.flush()
    now = service.clock()
    since = now - timedelta(days=days)
    counts = await service.bookmarks.statistics.get_hourly(since)
    return await asyncio.to_thread(summarize_usage, counts, since, now)
