// The popup: Enter saves the page with the tags that were typed.

import { cleanUrl, findBookmark, isSavable, loadSettings, saveBookmark } from "./server.js";

const element = (id) => document.getElementById(id);

/** The tab to save: the one that the address of this page names, else the active one. */
async function findTab() {
  const id = new URLSearchParams(location.search).get("tab");
  if (id !== null) {
    return chrome.tabs.get(Number(id));
  }
  const [tab] = await chrome.tabs.query({ active: true, currentWindow: true });
  return tab;
}

function showBookmark(settings, tab, bookmark) {
  const states = { created: "Saved", updated: "Tags added", no_change: "Already saved" };
  element("state").textContent = bookmark ? states[bookmark.outcome || "no_change"] : "Not saved yet";
  element("saved-as").hidden = !bookmark || bookmark.url === tab.url;
  element("edit").hidden = !bookmark;
  if (bookmark) {
    element("saved-as").textContent = `as ${bookmark.url}`;
    element("edit").href = `${settings.address.replace(/\/+$/, "")}/bookmarks/${bookmark.id}/edit`;
    element("tags").value ||= bookmark.tags.join(", "); // what was typed meanwhile stays
    element("submit").textContent = "Add tags";
  }
}

async function run(work) {
  element("error").hidden = true;
  try {
    await work();
  } catch (error) {
    element("error").textContent = error.message;
    element("error").hidden = false;
  }
}

async function start() {
  const settings = await loadSettings();
  const tab = await findTab();
  if (!tab || !isSavable(settings, tab.url || "")) {
    element("state").textContent = "This page cannot be saved";
    element("save").hidden = true;
    return;
  }
  element("save").addEventListener("submit", (event) => {
    event.preventDefault();
    run(async () => {
      const tags = element("tags").value.split(",").map((tag) => tag.trim()).filter(Boolean);
      showBookmark(settings, tab, await saveBookmark(settings, { url: tab.url, title: tab.title || "", tags }));
      await chrome.runtime.sendMessage({ changedTab: { id: tab.id, url: tab.url } });
    });
  });
  element("copy").addEventListener("click", () =>
    run(async () => {
      await navigator.clipboard.writeText(await cleanUrl(settings, tab.url));
      element("copy").textContent = "Copied";
    }),
  );
  await run(async () => {
    showBookmark(settings, tab, await findBookmark(settings, tab.url));
  });
}

start();
