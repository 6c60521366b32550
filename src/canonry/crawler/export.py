"""Write the pages of a crawl as JSONL, CSV or Parquet, or its link graph as GraphML or DOT.

The extension chooses the format. A temporary file beside the target replaces it when it is complete.
"""

from __future__ import annotations

import csv
import json
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol
from xml.sax.saxutils import escape

from canonry.atomic_files import replace_file
from canonry.core.scope import Verdict
from canonry.crawler.pages import RECORD_FIELDS, make_record, mask_url

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

    from canonry.crawler.pages import Page

_ROW_GROUP_PAGES = 500  # of a Parquet file
# Characters that an XML document may not contain.
_NOT_XML = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 65534, 65535, *range(55296, 57344)), "�")


class PageWriter(Protocol):
    """Writes pages one by one."""

    def add(self, page: Page) -> None: ...

    def close(self) -> None: ...


@contextmanager
def open_writer(file: Path) -> Generator[PageWriter]:
    """Open a writer for a file, which is replaced when the block ends and does not change if the block fails."""
    with replace_file(file) as part:
        writer = _WRITERS[file.suffix.lower()](part)
        yield writer
        writer.close()


class _Jsonl:
    def __init__(self, file: Path) -> None:
        self._out = file.open("w", encoding="utf-8")

    def add(self, page: Page) -> None:
        self._out.write(f"{json.dumps(make_record(page))}\n")

    def close(self) -> None:
        self._out.close()


class _Csv:
    """One row for each page; links and external links as JSON."""

    def __init__(self, file: Path) -> None:
        self._out = file.open("w", encoding="utf-8", newline="")
        self._rows = csv.writer(self._out)
        self._rows.writerow(RECORD_FIELDS)

    def add(self, page: Page) -> None:
        record = make_record(page)
        self._rows.writerow([_escape_formula(record[name]) for name in RECORD_FIELDS])

    def close(self) -> None:
        self._out.close()


def _escape_formula(value: object) -> object:
    """Return a cell that no spreadsheet evaluates as a formula."""
    if isinstance(value, list):
        return json.dumps(value, ensure_ascii=False)
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


class _Parquet:
    def __init__(self, file: Path) -> None:
        pa: Any = import_module("pyarrow")
        pq: Any = import_module("pyarrow.parquet")
        names = ("href", "url", "text", "verdict", "reason", "source")
        links: Any = pa.list_(pa.struct([(name, pa.string()) for name in names]))
        texts: Any = pa.list_(pa.string())
        kinds: dict[str, Any] = {"status": pa.int32(), "depth": pa.int32(), "links": links, "external": links}
        kinds |= {"words": pa.int32(), "size": pa.int64(), "is_still_changing": pa.bool_()}
        kinds |= {"robots_directives": texts, "hreflangs": pa.list_(texts)}
        kinds |= {"hops": pa.list_(pa.struct([("status", pa.int32()), ("url", pa.string())]))}
        self._schema: Any = pa.schema([(name, kinds.get(name, pa.string())) for name in RECORD_FIELDS])
        self._table: Any = pa.Table
        self._out: Any = pq.ParquetWriter(file, self._schema)
        self._rows: list[Any] = []

    def add(self, page: Page) -> None:
        self._rows.append(make_record(page))
        if len(self._rows) >= _ROW_GROUP_PAGES:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._out.close()

    def _flush(self) -> None:
        self._out.write_table(self._table.from_pylist(self._rows, schema=self._schema))
        self._rows = []


class _Graph:
    """The link graph, with links to other sites; a link that a page repeats is one edge."""

    def __init__(self, file: Path, syntax: _GraphSyntax) -> None:
        self._out = file.open("w", encoding="utf-8", errors="replace")
        self._syntax = syntax
        self._numbers: dict[str, int] = {}
        self._pages: set[int] = set()
        self._out.write(syntax.begin)

    def add(self, page: Page) -> None:
        source = self._get_number(page.url)
        self._pages.add(source)
        self._out.write(self._syntax.node(source, mask_url(page.url), page.title, page.status, page.outcome))
        for target in dict.fromkeys(link.url for link in page.links if link.url and link.verdict is not Verdict.SKIP):
            self._out.write(self._syntax.edge(source, self._get_number(target)))

    def close(self) -> None:
        for url_without_scheme, number in self._numbers.items():
            if number not in self._pages:
                self._out.write(self._syntax.node(number, mask_url(f"https:{url_without_scheme}"), "", 0, ""))
        self._out.write(self._syntax.end)
        self._out.close()

    def _get_number(self, url: str) -> int:
        return self._numbers.setdefault(url.partition(":")[2], len(self._numbers))  # http and https are one page


@dataclass(frozen=True, slots=True)
class _GraphSyntax:
    """The syntax of a graph format."""

    begin: str
    node: Callable[[int, str, str, int, str], str]
    edge: Callable[[int, int], str]
    end: str


def _make_graphml_node(number: int, url: str, title: str, status: int, outcome: str) -> str:
    data = "".join(
        f'<data key="{key}">{escape(value.translate(_NOT_XML))}</data>'
        for key, value in (("url", url), ("title", title), ("status", str(status)), ("outcome", outcome))
    )
    return f'<node id="n{number}">{data}</node>\n'


def _make_dot_node(number: int, url: str, title: str, status: int, outcome: str) -> str:
    tooltip = f", tooltip={_quote(title)}" if title else ""
    look = "" if status else ", style=dashed"
    kind = f", class={outcome}" if outcome else ""
    return f"  n{number} [label={_quote(url)}{tooltip}{look}{kind}];\n"


def _quote(text: str) -> str:
    plain = "".join(character if character.isprintable() else " " for character in text)
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'


_GRAPHML = _GraphSyntax(
    '<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
    '<key id="url" for="node" attr.name="url" attr.type="string"/>\n'
    '<key id="title" for="node" attr.name="title" attr.type="string"/>\n'
    '<key id="status" for="node" attr.name="status" attr.type="int"/>\n'
    '<key id="outcome" for="node" attr.name="outcome" attr.type="string"/>\n'
    '<graph edgedefault="directed">\n',
    _make_graphml_node,
    lambda source, target: f'<edge source="n{source}" target="n{target}"/>\n',
    "</graph>\n</graphml>\n",
)
_DOT = _GraphSyntax("digraph site {\n", _make_dot_node, lambda source, target: f"  n{source} -> n{target};\n", "}\n")
_WRITERS: dict[str, Callable[[Path], PageWriter]] = {
    ".jsonl": _Jsonl,
    ".csv": _Csv,
    ".parquet": _Parquet,
    ".graphml": partial(_Graph, syntax=_GRAPHML),
    ".dot": partial(_Graph, syntax=_DOT),
}
