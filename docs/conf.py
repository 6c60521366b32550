"""How `make docs` builds the pages: Markdown by MyST, nothing generated behind our backs."""

project = "canonry"
extensions = ["myst_parser"]
html_theme = "furo"
exclude_patterns: list[str] = []
myst_heading_anchors = 3
suppress_warnings = ["myst.xref_missing"]  # links to files beside docs/; a test follows every one
