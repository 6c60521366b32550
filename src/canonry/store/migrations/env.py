"""What Alembic runs: the migrations, on the connection and inside the transaction that `run` gives it."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=True)
context.run_migrations()
