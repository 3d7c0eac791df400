"""What a store's file holds beyond what its methods give."""

from sits.store import Store


def stored_revisions(store: Store, tenant: str, name: str) -> list[tuple[str, float]]:
    """Return a unit's revisions with the times of their making, oldest first."""
    query = (
        "SELECT revision, created_s FROM revisions WHERE tenant = ? AND name = ? ORDER BY created_s"
    )
    with store._engine.connect() as connection:
        rows = connection.exec_driver_sql(query, (tenant, name)).all()
    return [(str(revision), float(created_s)) for revision, created_s in rows]
