// For all pages: times in the viewer's time zone, and a menu that closes. Pages work without this file.
(() => {
  "use strict";

  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone && !document.cookie.split("; ").some((each) => each.startsWith("canonry_zone="))) {
    // The server formats times in the zone of this cookie; only the first page is corrected here.
    const secure = location.protocol === "https:" ? "; secure" : "";
    document.cookie = `canonry_zone=${zone}; path=/; max-age=31536000; samesite=lax${secure}`;
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
})();
