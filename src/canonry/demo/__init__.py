"""A small web on loopback to show everything offline."""
