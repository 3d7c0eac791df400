"""The control plane of one machine: reconciles what is wanted with what is, and tells gateways.

    _api        HTTP over a unix socket: units are deployed, listed, deleted
    _service    `run(settings, deps)`: owns the task group, the loop and the store
    _links      the wire: the node, the hosts, the gateways
    _world      what is observed: hosts, templates, instances, demand (no I/O)
    _plan       what is to be done about it, pure: `make_plan(world, wanted, …) -> Plan`
    _overdue    what takes too long to start or to stop, pure
    _lifecycle  the states of hosts and instances, and the only way to change them
    _status     what people are told about a unit, pure
    _table      what gateways are told, pure
    _room       how much they can be told, pure
    _notes      what is noted at a deploy, pure
    _keys       the key in a file that the owner of the machine uses
    _units      the store's units as the loop and the API see them
    _models     their models' files, and when to look again for one that is missing
    _apply, _names, _server, _clock, _settings, _errors    what their names say

The loop is level-triggered: any event only wakes it; each turn compares everything from
scratch. A turn first changes the world, then tells gateways, then sends: so an instance has
left the routing table before it is told to stop. Process ids are never seen here.
"""

from sits.control._clock import Clock, SystemClock
from sits.control._errors import ControlError
from sits.control._lifecycle import (
    HOST_TRANSITIONS,
    TRANSITIONS,
    Event,
    HostEvent,
    HostState,
    Lifecycle,
    LifecycleError,
    State,
)
from sits.control._service import Deps, run
from sits.control._settings import Settings

__all__ = [
    "HOST_TRANSITIONS",
    "TRANSITIONS",
    "Clock",
    "ControlError",
    "Deps",
    "Event",
    "HostEvent",
    "HostState",
    "Lifecycle",
    "LifecycleError",
    "Settings",
    "State",
    "SystemClock",
    "run",
]
