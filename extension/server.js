// Requests to the canonry service of the user. The token is sent to its address only.

export const DEFAULT_ADDRESS = "http://127.0.0.1:8000";
const MAX_URL_CHARACTERS = 4000; // servers limit the length of a request
const TIMEOUT_MILLISECONDS = 15000;

/** Thrown if the service gave no answer that can be used; `message` says what to do. */
export class ServerError extends Error {}

/** The settings of the options page, with defaults. */
export async function loadSettings() {
  const { address, token, checksPages } = await chrome.storage.local.get(["address", "token", "checksPages"]);
  return { address: address || DEFAULT_ADDRESS, token: token || "", checksPages: checksPages !== false };
}

/** The bookmark of the page at a URL, under any spelling; null if it is not saved. */
export async function findBookmark(settings, url) {
  const [found] = await send(settings, "GET", `/api/bookmarks?url=${encodeURIComponent(url)}`);
  return found || null;
}

/** Save a page. A saved bookmark, also one of another URL that is proven to show the page, gets the new tags. */
export async function saveBookmark(settings, { url, title, tags }) {
  const known = await findBookmark(settings, url);
  const saved = known || (await send(settings, "PUT", "/api/bookmarks", { url, title, tags }));
  const missing = tags.filter((tag) => !saved.tags.includes(tag));
  if (saved.outcome === "created" || !missing.length) {
    return saved;
  }
  const changed = await send(settings, "PUT", `/api/bookmarks/${saved.id}`, { tags: [...saved.tags, ...missing] });
  return { ...changed, outcome: "updated" };
}

/** The URL without tracking parameters, in its normal form. */
export async function cleanUrl(settings, url) {
  return (await send(settings, "POST", "/api/normalize", { url })).url;
}

/** Whether a page can be saved: http and https, not too long, and no page of the service itself. */
export function isSavable(settings, url) {
  if (!/^https?:/i.test(url) || url.length > MAX_URL_CHARACTERS) {
    return false;
  }
  const page = new URL(url);
  const service = new URL(settings.address);
  const folder = service.pathname.replace(/\/+$/, "");
  return page.origin !== service.origin || !`${page.pathname}/`.startsWith(`${folder}/`);
}

async function send(settings, method, path, body) {
  if (!settings.token) {
    throw new ServerError("Open the options and enter a token.");
  }
  const headers = { Authorization: `Bearer ${settings.token}` };
  if (body !== undefined) {
    headers["Content-Type"] = "application/json";
  }
  let response;
  try {
    response = await fetch(settings.address.replace(/\/+$/, "") + path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "omit",
      redirect: "error", // the token must not go elsewhere
      cache: "no-store",
      signal: AbortSignal.timeout(TIMEOUT_MILLISECONDS),
    });
  } catch {
    throw new ServerError(`No answer from ${settings.address}. Is canonry running there?`);
  }
  if (response.status === 401) {
    throw new ServerError("The token is not valid. Enter a new one in the options.");
  }
  if (!response.ok) {
    const problem = await response.json().catch(() => ({}));
    throw new ServerError(problem.detail || `The service answered with status ${response.status}.`);
  }
  return response.json();
}
