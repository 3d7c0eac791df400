"""The first layout: units, their revisions, keys.

Stores of that layout were made without Alembic; they are stamped with this step, never made by
it.
"""

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Nothing: see above."""
