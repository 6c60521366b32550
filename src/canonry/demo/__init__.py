"""A small web on loopback, so that everything can be shown offline."""
