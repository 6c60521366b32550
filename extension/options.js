// The options: asks the browser for access to the address, then tries the token before it is stored.

import { findBookmark, loadSettings } from "./server.js";

const element = (id) => document.getElementById(id);

async function start() {
  const settings = await loadSettings();
  element("address").value = settings.address;
  element("token").value = settings.token;
  element("checks-pages").checked = settings.checksPages;
  element("options").addEventListener("submit", async (event) => {
    event.preventDefault();
    const url = new URL(element("address").value);
    const changed = {
      address: url.href.replace(/\/+$/, ""),
      token: element("token").value.trim(),
      checksPages: element("checks-pages").checked,
    };
    try {
      const origins = [`${url.protocol}//${url.hostname}/*`];
      if (!(await chrome.permissions.request({ origins }))) {
        throw new Error(`Not saved: the browser did not allow access to ${url.hostname}.`);
      }
      await findBookmark(changed, "https://example.com/"); // fails if the address or the token is wrong
      await chrome.storage.local.set(changed);
      show("saved", "Saved. The service answers.");
    } catch (error) {
      show("failed", error.message);
    }
  });
}

function show(result, text) {
  element("result").dataset.result = result;
  element("result").textContent = text;
}

start();
