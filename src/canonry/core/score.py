"""Score how clean a URL is, to choose between URLs of the same feed (contract F7)."""

from __future__ import annotations

from dataclasses import dataclass, fields

from canonry.core.presets import policy
from canonry.core.rules import make_name_matcher
from canonry.core.url import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Score:
    """The points of a URL, by part; `total` is their sum, and higher is cleaner."""

    total: float
    https: float
    no_www: float
    no_trailing_slash: float
    few_params: float
    no_tracking: float
    no_userinfo: float
    no_fragment: float
    short: float

    def parts(self) -> dict[str, float]:
        """Return the points of every part by name."""
        return {part.name: getattr(self, part.name) for part in fields(self) if part.name != "total"}


def score(url: str, *, tracking_params: Iterable[str] | None = None) -> Score:
    """Score a URL; `tracking_params` replaces the list of the feed policies."""
    parts = parse(url)
    names = policy("feed-aggressive").strip_params if tracking_params is None else tuple(tracking_params)
    is_tracking = make_name_matcher(names)
    params = [param for param in (parts.query or "").split("&") if param]
    points = {
        "https": 100.0 if parts.scheme == "https" else 0.0,
        "no_www": 0.0 if parts.host.startswith("www.") else 50.0,
        "no_trailing_slash": 20.0 if parts.path == "/" or not parts.path.endswith("/") else 0.0,
        "few_params": max(0.0, 30.0 - 5 * len(params)),
        "no_tracking": 0.0 if any(is_tracking(param) for param in params) else 25.0,
        "no_userinfo": 15.0 if parts.userinfo is None else 0.0,
        "no_fragment": 10.0 if parts.fragment is None else 0.0,
        "short": max(0.0, (200 - len(url)) / 10),
    }
    return Score(total=sum(points.values()), **points)
