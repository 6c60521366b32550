// For all pages: times in the viewer's time zone, a menu that closes, forms that are sent once, and errors of requests
// that htmx sends. Pages work without this file.
(() => {
  "use strict";

  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone && !document.cookie.split("; ").some((each) => each.startsWith("canonry_zone="))) {
    // The server formats times in the zone of this cookie; only the first page is corrected here.
    const secure = location.protocol === "https:" ? "; secure" : "";
    const root = new URL("..", document.currentScript.src).pathname.replace(/(.)\/$/, "$1");  // also of its other cookies
    document.cookie = `canonry_zone=${zone}; path=${root}; max-age=31536000; samesite=lax${secure}`;
    const day = { day: "numeric", month: "short" };
    const hour = { hour: "2-digit", minute: "2-digit" };
    const today = new Date();
    const chooseParts = (form, moment) => {
      if (form === "recent" && moment.toDateString() === today.toDateString()) {
        return hour;
      }
      if (form === "recent" && moment.getFullYear() === today.getFullYear()) {
        return day;
      }
      return { ...day, year: "numeric", ...(form === "time" ? hour : {}) };
    };
    for (const time of document.querySelectorAll("time[datetime]")) {
      const moment = new Date(time.dateTime);
      if (!Number.isNaN(moment.getTime())) {
        time.textContent = moment.toLocaleString("en-GB", chooseParts(time.dataset.form, moment));
      }
    }
    const note = document.getElementById("zone");
    if (note) {
      note.textContent = `Times are in ${zone}.`;
    }
  }

  const menu = document.getElementById("more");
  if (menu) {
    document.addEventListener("click", (event) => {
      if (!menu.contains(event.target)) {
        menu.open = false;
      }
    });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && menu.open) {
        menu.open = false;
        menu.querySelector("summary").focus();
      }
    });
  }

  const RESEND_MS = 3000;  // a second click within this time is a double click, not a second request
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method !== "post" || event.defaultPrevented) {
      return;
    }
    if (Date.now() - Number(form.dataset.sentAt || 0) < RESEND_MS) {
      event.preventDefault();
    } else {
      form.dataset.sentAt = Date.now();
    }
  });
  window.addEventListener("pageshow", () => {  // the way back to a page that the browser has kept
    for (const form of document.forms) {
      delete form.dataset.sentAt;
    }
  });

  const showFailure = (text) => {
    let note = document.getElementById("request-failed");
    if (!note) {
      note = document.createElement("div");
      note.id = "request-failed";
      note.className = "notice bad";
      note.setAttribute("role", "alert");
      note.append(document.createElement("p"));
      document.getElementById("main").prepend(note);
    }
    note.firstChild.textContent = text;
    note.scrollIntoView({ block: "nearest" });
  };
  document.addEventListener("htmx:sendError", () => {
    showFailure("The service did not answer. Check that it runs, then reload this page.");
  });
  document.addEventListener("htmx:responseError", (event) => {
    const { xhr } = event.detail;
    if (xhr.getResponseHeader("hx-redirect")) {
      return;  // the session has ended: htmx opens the sign-in page
    }
    const page = new DOMParser().parseFromString(xhr.responseText, "text/html");
    showFailure(page.querySelector("main p")?.textContent || `The service answered with an error (${xhr.status}).`);
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.successful) {
      document.getElementById("request-failed")?.remove();
    }
  });
})();
