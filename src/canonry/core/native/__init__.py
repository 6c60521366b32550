"""The fastest available `normalize` and `simhash`: in C if the extension was built, in Python otherwise.

Both give the answers of the reference (normalize.py, simhash.py), and call it for every URL that is not simple.
CANONRY_PURE=1 turns the C code off.
"""

from __future__ import annotations

try:
    from canonry.core.native._fast import canonical_hash, normalize, normalize_and_hash_many, normalize_many, simhash
except ImportError:
    from canonry.core.native.shortcut import canonical_hash, normalize, normalize_and_hash_many, normalize_many
    from canonry.core.simhash import simhash

CORE = "native" if normalize.__module__ == "canonry.core.native._fast" else "pure Python"
__all__ = ["CORE", "canonical_hash", "normalize", "normalize_and_hash_many", "normalize_many", "simhash"]
