from collections.abc import Iterable

from typing_extensions import Buffer

from canonry.core.policy import Policy

SCANNING: str  # "avx2", or "plain" on other processors

def normalize(url: str, policy: Policy | str = "bookmark") -> str: ...
def normalize_many(urls: Iterable[str], policy: Policy | str = "bookmark") -> list[str | None]: ...
def normalize_and_hash_many(urls: Iterable[str], policy: Policy | str = "bookmark") -> list[tuple[str, str] | None]: ...
def canonical_hash(url: str, policy: Policy | str = "article@0") -> str: ...
def is_simple(url: str, policy: Policy | str = "bookmark") -> bool: ...
def normalize_column(
    policy: Policy | str,
    entry_size: int,
    start: int,
    rows: int,
    validity: Buffer | None,
    entries: Buffer,
    data: tuple[Buffer, ...],
    with_hash: bool,
    /,
) -> tuple[int, bytes, bytes, bytes, bytes | None, bytes | None]: ...
def simhash(text: str, /) -> int: ...
