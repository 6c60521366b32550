// The badge: a check mark if the page of a tab is saved, an exclamation mark if the service cannot be asked.

import { findBookmark, isSavable, loadSettings } from "./server.js";

const SAVED = { text: "✓", color: "#1a7f37", title: "canonry: this page is saved" };
const UNKNOWN = { text: "!", color: "#9a6700", title: "canonry: " };
const NOT_SAVED = { text: "", color: "#1a7f37", title: "canonry: save this page" };

async function updateBadge(tabId, url) {
  const settings = await loadSettings();
  if (!settings.checksPages || !settings.token || !isSavable(settings, url)) {
    await showBadge(tabId, url, NOT_SAVED);
    return;
  }
  try {
    const bookmark = await findBookmark(settings, url);
    const title = bookmark && bookmark.url !== url ? `${SAVED.title} as ${bookmark.url}` : SAVED.title;
    await showBadge(tabId, url, bookmark ? { ...SAVED, title } : NOT_SAVED);
  } catch (error) {
    await showBadge(tabId, url, { ...UNKNOWN, title: UNKNOWN.title + error.message });
  }
}

async function showBadge(tabId, url, { text, color, title }) {
  const tab = await chrome.tabs.get(tabId).catch(() => null);
  if (tab === null || tab.url !== url) {
    return; // closed, or on another page by now, which has its own answer
  }
  await chrome.action.setBadgeBackgroundColor({ tabId, color });
  await chrome.action.setBadgeText({ tabId, text });
  await chrome.action.setTitle({ tabId, title });
}

async function updateActiveTabs() {
  for (const tab of await chrome.tabs.query({ active: true })) {
    await updateBadge(tab.id, tab.url || "");
  }
}

chrome.tabs.onUpdated.addListener((tabId, change, tab) => {
  if (change.url || change.status === "complete") {
    updateBadge(tabId, tab.url || "");
  }
});
chrome.tabs.onActivated.addListener(async ({ tabId }) => {
  const tab = await chrome.tabs.get(tabId).catch(() => null);
  if (tab !== null) {
    await updateBadge(tabId, tab.url || "");
  }
});
chrome.runtime.onMessage.addListener(({ changedTab }) => {
  if (changedTab) {
    updateBadge(changedTab.id, changedTab.url);
  }
});
chrome.storage.onChanged.addListener(updateActiveTabs);
chrome.runtime.onInstalled.addListener(({ reason }) => {
  if (reason === "install") {
    chrome.runtime.openOptionsPage();
  }
});
