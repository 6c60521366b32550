"""A dedupe job in plain Python as the reference for canonry bulk, and input files for both."""

from __future__ import annotations

import hashlib
import random
from typing import TYPE_CHECKING, Any

from benchmarks.corpus import make_dirty_urls, make_urls

import canonry
import corpora

if TYPE_CHECKING:
    from pathlib import Path


def dedupe(files: list[Path], policy: str = "bookmark") -> list[dict[str, Any]]:
    """Return the rows of a dedupe over text files."""
    found: dict[str, dict[str, Any]] = {}
    for file in sorted(files, key=str):
        for row, raw in enumerate(file.read_bytes().split(b"\n"), 1):
            try:
                variant = raw.removesuffix(b"\r").decode()
                url = canonry.normalize(variant, policy)
            except ValueError:  # not UTF-8 or not a URL
                continue
            key = hashlib.sha256(url.encode()).hexdigest()
            first = {"first_variant": variant, "first_file": str(file), "first_row": row}
            found.setdefault(key, {"url": url, "canonical_hash": key, "count": 0, **first})["count"] += 1
    return [found[key] for key in sorted(found)]


def make_mixed_lines(count: int, seed: int = 1) -> list[bytes]:
    """Return lines of all kinds: clean, dirty, awkward, broken, empty, not UTF-8; about a third of them repeated."""
    choose = random.Random(seed)
    known = [*make_urls(count // 3, seed), *make_dirty_urls(count // 4, seed)]
    texts = [
        *known,
        *(corpora.build_url(choose) for _ in range(count // 20)),
        *(corpora.mutate_url(choose, choose.choice(known)) for _ in range(count // 20)),
        *(corpora.make_random_text(choose) for _ in range(count // 50)),
    ]
    lines = [text.replace("\n", "").encode("utf-8", "surrogatepass") for text in texts]
    lines += [b"", b"\r", b"https://a.com/\xff", b"https://a.com/\x00b", b"\xed\xa0\x80", b"https://a.com/x\r"]
    lines += choose.choices(lines, k=max(0, count - len(lines)))
    choose.shuffle(lines)
    return lines


def write_lines(folder: Path, lines: list[bytes], files: int) -> list[Path]:
    """Distribute the lines over `files` text files; the last one has no line break at its end."""
    paths = [folder / f"urls-{number}.txt" for number in range(files)]
    for number, path in enumerate(paths):
        path.write_bytes(b"\n".join(lines[number::files]) + (b"\n" if number + 1 < files else b""))
    return paths
