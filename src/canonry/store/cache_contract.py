"""What may be forgotten at any time: the contract of every cache."""

from __future__ import annotations

from typing import Protocol


class Cache(Protocol):
    """Bytes under a name, for a while; tests/contracts/test_cache.py holds every implementation to this.

    - A value is gone after its seconds, or earlier: losing one costs time, nothing else.
    - What comes back need not be what was stored: others can write there. Whoever reads it checks it.
    - A broken backend raises nothing: `get` finds nothing, `set` does nothing, and a warning says so in the
      log `canonry.cache`, once a minute at most.
    - No call waits longer than 100 ms. A backend that gave no answer is not asked for the next second.
    """

    async def get(self, name: str) -> bytes | None:
        """The value, or None where there is none, any longer or at all."""
        ...

    async def set(self, name: str, value: bytes, seconds: float) -> None:
        """Keep a value for so long, in place of the one before."""
        ...

    async def close(self) -> None:
        """Let go of connections; nothing is asked afterwards."""
        ...
