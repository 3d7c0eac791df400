"""Demand up, routing table down, between a gateway and control."""

from enum import StrEnum

import msgspec

from sits.wire._host import Tier


class UnitKind(StrEnum):
    """What a unit's model makes of a request."""

    CHAT = "chat"
    EMBEDDING = "embedding"


class RoutedInstance(msgspec.Struct, frozen=True):
    """An instance that may be given requests."""

    instance: str
    endpoint: str
    tier: Tier
    capacity: int


class UnitRoute(msgspec.Struct, frozen=True):
    """What a gateway needs to serve one unit.

    Attributes:
        created_s: Unix seconds of the first deploy.
        system: the unit's constant system prompt, if any.
        template: the unit's prompt template for `/iu/NAME/v1/query`, if any.
        refusal: why the unit cannot serve at all, in words for the caller; None when it can
            (also at zero instances: the first request starts one).
        hold_s: how long a request may wait for an instance.
        queue_limit: how many requests may wait at once; the next is answered 429.
        kind: which of the API's routes it answers on.
        pending: what it waits for before any instance could start; None: nothing.
    """

    name: str
    tenant: str
    revision: str
    created_s: int
    system: str | None
    template: str | None
    instances: tuple[RoutedInstance, ...]
    refusal: str | None
    hold_s: float
    queue_limit: int
    kind: UnitKind = UnitKind.CHAT
    pending: str | None = None


class KeyRecord(msgspec.Struct, frozen=True):
    """A key as it is stored: its public id and the hash of its secret, in hex."""

    key_id: str
    secret_hash: str
    tenant: str


class Table(msgspec.Struct, frozen=True, tag="table"):
    """Everything that a gateway routes by: whole, and first on each connection."""

    version: int
    units: tuple[UnitRoute, ...]
    keys: tuple[KeyRecord, ...]


class TablePatch(msgspec.Struct, frozen=True, tag="patch"):
    """What a newer table has otherwise than the one of version `base`, which came before it.

    Attributes:
        units: those that are new or changed.
        gone: tenant and name of those that are not there any more.
        keys: all keys, where they changed; None where not.
    """

    version: int
    base: int
    units: tuple[UnitRoute, ...] = ()
    gone: tuple[tuple[str, str], ...] = ()
    keys: tuple[KeyRecord, ...] | None = None


class UnitLoad(msgspec.Struct, frozen=True):
    """A unit's requests at one gateway, right now."""

    tenant: str
    unit: str
    waiting: int
    running: int


class Load(msgspec.Struct, frozen=True, tag="load"):
    """The demand at one gateway. Whole and level-triggered: a unit not named has none.

    `table_version` is that of the table which the gateway has taken, 0 before the first: what
    control published in it is true there.
    """

    units: tuple[UnitLoad, ...]
    table_version: int = 0


ToControl = Load
FromControl = Table | TablePatch
