"""Keep bookmarks: each link once for each owner."""
