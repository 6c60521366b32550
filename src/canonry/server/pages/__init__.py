"""Pages for people: rendered on the server, usable without JavaScript (contract B7)."""
