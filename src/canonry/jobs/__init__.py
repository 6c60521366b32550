"""Background work as durable jobs: queued in the database, run by one process on SQLite and by many on PostgreSQL."""
