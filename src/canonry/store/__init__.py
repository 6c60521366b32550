"""The database for SQLite and PostgreSQL: engine, schema, migrations, backup, cache. Features have the queries."""
