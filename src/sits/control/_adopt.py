"""What an earlier life of control left running, taken over, so that a restart loses nothing.

A node tells a control that connects of every host, and a host of every instance. An instance's
name says whose it is; it is taken over only where that unit is still wanted with that model.
All others stay strangers, and the plan stops them.
"""

from collections.abc import Iterable

from sits.control._lifecycle import Event
from sits.control._names import is_named_for
from sits.control._plan import Wanted
from sits.control._world import TrackedInstance, World


def adopt_strangers(world: World, wanted: Iterable[Wanted]) -> None:
    """Turn strangers that belong to a wanted unit into its instances. Mutates `world`."""
    for unit in wanted:
        if unit.host is None or unit.model is None:
            continue
        if unit.host in world.hosts:
            world.hosts[unit.host].model_path = str(unit.model.path)
        for stranger in list(world.strangers.values()):
            if stranger.told or stranger.host != unit.host:
                continue
            if is_named_for(stranger.name, unit.key):
                del world.strangers[stranger.name]
                item = TrackedInstance(
                    stranger.name, unit.tenant, unit.unit.name, stranger.host, stranger.value
                )
                item.life.advance(Event.CAME_UP)
                world.instances[stranger.name] = item
