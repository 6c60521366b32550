"""The history of the tables, one file a version; each describes its tables itself and never imports the live ones."""
