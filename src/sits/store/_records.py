"""What the store gives: plain frozen records, times in Unix seconds."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class RevisionRecord:
    """A unit's file as it was deployed once, and what it is bound to. Never changed.

    Attributes:
        spec_json: the canonical JSON.
        pin_json: the model that its reference meant then; None where that is not known yet.
    """

    revision: str
    spec_json: str
    created_s: float
    pin_json: str | None = None


@dataclass(frozen=True)
class UnitRecord:
    """A unit as it is wanted.

    Attributes:
        wanted: its newest revision.
        serving: the revision that its route points at; None: none was ever ready.
        proven: the revision of which last an instance was up while it took traffic.
        failed: a revision that took traffic and could not serve, since it was last wanted.
        failed_why: why, for people.
        created_s: the first deploy since it last was not there.
        deleted_s: when its deletion was asked for; the record goes when its instances have.
    """

    tenant: str
    name: str
    wanted: RevisionRecord
    serving: RevisionRecord | None
    created_s: float
    updated_s: float
    deleted_s: float | None = None
    proven: str | None = None
    failed: str | None = None
    failed_why: str | None = None


@dataclass(frozen=True)
class PutResult:
    """A unit after a deploy, and what the deploy did."""

    unit: UnitRecord
    created: bool


@dataclass(frozen=True)
class RouteRecord:
    """One point in a route's history: from `at_s` on it pointed at `revision`.

    Attributes:
        cause: why, such as `deploy` or `rollback`.
    """

    seq: int
    revision: str
    at_s: float
    cause: str


@dataclass(frozen=True)
class EventRecord:
    """Something that happened to a unit, once or several times in a row.

    Attributes:
        seq: counts a unit's events; 0 for one that is to be added.
        kind: `Normal` or `Warning`.
        reason: one word for scripts.
        message: the same for people.
    """

    tenant: str
    name: str
    kind: str
    reason: str
    message: str
    first_s: float
    last_s: float
    count: int = 1
    seq: int = 0


@dataclass(frozen=True)
class KeyEntry:
    """A key: its public id and its secret's hash (not in the repr)."""

    key_id: str
    secret_hash: str = field(repr=False)
    tenant: str
    name: str
    created_s: float
    revoked_s: float | None = None
