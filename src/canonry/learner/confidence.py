"""How confident the learner is of a rule (contract L2)."""

from __future__ import annotations

import math

# The share of a feature's contents that may be in conflicts before the feature is taken away.
TOLERATED = 0.002
_Z = 1.96


def compute_confidence(support: int, against: int) -> float:
    """Return the lower bound of the Wilson interval (95 %): 16 contents give 0.80, 73 give 0.95."""
    n = support + against
    if n == 0:
        return 0.0
    share, z2 = support / n, _Z * _Z
    spread = _Z * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return max(0.0, (share + z2 / (2 * n) - spread) / (1 + z2 / n))
