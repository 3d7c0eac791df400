"""The store's units as the loop sees them: models that come back, records that cannot be read."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sits.control._plan import make_plan
from sits.control._status import unit_status
from sits.control._table import make_routes
from sits.control._units import Units
from sits.control._world import World
from sits.models import ModelError, ModelFile
from sits.spec import ModelReference, load_unit
from sits.store import Store, open_store
from tests.unit.control.builders import Scene, make_settings

CHAT = load_unit("name: chat\nmodel: builtin://small\n", "chat")


class Machine:
    """A clock that is set, and models' files that are there or not."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.is_there = True
        self.looked = 0

    def monotonic_s(self) -> float:
        return self.now_s

    def unix_s(self) -> float:
        return self.now_s

    async def sleep_until(self, when_s: float) -> None:
        raise AssertionError(when_s)

    def resolve(self, reference: ModelReference, *, home: Path) -> ModelFile:
        self.looked += 1
        if not self.is_there:
            raise ModelError(f"model '{reference}' cannot be read; mount it ({home})")
        return ModelFile(Path("/models/small.gguf"), "small", 1)


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path / "sits.db")
    yield opened
    opened.close()


def make_units(store: Store, machine: Machine, world: World | None = None) -> Units:
    return Units(
        store,
        world or World(),
        machine,
        machine.resolve,
        settings=make_settings(),
        wake=lambda: None,
    )


def due_s(units: Units, machine: Machine) -> float | None:
    scene = Scene()
    return make_plan(scene.world, units.wanted(), scene.limits, machine.now_s).due_s


def test_a_model_that_was_away_at_the_start_is_found_when_it_is_back(
    store: Store, machine: Machine
) -> None:
    make_units(store, machine).deploy("t", CHAT)
    machine.is_there = False
    units = make_units(store, machine)
    assert "mount it" in (units.wanted()[0].problem or "")
    for pause_s in (0.5, 1.0, 2.0, 4.0, 30.0, 30.0):
        assert due_s(units, machine) == machine.now_s + pause_s
        looked = machine.looked
        machine.now_s += pause_s - 0.1
        assert not units.wanted()[0].model
        assert machine.looked == looked
        machine.now_s += 0.1
        assert not units.wanted()[0].model
        assert machine.looked == looked + 1
    machine.is_there = True
    machine.now_s += 30.0
    (unit,) = units.wanted()
    assert (unit.host is not None, unit.problem, unit.retry_at_s) == (True, None, None)


def test_a_deploy_of_what_was_missing_finds_it_at_once(store: Store, machine: Machine) -> None:
    make_units(store, machine).deploy("t", CHAT)
    machine.is_there = False
    units = make_units(store, machine)
    units.wanted()
    machine.is_there = True
    assert units.deploy("t", CHAT).unit.problem is None


def test_a_change_of_another_unit_does_not_count_as_looking_again(
    store: Store, machine: Machine
) -> None:
    units = make_units(store, machine)
    units.deploy("t", CHAT)
    units.deploy("t", load_unit("name: other\nmodel: builtin://small\n", "other"))
    machine.is_there = False
    units = make_units(store, machine)
    before, looked = due_s(units, machine), machine.looked
    for name in ("chat", "other"):
        units.delete("t", name)
        units.wanted()
    assert (machine.looked, before) == (looked, machine.now_s + 0.5)
    assert due_s(units, machine) is None  # what is being deleted is not looked for


@pytest.mark.parametrize(
    "text",
    [
        '{"name":"chat","model":"builtin://small","quota":3}',  # a newer version's
        '{"name":"chat","model":"nowhere"}',
        "[]",
        "{",
        "[" * 100_000,
    ],
)
def test_a_record_that_cannot_be_read_is_its_units_problem_alone(
    store: Store, machine: Machine, text: str
) -> None:
    units, world = make_units(store, machine), World()
    units.deploy("t", load_unit("name: other\nmodel: builtin://small\n", "other"))
    store.put_unit("t", "chat", revision="r", spec_json=text, now_s=1.0)
    units = make_units(store, machine, world)
    chat, other = units.wanted()
    assert (other.problem, chat.host) == (None, None)
    status = unit_status(world, chat, machine.now_s)
    assert (status.phase, status.reason) == ("Failed", "Unreadable")
    assert "deploy it again, or delete it" in status.message
    assert [route.refusal for route in make_routes(world, (chat, other), make_settings(), 0.0)] == [
        status.message,
        None,
    ]
    shown = units.describe(chat)
    assert (shown["name"], shown["spec"]["model"]) == ("chat", "unknown")
    assert units.delete("t", "chat").deleted
    plan = make_plan(world, units.wanted(), Scene().limits, machine.now_s)
    assert plan.purge == [("t", "chat")]


def test_a_deploy_mends_a_record_of_the_same_revision_that_was_damaged(
    store: Store, machine: Machine
) -> None:
    units = make_units(store, machine)
    revision = units.deploy("t", CHAT).unit.revision
    store.put_unit("t", "chat", revision=revision, spec_json="{", now_s=1.0)
    units = make_units(store, machine)
    assert units.wanted()[0].problem
    deployed = units.deploy("t", CHAT).unit
    assert (deployed.problem, deployed.revision) == (None, revision)
