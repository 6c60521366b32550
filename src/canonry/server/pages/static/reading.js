// For lists of items: keys, and items that are read once they are opened. The lists work without this file.
(() => {
  "use strict";

  const help = document.getElementById("keys");
  const used = document.getElementById("keys-used");
  const show = document.getElementById("show-keys");
  const SETTING = "canonry-keys";
  let current = "";  // the id of the row, because marking an item replaces its row

  const rows = () => [...document.querySelectorAll(".item")];
  const findRow = () => document.getElementById(current);
  const press = (row, name) => row.querySelector(`button[id^="${name}-"]`)?.click();
  const markRead = (row) => {
    if (!row.classList.contains("is-read")) {
      press(row, "read");
    }
  };

  const select = (row) => {
    if (!row) {
      return;
    }
    findRow()?.classList.remove("is-current");
    current = row.id;
    row.classList.add("is-current");
    row.querySelector(".open").focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
  };
  const move = (step) => {
    const all = rows();
    const position = all.findIndex((row) => row.id === current);
    select(all[position < 0 ? 0 : Math.min(all.length - 1, Math.max(0, position + step))]);
  };
  const open = (row) => {
    const link = row.querySelector("a.open");
    if (link) {
      window.open(link.href, "_blank", "noopener,noreferrer");
    }
    markRead(row);
  };

  const ACTIONS = {
    j: () => move(1),
    k: () => move(-1),
    o: () => findRow() && open(findRow()),
    m: () => findRow() && press(findRow(), "read"),
    s: () => findRow() && press(findRow(), "save"),
    "?": () => help.showModal(),
  };
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input, textarea, select, [contenteditable]");
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping || help.open) {
      return;
    }
    const act = ACTIONS[event.key];
    if (act && (used.checked || event.key === "?")) {
      event.preventDefault();
      act();
    }
  });

  for (const kind of ["click", "auxclick"]) {
    document.addEventListener(kind, (event) => {
      const row = event.target.closest("a.open")?.closest(".item");
      if (row && event.button < 2) {
        markRead(row);
      }
    });
  }
  document.addEventListener("focusin", (event) => {
    const row = event.target.closest(".item");
    if (row && row.id !== current) {
      findRow()?.classList.remove("is-current");
      current = row.id;
      row.classList.add("is-current");
    }
  });
  document.addEventListener("htmx:afterSettle", () => findRow()?.classList.add("is-current"));

  used.checked = localStorage.getItem(SETTING) !== "off";
  used.addEventListener("change", () => localStorage.setItem(SETTING, used.checked ? "on" : "off"));
  if (show) {
    show.hidden = false;
    show.addEventListener("click", () => help.showModal());
  }
})();
