from typing_extensions import Buffer

def hash_texts(rows: int, offsets: Buffer, data: Buffer, has_hosts: bool, /) -> tuple[bytes, bytes, bytes]: ...
def split(
    rows: int, offsets: Buffer, data: Buffer, sites: Buffer, kinds: int, choice: int, set_sites: Buffer,
    set_ids: Buffer, /,
) -> tuple[int, bytes, bytes, bytes, bytes, bytes]: ...  # fmt: skip
def find_varying(
    rows: int, offsets: Buffer, data: Buffer, sites: Buffer, groups: Buffer, kinds: int, choice: int,
    set_sites: Buffer, set_ids: Buffer, is_strict: bool, /,
) -> tuple[int, bytes, bytes, bytes, bytes, bytes]: ...  # fmt: skip
def make_keys(
    rows: int, offsets: Buffer, data: Buffer, sites: Buffer, set_sites: Buffer, set_ids: Buffer, /
) -> tuple[bytes, bytes, bytes]: ...
