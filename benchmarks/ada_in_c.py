"""Measure ada without Python: a loop in C over an Arrow column, around the parser of the `ada_url` package.

It parses each URL, copies its href to one buffer and its end to another. The buffers are allocated before the
clock starts; those of canonry are not.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sysconfig
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_SOURCE = r"""
#include <stddef.h>
#include <stdint.h>
#include <string.h>
typedef void *ada_url;
typedef struct { const char *data; size_t length; } ada_string;
ada_url ada_parse(const char *, size_t);
ada_string ada_get_href(ada_url);
void ada_free(ada_url);

int32_t hrefs(const char *urls, const int32_t *ends, int64_t count, char *out, int32_t *out_ends) {
    int32_t written = 0;
    for (int64_t n = 0; n < count; n++) {
        ada_url url = ada_parse(urls + ends[n], (size_t)(ends[n + 1] - ends[n]));
        ada_string href = ada_get_href(url);
        memcpy(out + written, href.data, href.length);
        written += (int32_t)href.length;
        out_ends[n + 1] = written;
        ada_free(url);
    }
    return written;
}
"""


def compile_loop() -> Callable[[Any], int] | None:
    """Return a function that parses an Arrow string array and counts the bytes of all hrefs, or None."""
    compiler = shutil.which((sysconfig.get_config_var("CC") or "cc").split()[0])
    ada = find_spec("ada_url")
    found = [*Path(ada.origin).parent.glob("*.so")] if ada is not None and ada.origin else []
    if compiler is None or not found:
        return None
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "hrefs.c"), Path(folder, "hrefs.so")
        source.write_text(_SOURCE)
        subprocess.run([compiler, "-O3", "-shared", "-fPIC", source, "-o", library], check=True)
        ctypes.CDLL(str(found[0]), mode=ctypes.RTLD_GLOBAL)
        hrefs = ctypes.CDLL(str(library)).hrefs
    space: dict[str, Any] = {"size": 0}

    def run(column: Any) -> int:
        _, ends, urls = column.buffers()
        if space["size"] < urls.size + 64 * len(column):
            space["size"] = 2 * urls.size + 64 * len(column)  # escapes make an href a little longer
            space["out"] = ctypes.create_string_buffer(space["size"] * 3)
            space["ends"] = (ctypes.c_int32 * (len(column) + 1))()
        if len(space["ends"]) <= len(column):
            space["ends"] = (ctypes.c_int32 * (len(column) + 1))()
        first = ends.address + 4 * column.offset
        return int(
            hrefs(
                ctypes.c_void_p(urls.address),
                ctypes.c_void_p(first),
                ctypes.c_int64(len(column)),
                space["out"],
                space["ends"],
            )
        )

    return run
