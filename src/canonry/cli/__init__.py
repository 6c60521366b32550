"""The command line: one file per command; render.py prints."""
