"""Pages for people: rendered on the server, usable without JavaScript (SPEC B7)."""
