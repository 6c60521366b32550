"""The service: bookmarks and all the rest over HTTP."""
