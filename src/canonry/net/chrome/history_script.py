"""The script that keeps a page from going back to the page that the tab showed before.

`history.back()` does nothing in a tab that a person has just opened. Our tabs show one page after the other: the page
would lead to another one, and be recorded as if it redirected there. Entries that it has added itself can be left.
"""

from __future__ import annotations

HISTORY_SCRIPT = """
(() => {
  const first = history.length;
  const { back, go } = History.prototype;
  History.prototype.back = function () {
    if (this.length > first) back.call(this);
  };
  History.prototype.go = function (delta) {
    if (!(delta < 0) || this.length + Math.ceil(delta) >= first) go.call(this, ...arguments);
  };
})();
"""
