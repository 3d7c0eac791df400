"""The tables, and the version of their layout."""

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

SCHEMA_VERSION = 1

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
    ForeignKeyConstraint(
        ["tenant", "name", "revision"],
        ["revisions.tenant", "revisions.name", "revisions.revision"],
    ),
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
