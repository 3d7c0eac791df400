"""What the gateway knows of units and keys: the last table that control sent.

Invariants: a change is taken only onto the table that it was made from; a unit of another
tenant is not there, in lists as in look-ups.
"""

from collections.abc import Iterable

import anyio

from sits.gateway._errors import ApiError
from sits.trust import verify
from sits.wire import KeyRecord, Table, TablePatch, UnitRoute, WireError


class RoutingTable:
    """The table of now, indexed as requests ask for it.

    Attributes:
        version: the table's; 0 before the first.
    """

    def __init__(self) -> None:
        self.version = 0
        self._keys: dict[str, KeyRecord] = {}
        self._units: dict[str, dict[str, UnitRoute]] = {}
        self._taken = anyio.Event()

    @property
    def ready(self) -> bool:
        """Whether there is a table."""
        return self._taken.is_set()

    async def wait_until_ready(self) -> None:
        """Wait for the first table."""
        await self._taken.wait()

    def replace(self, table: Table) -> None:
        """Take over a whole new table."""
        self.version = table.version
        self._keys = {key.key_id: key for key in table.keys}
        self._units = {}
        for route in table.units:
            self._units.setdefault(route.tenant, {})[route.name] = route
        self._taken.set()

    def patch(self, patch: TablePatch) -> None:
        """Take over what a newer table has otherwise.

        Raises:
            WireError: it is not made from the table that is here.
        """
        if patch.base != self.version:
            raise WireError(
                f"control sent a change of table {patch.base} where table {self.version} is; a "
                "new connection begins with the whole table"
            )
        self.version = patch.version
        if patch.keys is not None:
            self._keys = {key.key_id: key for key in patch.keys}
        for tenant, name in patch.gone:
            self._units.get(tenant, {}).pop(name, None)
        for route in patch.units:
            self._units.setdefault(route.tenant, {})[route.name] = route

    def tenant_of(self, key: str) -> str | None:
        """Return the tenant that a presented key belongs to, None when it is no good."""
        record = verify(key, self._keys)
        return None if record is None else record.tenant

    def has(self, key: tuple[str, str]) -> bool:
        """Say whether there is a unit, given its tenant and name."""
        tenant, name = key
        return name in self._units.get(tenant, {})

    def units(self, tenant: str) -> Iterable[UnitRoute]:
        """Return a tenant's units."""
        return self._units.get(tenant, {}).values()

    def find(self, tenant: str, name: str) -> UnitRoute:
        """Return a tenant's unit.

        Raises:
            ApiError: there is none of that name.
        """
        route = self._units.get(tenant, {}).get(name)
        if route is None:
            raise ApiError(
                404,
                "model_not_found",
                f"there is no unit named {name[:80]!r}; GET /v1/models lists those that there are",
                param="model",
            )
        return route
