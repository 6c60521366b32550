"""normalize and its kin, natively where the C core was built and for URLs that are provably simple.

The reference (normalize.py) gives the same answers for every URL; CANONRY_PURE=1 leaves it to it.
"""

from __future__ import annotations

try:
    from canonry.core.native._fast import canonical_hash, normalize, normalize_and_hash_many, normalize_many
except ImportError:
    from canonry.core.native.shortcut import canonical_hash, normalize, normalize_and_hash_many, normalize_many

CORE = "native" if normalize.__module__ == "canonry.core.native._fast" else "pure Python"
__all__ = ["CORE", "canonical_hash", "normalize", "normalize_and_hash_many", "normalize_many"]
