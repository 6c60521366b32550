"""What we remember, in SQLite or PostgreSQL, from one code."""
