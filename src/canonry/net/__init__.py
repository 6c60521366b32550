"""How canonry reaches the web safely."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from canonry.net import guard as guard


def __getattr__(name: str) -> object:
    """Load `canonry.net.guard` at its first use, also if another module of this package was loaded before."""
    if name != "guard":
        raise AttributeError(f"module 'canonry.net' has no attribute {name!r}")
    from importlib import import_module

    return import_module("canonry.net.guard")
