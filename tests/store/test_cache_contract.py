"""The contract of caches is one that two lines of a dict can keep."""

from __future__ import annotations

import asyncio

from canonry.store.cache import Cache  # noqa: TC001  # what is not imported is not there to be kept


class DictCache:
    """The least there can be."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}

    async def get(self, name: str) -> bytes | None:
        return self._values.get(name)

    async def set(self, name: str, value: bytes, seconds: float) -> None:
        self._values[name] = value

    async def close(self) -> None:
        self._values.clear()


def test_a_dict_is_a_cache() -> None:
    async def story(cache: Cache) -> list[bytes | None]:
        await cache.set("a", b"1", 60)
        found = [await cache.get("a"), await cache.get("b")]
        await cache.close()
        return [*found, await cache.get("a")]

    assert asyncio.run(story(DictCache())) == [b"1", None, None]
