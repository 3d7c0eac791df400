"""The tables. Their layout has a history of its own, in `_migrations`: change both together."""

from sqlalchemy import (
    Column,
    Float,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)

metadata = MetaData()

meta = Table(
    "meta",
    metadata,
    Column("name", String, primary_key=True),
    Column("value", Integer, nullable=False),
)

revisions = Table(
    "revisions",
    metadata,
    Column("tenant", String, primary_key=True),
    Column("name", String, primary_key=True),
    Column("revision", String, primary_key=True),
    Column("spec_json", Text, nullable=False),
    Column("created_s", Float, nullable=False),
    Column("pin_json", Text),
)

units = Table(
    "units",
    metadata,
    Column("tenant", String, primary_key=True),
    Column("name", String, primary_key=True),
    Column("revision", String, nullable=False),
    Column("created_s", Float, nullable=False),
    Column("updated_s", Float, nullable=False),
    Column("deleted_s", Float),
    Column("serving", String),
    Column("proven", String),
    Column("failed", String),
    Column("failed_why", Text),
    ForeignKeyConstraint(
        ["tenant", "name", "revision"],
        ["revisions.tenant", "revisions.name", "revisions.revision"],
    ),
)

routes = Table(
    "routes",
    metadata,
    Column("tenant", String, primary_key=True),
    Column("name", String, primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("revision", String, nullable=False),
    Column("at_s", Float, nullable=False),
    Column("cause", String, nullable=False),
)

events = Table(
    "events",
    metadata,
    Column("tenant", String, primary_key=True),
    Column("name", String, primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("kind", String, nullable=False),
    Column("reason", String, nullable=False),
    Column("message", Text, nullable=False),
    Column("count", Integer, nullable=False),
    Column("first_s", Float, nullable=False),
    Column("last_s", Float, nullable=False),
)

keys = Table(
    "keys",
    metadata,
    Column("key_id", String, primary_key=True),
    Column("secret_hash", String, nullable=False),
    Column("tenant", String, nullable=False),
    Column("name", String, nullable=False),
    Column("created_s", Float, nullable=False),
    Column("revoked_s", Float),
    Index("keys_by_name", "tenant", "name"),
)
