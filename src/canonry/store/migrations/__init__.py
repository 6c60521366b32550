"""The schema history, one file for each version. Migrations describe their tables and never import schema.py."""
