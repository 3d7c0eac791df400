"""Objects of control for table tests: a world is built by the events that make it."""

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from sits.control._actions import Limits, Order, Plan
from sits.control._apply import apply_plan
from sits.control._names import host_name
from sits.control._plan import make_plan
from sits.control._settings import Settings
from sits.control._table import Routes
from sits.control._wanted import Release, UnitKey, Wanted
from sits.control._world import World
from sits.models import ModelFile
from sits.spec import Unit, load_unit_json, revision_id
from sits.wire import HostReady, Instance, InstanceReady, Load, Tier, UnitLoad, UnitRoute

IDLE_S = 60.0
DRAIN_S = 10.0
START_S = 40.0
LOAD_S = 300.0
COOL_S = 3600.0
CAPACITY = 4


def make_unit(name: str = "chat", model: str = "small", **fields: Any) -> Unit:
    text = json.dumps({"name": name, "model": f"builtin://{model}", **fields})
    return load_unit_json(text, name).unit


def make_release(
    name: str = "chat",
    model: str = "small",
    *,
    tenant: str = "default",
    problem: str | None = None,
    progress: str | None = None,
    **fields: Any,
) -> Release:
    """Return a revision whose model is here, unless something is the matter."""
    unit = make_unit(name, model, **fields)
    here = not problem and not progress
    file = ModelFile(Path(f"/models/{model}.gguf"), model, 1) if here else None
    return Release(
        tenant, name, revision_id(unit), unit, model=file, problem=problem, progress=progress
    )


def make_wanted(
    name: str = "chat",
    model: str = "small",
    *,
    tenant: str = "default",
    deleted: bool = False,
    **fields: Any,
) -> Wanted:
    """Return a unit whose newest revision takes traffic."""
    release = make_release(name, model, tenant=tenant, **fields)
    return Wanted(tenant, name, release, release, 1.0, 2.0, deleted)


def update(former: Wanted, target: Release) -> Wanted:
    """Return a unit of which a newer revision was deployed."""
    return replace(former, target=target, updated_s=3.0, failed=None)


def make_settings(**changes: Any) -> Settings:
    values: dict[str, Any] = {
        "home": "/home/of/sits",
        "node_socket": "/run/node.sock",
        "control_socket": "/run/control.sock",
        "api_socket": "/run/api/api.sock",
        "parent_pid": 1,
        "public_url": "http://127.0.0.1:7480",
    }
    return Settings(**{**values, **changes})


def host_of(model: str = "small") -> str:
    return host_name(f"/models/{model}.gguf")


def routes_of(scene: "Scene", **settings: Any) -> tuple[UnitRoute, ...]:
    """Return what gateways would be told of a scene's units."""
    routes = Routes(scene.world, make_settings(**settings))
    return tuple(routes.make(scene.wanted, scene.now_s).values())


class Scene:
    """A world, what is wanted in it, and turns of the loop without the I/O."""

    def __init__(self, *wanted: Wanted) -> None:
        counter = itertools.count(1)
        self.world = World()
        self.world.node_up()
        self.wanted = list(wanted)
        self.now_s = 0.0
        self.due_s: float | None = None
        self.limits = Limits(
            IDLE_S,
            DRAIN_S,
            START_S,
            LOAD_S,
            lambda unit, variant: f"{unit}-{next(counter)}",
            COOL_S,
        )

    def plan(self) -> Plan:
        return make_plan(self.world, self.wanted, self.limits, self.now_s)

    def turn(self) -> list[Order]:
        """Plan, take over what is to serve and the plan, and return its orders."""
        plan = self.plan()
        for key in plan.promote:
            self.promote(key)
        for key in plan.prove:
            self._change(key, lambda unit: replace(unit, proven=unit.current.revision))
        if plan.promote:
            plan = self.plan()
        apply_plan(self.world, plan, self.now_s)
        self.due_s = plan.due_s
        return plan.orders

    def promote(self, key: UnitKey) -> None:
        """Have a unit's newest revision take traffic."""
        self._change(key, lambda unit: replace(unit, serving=unit.target))
        self.world.promoted(key)

    def revert(self, former: Release) -> None:
        """Have the revision that could serve take the traffic of the plan's units again."""
        for key, failed in self.plan().revert.items():
            self._change(key, lambda unit: replace(unit, serving=former, failed=failed))  # noqa: B023
            self.world.reverted(key)

    def _change(self, key: UnitKey, change: Callable[[Wanted], Wanted]) -> None:
        self.wanted = [change(unit) if unit.key == key else unit for unit in self.wanted]

    def serving(self, unit: str = "chat") -> str | None:
        """Return the revision that takes a unit's traffic."""
        (found,) = (item for item in self.wanted if item.name == unit)
        return found.serving.revision if found.serving else None

    def turn_words(self) -> list[str]:
        """Like `turn`, in words: `StartInstance chat-1`."""
        return [words(order) for order in self.turn()]

    def load(self, waiting: int = 0, running: int = 0, unit: str = "chat") -> None:
        self.world.set_load(1, Load((UnitLoad("default", unit, waiting, running),)))

    def warm(self, model: str = "small", tenant: str = "default") -> None:
        """Have a model's host and a tenant's template come up."""
        self.turn()
        if self.world.host_up(host_of(model), self.now_s):
            self.world.host_ready(host_of(model), HostReady())
        self.turn()
        self.world.template_ready(host_of(model), tenant)

    def come_up(self, name: str, model: str = "small") -> None:
        value = Instance(f"/run/{name}.sock", Tier.WARM, CAPACITY)
        unit = name.rpartition("-")[0]
        self.world.instance_ready(host_of(model), InstanceReady(name, "default", unit, value))

    def serve(self, model: str = "small") -> None:
        """Have one instance serve one running request."""
        self.warm(model)
        self.load(running=1)
        self.turn()
        for name in list(self.world.instances):
            self.come_up(name, model)


def words(order: Order) -> str:
    message = order.message
    subject = next(
        getattr(message, field)
        for field in ("instance", "host", "unit", "tenant")
        if hasattr(message, field)
    )
    return f"{type(message).__name__} {subject}"
