"""What the store gives: plain frozen records, times in Unix seconds."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class UnitRecord:
    """A unit as it is wanted.

    Attributes:
        spec_json: the canonical JSON of its current revision.
        created_s: the first deploy since it last was not there.
        deleted_s: when its deletion was asked for; the record goes when its instances have.
    """

    tenant: str
    name: str
    revision: str
    spec_json: str
    created_s: float
    updated_s: float
    deleted_s: float | None = None


@dataclass(frozen=True)
class PutResult:
    """A unit after a deploy, and what the deploy did."""

    unit: UnitRecord
    created: bool


@dataclass(frozen=True)
class KeyEntry:
    """A key: its public id and its secret's hash (not in the repr)."""

    key_id: str
    secret_hash: str = field(repr=False)
    tenant: str
    name: str
    created_s: float
    revoked_s: float | None = None
