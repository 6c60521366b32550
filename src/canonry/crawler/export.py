"""Files a crawl is written to, by their extension: pages as JSONL, CSV or Parquet, the link graph as GraphML or DOT.

Each is written beside its place and moved there when it is whole.
"""

from __future__ import annotations

import csv
import json
import os
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from xml.sax.saxutils import escape

from canonry.crawler.pages import RECORD_FIELDS, make_record

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from canonry.crawler.pages import Page

_BATCH = 500  # pages of a Parquet row group
# What no XML document may contain.
_NO_XML = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 65534, 65535, *range(55296, 57344)), "�")


class PageWriter(Protocol):
    """Takes the pages one by one."""

    def add(self, page: Page) -> None: ...

    def close(self) -> None: ...


@contextmanager
def open_writer(file: Path) -> Generator[PageWriter]:
    """A writer for the file, which is replaced when all is written and left alone if not."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    os.close(handle)
    part = Path(name)
    try:
        writer = _WRITERS[file.suffix.lower()](part)
        yield writer
        writer.close()
        mask = os.umask(0)
        os.umask(mask)
        part.chmod(0o666 & ~mask)
        part.replace(file)
    finally:
        with suppress(FileNotFoundError):
            part.unlink()


class _Jsonl:
    def __init__(self, file: Path) -> None:
        self._out = file.open("w", encoding="utf-8")

    def add(self, page: Page) -> None:
        self._out.write(f"{json.dumps(make_record(page))}\n")

    def close(self) -> None:
        self._out.close()


class _Csv:
    """One row a page; links and externals as their numbers and as JSON."""

    def __init__(self, file: Path) -> None:
        self._out = file.open("w", encoding="utf-8", newline="")
        self._rows = csv.writer(self._out)
        self._rows.writerow(RECORD_FIELDS)

    def add(self, page: Page) -> None:
        record = make_record(page)
        self._rows.writerow([_cell(record[name]) for name in RECORD_FIELDS])

    def close(self) -> None:
        self._out.close()


def _cell(value: object) -> object:
    """A cell that no spreadsheet takes for a formula."""
    if isinstance(value, list):
        return json.dumps(value, ensure_ascii=False)
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


class _Parquet:
    def __init__(self, file: Path) -> None:
        pa: Any = import_module("pyarrow")
        pq: Any = import_module("pyarrow.parquet")
        link: Any = pa.struct([(name, pa.string()) for name in ("href", "url", "text", "verdict", "reason")])
        kinds: dict[str, Any] = {"status": pa.int32(), "depth": pa.int32(), "links": pa.list_(link)}
        kinds["external"] = kinds["links"]
        self._schema: Any = pa.schema([(name, kinds.get(name, pa.string())) for name in RECORD_FIELDS])
        self._table: Any = pa.Table
        self._out: Any = pq.ParquetWriter(file, self._schema)
        self._rows: list[Any] = []

    def add(self, page: Page) -> None:
        self._rows.append(make_record(page))
        if len(self._rows) >= _BATCH:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._out.close()

    def _flush(self) -> None:
        self._out.write_table(self._table.from_pylist(self._rows, schema=self._schema))
        self._rows = []


class _Graph:
    """Pages and the links between them, other sites included; one edge however often a link stands on a page."""

    def __init__(self, file: Path, form: _GraphForm) -> None:
        self._out = file.open("w", encoding="utf-8", errors="replace")
        self._form = form
        self._numbers: dict[str, int] = {}
        self._pages: set[int] = set()
        self._out.write(form.begin)

    def add(self, page: Page) -> None:
        source = self._number(page.url)
        self._pages.add(source)
        self._out.write(self._form.node(source, page.url, page.title, page.status))
        for target in dict.fromkeys(link.url for link in page.links if link.url and link.verdict != "skip"):
            self._out.write(self._form.edge(source, self._number(target)))

    def close(self) -> None:
        for place, number in self._numbers.items():
            if number not in self._pages:
                self._out.write(self._form.node(number, f"https:{place}", "", 0))
        self._out.write(self._form.end)
        self._out.close()

    def _number(self, url: str) -> int:
        return self._numbers.setdefault(url.partition(":")[2], len(self._numbers))  # http and https are one page


@dataclass(frozen=True, slots=True)
class _GraphForm:
    """How a graph is spelled."""

    begin: str
    node: Callable[[int, str, str, int], str]
    edge: Callable[[int, int], str]
    end: str


def _graphml_node(number: int, url: str, title: str, status: int) -> str:
    data = "".join(
        f'<data key="{key}">{escape(value.translate(_NO_XML))}</data>'
        for key, value in (("url", url), ("title", title), ("status", str(status)))
    )
    return f'<node id="n{number}">{data}</node>\n'


def _dot_node(number: int, url: str, title: str, status: int) -> str:
    look = f", tooltip={_quoted(title)}" if title else ""
    return f"  n{number} [label={_quoted(url)}{look}{'' if status else ', style=dashed'}];\n"


def _quoted(text: str) -> str:
    plain = "".join(character if character.isprintable() else " " for character in text)
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'


_GRAPHML = _GraphForm(
    '<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
    '<key id="url" for="node" attr.name="url" attr.type="string"/>\n'
    '<key id="title" for="node" attr.name="title" attr.type="string"/>\n'
    '<key id="status" for="node" attr.name="status" attr.type="int"/>\n'
    '<graph edgedefault="directed">\n',
    _graphml_node,
    lambda source, target: f'<edge source="n{source}" target="n{target}"/>\n',
    "</graph>\n</graphml>\n",
)
_DOT = _GraphForm("digraph site {\n", _dot_node, lambda source, target: f"  n{source} -> n{target};\n", "}\n")
_WRITERS: dict[str, Callable[[Path], PageWriter]] = {
    ".jsonl": _Jsonl,
    ".csv": _Csv,
    ".parquet": _Parquet,
    ".graphml": partial(_Graph, form=_GRAPHML),
    ".dot": partial(_Graph, form=_DOT),
}
