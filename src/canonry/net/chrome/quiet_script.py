"""The script that waits until a page has stopped adding elements and links (contract C4).

Time is counted in ticks of the page's own main thread: on a busy machine, or during a long script, they come later, so
that a page which had no chance to work does not count as quiet.
"""

from __future__ import annotations

import json

TICK_SECONDS = 0.1
QUIET_TICKS = 5
QUIET_SECONDS = QUIET_TICKS * TICK_SECONDS
MAX_TICKS = 50  # about 5 s after the load event
MAX_SCROLL_TICKS = 200
MAX_WAIT_SECONDS = 15.0  # on the clock, for a page whose main thread does not tick

# A page without scripts does not change after its load event, so it is quiet at once. Texts that change do not count
# (clocks, counters), and neither do attributes other than `href`. Shadow roots have to be observed one by one.
_FUNCTION = """((quietTicks, maxTicks, tickMs, selector, scrolls) => new Promise((resolve) => {
  const find = (query) => Document.prototype.querySelector.call(document, query);
  const findAll = (root, query) => (root === document ? Document : DocumentFragment).prototype
    .querySelectorAll.call(root, query);
  const hasScripts = () => find('script:not([type="application/ld+json" i]), iframe, frame, object, embed') !== null
    || Document.prototype.evaluate.call(
      document, "boolean(//@*[starts-with(name(), 'on')])", document, null, XPathResult.BOOLEAN_TYPE).booleanValue;
  if (selector) {
    try { find(selector); } catch { resolve(['invalid', 0]); return; }
  } else if (!scrolls && !hasScripts()) { resolve(['quiet', 0]); return; }
  let quiet = 0, ticks = 0, hasChanged = false, height = 0;
  const isChange = (record) => record.type === 'attributes'
    || [...record.addedNodes, ...record.removedNodes].some((node) => node.nodeType === 1);
  const observer = new MutationObserver((records) => { hasChanged ||= records.some(isChange); });
  const roots = new Set();
  const observe = (root) => {
    if (!roots.has(root)) {
      roots.add(root);
      hasChanged = true;
      observer.observe(root, {subtree: true, childList: true, attributes: true, attributeFilter: ['href']});
    }
    for (const element of findAll(root, '*')) if (element.shadowRoot) observe(element.shadowRoot);
  };
  observe(document);
  hasChanged = false;
  const end = (state) => { observer.disconnect(); resolve([state, ticks]); };
  const tick = () => {
    ticks += 1;
    if (scrolls) {
      const now = document.documentElement.scrollHeight;
      hasChanged ||= now > height;
      height = now;
      scrollTo(0, now);
    }
    quiet = hasChanged ? 0 : quiet + 1;
    hasChanged = false;
    if (selector && find(selector) !== null) return end('quiet');
    if (!selector && quiet >= quietTicks) {
      observe(document);
      if (!hasChanged) return end('quiet');
    }
    if (ticks >= maxTicks) return end('changing');
    setTimeout(tick, tickMs);
  };
  setTimeout(tick, tickMs);
}))"""


def make_quiet_script(*, max_ticks: int, selector: str, scrolls: bool) -> str:
    """Return the script; its result is `quiet`, `changing` or `invalid` (the selector), and the ticks that it took."""
    arguments = (QUIET_TICKS, max_ticks, TICK_SECONDS * 1000, selector, scrolls)
    return f"{_FUNCTION}({', '.join(json.dumps(argument) for argument in arguments)})"
