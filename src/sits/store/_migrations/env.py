"""What Alembic runs: on the connection that it is given, in the transaction that is open there."""

from alembic import context

from sits.store._tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=False,  # the transaction is the caller's
)
context.run_migrations()
