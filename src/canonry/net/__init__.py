"""How canonry reaches the web safely."""
