"""Feeds: read them, find their canonical URL, follow them and store each of their items once."""
