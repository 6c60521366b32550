"""The script that reads the links of a page, and its result (contract C4)."""

from __future__ import annotations

import json
from dataclasses import dataclass

from canonry.net.engine import Link, LinkSource
from canonry.net.links import MAX_LINKS, split_links
from canonry.net.page_facts import MAX_HEAD_ELEMENTS, PageHead, make_head

_MAX_HREF_CHARACTERS = 100_000  # longer references hold data
_MAX_TOTAL_CHARACTERS = 8_000_000  # of all references together
_MAX_HTML_CHARACTERS = 5_000_000

# The script runs in an isolated world, where scripts of the page cannot redefine the functions that it calls. Elements
# of the page still hide properties of `document` (<img name=title> hides document.title), so these are read from the
# prototypes. Links of other kinds than `a[href]` follow after these, in the same order as in links.py.
_FUNCTION = r"""((maxLinks, maxHref, maxTotal, maxHead, maxHtml) => {
  const get = (type, name, node = document) => Reflect.get(type.prototype, name, node);
  const findAll = (root, query) =>
    (root instanceof DocumentFragment ? DocumentFragment : Document).prototype.querySelectorAll.call(root, query);
  const xlink = 'http://www.w3.org/1999/xlink';
  const links = [];
  let room = maxTotal, skipped = 0, isFull = false;
  const cut = (text) => [...text.trim().slice(0, 100)].slice(0, 50).join('').toWellFormed();
  const add = (href, url, text, source, rel) => {
    room -= href.length + url.length;
    if (room < 0 || links.length >= maxLinks) { isFull = true; skipped += 1; return; }
    const isNofollow = /(^|[ \t\n\f\r])nofollow([ \t\n\f\r]|$)/i.test(rel ?? '');
    links.push([href.toWellFormed(), url.toWellFormed(), cut(text), source, isNofollow]);
  };
  const addElement = (element, href, text, source) => {
    if (isFull) { skipped += 1; return; }
    if (href.length > maxHref) return;
    let url = element.href;
    if (typeof url !== 'string') {
      if (!(element instanceof SVGElement)) return;
      try { url = new URL(href, get(Node, 'baseURI', element)).href; } catch { return; }
    }
    add(href, url, text ?? element.textContent, source, element.getAttribute('rel'));
  };
  const addFrame = (frame, source) => {
    let inner = null;
    try { inner = frame.contentDocument; } catch { return; }
    if (inner !== null && inner.URL.startsWith('about:')) { collect(inner, 'frame'); return; }
    const src = frame.getAttribute('src');
    if (src === null || src.length > maxHref) return;
    let url;
    try { url = new URL(src, get(Node, 'baseURI', frame)); } catch { return; }
    if (!/^https?:$/.test(url.protocol) || url.hostname !== location.hostname) return;
    if (isFull) skipped += 1; else add(src, url.href, frame.getAttribute('title') ?? '', source, null);
  };
  const collect = (root, source) => {
    for (const a of findAll(root, 'a[href]')) addElement(a, a.getAttribute('href'), null, source ?? 'anchor');
    for (const area of findAll(root, 'area[href]'))
      addElement(area, area.getAttribute('href'), area.getAttribute('alt') ?? '', source ?? 'area');
    for (const a of findAll(root, 'svg a:not([href])')) {
      const href = a.getAttributeNS(xlink, 'href');
      if (href !== null) addElement(a, href, null, source ?? 'svg');
    }
    for (const frame of findAll(root, 'iframe, frame')) addFrame(frame, source ?? 'frame');
    for (const element of findAll(root, '*')) if (element.shadowRoot) collect(element.shadowRoot, 'shadow');
  };
  collect(document, null);
  const title = get(Document, 'title').slice(0, 1000).toWellFormed();
  const attributes = (element, names) =>
    names.map((name) => (element.getAttribute(name) ?? '').slice(0, 4000).toWellFormed());
  const metas = [...findAll(document, 'head meta[name][content]')].slice(0, maxHead)
    .map((meta) => attributes(meta, ['name', 'content']));
  const headLinks = [...findAll(document, 'head link[rel][href]')].slice(0, maxHead)
    .filter((link) => typeof link.href === 'string' && link.getAttribute('href').trim() && link.href.length < 4000)
    .map((link) => {
      const [rel, hreflang] = attributes(link, ['rel', 'hreflang']);
      return [rel, link.href.toWellFormed(), hreflang];
    });
  const [entry] = performance.getEntriesByType('navigation');
  const size = entry && entry.decodedBodySize > 0 ? entry.decodedBodySize : null;
  const root = get(Document, 'documentElement');
  const html = root === null ? '' : get(Element, 'outerHTML', root).slice(0, maxHtml).toWellFormed();
  return JSON.stringify([get(Document, 'readyState'), title, skipped, links, metas, headLinks, size, html]);
})"""
_ARGUMENTS = (MAX_LINKS, _MAX_HREF_CHARACTERS, _MAX_TOTAL_CHARACTERS, MAX_HEAD_ELEMENTS, _MAX_HTML_CHARACTERS)
LINK_SCRIPT = f"{_FUNCTION}({', '.join(map(str, _ARGUMENTS))})"


@dataclass(frozen=True, slots=True)
class ScriptResult:
    """The result of the script for a document."""

    ready_state: str
    title: str
    skipped_links: int  # after the limits were reached
    links: tuple[Link, ...]
    added_links: tuple[Link, ...]
    head: PageHead
    size: int | None  # of the document, in bytes
    html: str  # as scripts have made it


def parse_result(text: str) -> ScriptResult:
    """Return the JSON of the script as values."""
    ready_state, title, skipped_links, links, metas, head_links, size, html = json.loads(text)
    title = " ".join(title.split())
    found = (Link(href, url, text, LinkSource(source), is_nofollow) for href, url, text, source, is_nofollow in links)
    head = make_head(metas, head_links)
    return ScriptResult(ready_state, title, skipped_links, *split_links(found), head, size, html)
