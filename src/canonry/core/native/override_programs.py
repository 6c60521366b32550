"""Convert overrides to the bytes that native/overrides.c reads (the layout is in overrides.h)."""

from __future__ import annotations

from canonry.core.override_rules import PLACES, HostRules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from canonry.core.overrides import Override, Overrides

# The flags of overrides.h.
_HAS_RULES, _STRIP_SLASH, _SORT, _HTTP, _HTTPS = 1, 2, 4, 64, 128
_LOWER: dict[str, int] = dict(zip(PLACES, (8, 16, 32), strict=True))


def make_override_programs(overrides: Overrides) -> dict[bytes, bytes] | None:
    """Make the bytes of each host; None if a list or a text is too long."""
    try:
        return {host.encode(): _make_program(override) for host, override in overrides.by_host.items()}
    except OverflowError:
        return None


def _make_program(override: Override) -> bytes:
    rules = override.rules or HostRules()
    flags = _HAS_RULES if override.rules else 0
    flags |= (_STRIP_SLASH if rules.strip_trailing_slash else 0) | (_SORT if rules.sort_params else 0)
    flags |= {None: 0, "http": _HTTP, "https": _HTTPS}[rules.scheme]
    flags |= sum(_LOWER[place] for place in rules.lower_case)
    lists: tuple[Iterable[str], ...] = (
        [rules.host] if rules.host else [],
        _lower_names(override.drop_query_params),
        [text for rewrite in override.rewrites for text in (rewrite.from_prefix, rewrite.to_prefix)],
        [text for folder, names in rules.drop_below for text in (folder, "&".join(_lower_names(names)))],
        [text for path, names in rules.drop_at for text in (path, "&".join(_lower_names(names)))],
        rules.drop_values,
        rules.drop_path_params,
        [place[0] + segment for place, segment in rules.drop_segments],
        [place[0] + shape for place, shape in rules.drop_shapes],
        rules.drop_extensions,
        [slug.kind[0] + slug.path for slug in rules.slugs],
        [text for move in rules.query_to_path for text in (move.path, move.param, move.to)],
    )
    return bytes([flags]) + b"".join(map(_pack, lists))


def _lower_names(names: tuple[str, ...]) -> list[str]:
    return [name.encode().lower().decode() for name in names]  # ASCII letters only, as rules.py does


def _pack(texts: Iterable[str]) -> bytes:
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    return _pack_number(len(encoded)) + b"".join(_pack_number(len(text)) + text for text in encoded)


def _pack_number(number: int) -> bytes:
    return number.to_bytes(2, "little")
