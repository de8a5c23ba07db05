"""What Alembic runs to migrate a database: `upgrade` in the package hands it a connection."""

from alembic import context

from surefoot.storage import schema

context.configure(
    connection=context.config.attributes["connection"], target_metadata=schema.metadata, render_as_batch=True
)
with context.begin_transaction():
    context.run_migrations()
