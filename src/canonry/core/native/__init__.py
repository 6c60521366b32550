"""The fastest available `normalize`: in C if the extension was built, with a shortcut in Python otherwise.

Both give the answers of the reference (normalize.py), and call it for every URL that is not simple.
CANONRY_PURE=1 turns the C code off.
"""

from __future__ import annotations

try:
    from canonry.core.native._fast import canonical_hash, normalize, normalize_and_hash_many, normalize_many
except ImportError:
    from canonry.core.native.shortcut import canonical_hash, normalize, normalize_and_hash_many, normalize_many

CORE = "native" if normalize.__module__ == "canonry.core.native._fast" else "pure Python"
__all__ = ["CORE", "canonical_hash", "normalize", "normalize_and_hash_many", "normalize_many"]
