"""Rows for tests of the store, and the store of an earlier version."""

import contextlib
import sqlite3
from pathlib import Path

from sits.store import RevisionRecord

# As the first version of SITS wrote it.
_FIRST_LAYOUT = """
CREATE TABLE meta (name VARCHAR NOT NULL, value INTEGER NOT NULL, PRIMARY KEY (name));
CREATE TABLE revisions (
    tenant VARCHAR NOT NULL, name VARCHAR NOT NULL, revision VARCHAR NOT NULL,
    spec_json TEXT NOT NULL, created_s FLOAT NOT NULL, PRIMARY KEY (tenant, name, revision)
);
CREATE TABLE units (
    tenant VARCHAR NOT NULL, name VARCHAR NOT NULL, revision VARCHAR NOT NULL,
    created_s FLOAT NOT NULL, updated_s FLOAT NOT NULL, deleted_s FLOAT,
    PRIMARY KEY (tenant, name),
    FOREIGN KEY(tenant, name, revision) REFERENCES revisions (tenant, name, revision)
);
CREATE TABLE keys (
    key_id VARCHAR NOT NULL, secret_hash VARCHAR NOT NULL, tenant VARCHAR NOT NULL,
    name VARCHAR NOT NULL, created_s FLOAT NOT NULL, revoked_s FLOAT, PRIMARY KEY (key_id)
);
CREATE INDEX keys_by_name ON keys (tenant, name);
INSERT INTO meta VALUES ('schema_version', {layout}), ('epoch', 5);
INSERT INTO revisions VALUES ('t', 'chat', 'r1', '{{}}', 1.0);
INSERT INTO units VALUES ('t', 'chat', 'r1', 1.0, 1.0, NULL);
INSERT INTO keys VALUES ('k1', 'hash', 't', 'local', 1.0, NULL);
"""


def make_revision(name: str, created_s: float = 1.0) -> RevisionRecord:
    """Return a revision whose text follows from its name."""
    return RevisionRecord(name, f"{{{name}}}", created_s, f"pin of {name}")


def make_first_layout(path: Path, layout: int = 1) -> None:
    """Write a store as the first version left it: one unit, one key."""
    path.parent.mkdir(exist_ok=True)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(_FIRST_LAYOUT.format(layout=layout))
