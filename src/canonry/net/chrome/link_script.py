"""The script that reads the links of a page, and its result (contract C4)."""

from __future__ import annotations

import json
from dataclasses import dataclass

from canonry.net.engine import Link

MAX_LINKS = 10_000
_MAX_HREF_CHARACTERS = 100_000  # longer references hold data
_MAX_TOTAL_CHARACTERS = 8_000_000  # of all references together

# The script runs in an isolated world, where scripts of the page cannot redefine the functions that it calls. Elements
# of the page still hide properties of `document` (<img name=title> hides document.title), so these are read from the
# prototypes.
_FUNCTION = """((maxLinks, maxHref, maxTotal) => {
  const all = Document.prototype.querySelectorAll.call(document, 'a[href]');
  const get = (type, name) => Reflect.get(type.prototype, name, document);
  const links = [];
  let room = maxTotal, skipped = all.length;
  for (const a of all) {
    skipped -= 1;
    const href = a.getAttribute('href');
    if (href.length > maxHref) continue;
    let url = a.href;
    if (typeof url !== 'string') {
      if (!(a instanceof SVGElement)) continue;
      try { url = new URL(href, get(Node, 'baseURI')).href; } catch { continue; }
    }
    room -= href.length + url.length;
    if (room < 0 || links.length >= maxLinks) { skipped += 1; break; }
    const text = [...a.textContent.trim().slice(0, 100)].slice(0, 50).join('');
    links.push([href.toWellFormed(), url.toWellFormed(), text.toWellFormed()]);
  }
  const title = get(Document, 'title').slice(0, 1000).toWellFormed();
  return JSON.stringify([get(Document, 'readyState'), title, skipped, links]);
})"""
LINK_SCRIPT = f"{_FUNCTION}({MAX_LINKS}, {_MAX_HREF_CHARACTERS}, {_MAX_TOTAL_CHARACTERS})"


@dataclass(frozen=True, slots=True)
class ScriptResult:
    """What the script read from a document."""

    ready_state: str
    title: str
    skipped_links: int  # after the limits were reached
    links: tuple[Link, ...]


def parse_result(text: str) -> ScriptResult:
    """Return the JSON of the script as values."""
    ready_state, title, skipped_links, links = json.loads(text)
    title = " ".join(title.split())
    return ScriptResult(ready_state, title, skipped_links, tuple(Link(*link) for link in links))
