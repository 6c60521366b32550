"""The navigation of all pages: a row of at most six entries, and a menu for the rest."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NavigationEntry:
    """A link of the navigation; it is current on its page and on the pages below it."""

    path: str
    name: str
    is_for_admins: bool = False

    def is_current(self, path: str) -> bool:
        return path == self.path or path.startswith(f"{self.path}/")


ROW = (
    NavigationEntry("/read", "Read"),
    NavigationEntry("/feeds", "Feeds"),
    NavigationEntry("/bookmarks", "Library"),
    NavigationEntry("/add", "Save"),
)
MENU = (
    NavigationEntry("/duplicates", "Duplicates"),
    NavigationEntry("/import", "Import & export"),
    NavigationEntry("/explain", "Explain a URL"),
    NavigationEntry("/resolve", "Resolve a page"),
    NavigationEntry("/canonicalize", "Canonicalize a feed"),
    NavigationEntry("/crawls", "Crawls", is_for_admins=True),
    NavigationEntry("/admin", "Statistics", is_for_admins=True),
    NavigationEntry("/learned", "Learned rules", is_for_admins=True),
    NavigationEntry("/account", "Account"),
    NavigationEntry("/settings", "Settings", is_for_admins=True),
    NavigationEntry("/tour", "Tour"),
    NavigationEntry("/bookmarklet", "Bookmarklet"),
    NavigationEntry("/rules", "Rules"),
    NavigationEntry("/reference", "API"),
    NavigationEntry("/about", "About"),
)


def list_entries(entries: tuple[NavigationEntry, ...], *, is_admin: bool) -> list[NavigationEntry]:
    """Return the entries that a user may open."""
    return [entry for entry in entries if is_admin or not entry.is_for_admins]
