"""Configure Sphinx for `make docs`: Markdown pages with MyST."""

project = "canonry"
extensions = ["myst_parser"]
html_theme = "furo"
exclude_patterns: list[str] = []
myst_heading_anchors = 3
suppress_warnings = ["myst.xref_missing"]  # links to files outside of docs/; tests/docs checks every link
