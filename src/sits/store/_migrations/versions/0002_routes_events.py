"""Routes with history, events, and the models that revisions are bound to."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add what is new. What was deployed serves, as it did."""
    op.add_column("revisions", sa.Column("pin_json", sa.Text()))
    op.add_column("units", sa.Column("serving", sa.String()))
    op.add_column("units", sa.Column("proven", sa.String()))
    op.add_column("units", sa.Column("failed", sa.String()))
    op.add_column("units", sa.Column("failed_why", sa.Text()))
    op.create_table(
        "routes",
        sa.Column("tenant", sa.String(), primary_key=True),
        sa.Column("name", sa.String(), primary_key=True),
        sa.Column("seq", sa.Integer(), primary_key=True),
        sa.Column("revision", sa.String(), nullable=False),
        sa.Column("at_s", sa.Float(), nullable=False),
        sa.Column("cause", sa.String(), nullable=False),
    )
    op.create_table(
        "events",
        sa.Column("tenant", sa.String(), primary_key=True),
        sa.Column("name", sa.String(), primary_key=True),
        sa.Column("seq", sa.Integer(), primary_key=True),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("first_s", sa.Float(), nullable=False),
        sa.Column("last_s", sa.Float(), nullable=False),
    )
    op.execute("UPDATE units SET serving = revision")
    op.execute(
        "INSERT INTO routes (tenant, name, seq, revision, at_s, cause) "
        "SELECT tenant, name, 1, revision, updated_s, 'deploy' FROM units"
    )
    op.execute("DELETE FROM meta WHERE name = 'schema_version'")
