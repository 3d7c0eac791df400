"""The store's units as the loop sees them: what is deployed, rolled back, or cannot be read."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sits.control._errors import RevisionNotFound, UnitNotFound
from sits.control._lifecycle import HostEvent
from sits.control._models import Models, PullEnd
from sits.control._plan import make_plan
from sits.control._room import Room
from sits.control._status import unit_status
from sits.control._table import Routes
from sits.control._tracked import TrackedHost
from sits.control._units import Units
from sits.control._wanted import FailedRollout, Wanted
from sits.control._world import World
from sits.models import ModelError, ModelStoreFull
from sits.spec import Loaded, load_unit
from sits.store import RevisionRecord, Store, StoreUnavailable, open_store
from sits.testing import FakeModels
from tests.unit.control.builders import Scene, make_settings

pytestmark = pytest.mark.anyio


class Machine:
    """A clock that is set, and models."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.models = FakeModels()

    def monotonic_s(self) -> float:
        return self.now_s

    def unix_s(self) -> float:
        return self.now_s

    async def sleep_until(self, when_s: float) -> None:
        raise AssertionError(when_s)


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path / "sits.db")
    yield opened
    opened.close()


def make_units(store: Store, machine: Machine, world: World | None = None) -> Units:
    models = Models(machine.models, Path("/home"), machine, lambda end: None)
    return Units(
        store,
        world or World(),
        machine,
        models,
        Room(),
        make_settings(),
        lambda: None,
    )


def chat(prompt: str = "one", model: str = "small", name: str = "chat") -> Loaded:
    return load_unit(f"name: {name}\nmodel: builtin://{model}\nprompt: {prompt}\n", name)


CHAT = chat()


def all_of(units: Units) -> list[Wanted]:
    return list(units.catalog.wanted())


async def serve(units: Units, loaded: Loaded) -> str:
    """Deploy a unit and have it take traffic; return its revision."""
    deployed = await units.deploy("t", loaded)
    units.promote([deployed.unit.key])
    return deployed.unit.target.revision


async def test_a_revision_is_bound_to_what_its_model_was_when_it_was_deployed(
    store: Store, machine: Machine
) -> None:
    units = make_units(store, machine)
    first = (await units.deploy("t", CHAT)).unit
    assert first.target.pin is not None
    assert first.target.pin.digest in machine.models.kept
    moved = replace(first.target.pin, digest="sha256:" + "0" * 64)
    machine.models.pin = lambda reference: moved  # type: ignore[method-assign]
    second = (await units.deploy("t", CHAT)).unit
    assert second.target.revision != first.target.revision
    assert machine.models.kept == {first.target.pin.digest, moved.digest}


async def test_a_unit_names_the_endpoint_that_answers_for_it(
    store: Store, machine: Machine
) -> None:
    units = make_units(store, machine)
    bare = load_unit("name: chat\nmodel: builtin://small\n", "chat")
    for loaded, path in (
        (chat(), "/iu/chat/v1/query"),
        (bare, "/v1/chat/completions"),
        (chat(model="embedder"), "/v1/embeddings"),
    ):
        deployed = (await units.deploy("t", loaded)).unit
        assert units.describe(deployed)["endpoint"] == f"http://127.0.0.1:7480{path}"


async def test_models_that_cannot_be_protected_refuse_new_ones_and_nothing_else(
    store: Store, machine: Machine
) -> None:
    units = make_units(store, machine)
    await units.deploy("t", CHAT)

    def fail(_owner: Path, _digests: object) -> None:
        raise ModelStoreFull("the disk of the model store is full")

    machine.models.keep = fail  # type: ignore[method-assign,assignment]
    await units.deploy("t", chat("another prompt"))
    with pytest.raises(ModelStoreFull):
        await units.deploy("t", chat(name="other", model="other"))
    units.delete("t", "chat")
    units.purge([("t", "chat")])
    assert all_of(units) == []
    assert all_of(make_units(store, machine)) == []


async def test_what_is_loaded_serves_on_when_its_file_goes(store: Store, machine: Machine) -> None:
    world = World()
    units = make_units(store, machine, world)
    deployed = (await units.deploy("t", CHAT)).unit
    assert deployed.host is not None
    world.hosts[deployed.host] = host = TrackedHost(deployed.host)
    for event in (HostEvent.UP, HostEvent.LOADED):
        host.life.advance(event)
    machine.models.away.add("small")
    units.catalog.invalidate()
    assert [unit.host for unit in all_of(units)] == [deployed.host]
    host.life.advance(HostEvent.LINK_LOST)
    units.catalog.invalidate()
    assert [unit.host for unit in all_of(units)] == [None]


async def test_models_of_deleted_units_are_not_kept(store: Store, machine: Machine) -> None:
    units = make_units(store, machine)
    await units.deploy("t", CHAT)
    units.delete("t", "chat")
    units.purge([("t", "chat")])
    assert all_of(units) == []
    assert machine.models.kept == frozenset()


async def test_a_model_that_cannot_be_run_refuses_the_deploy_and_keeps_nothing(
    store: Store, machine: Machine
) -> None:
    machine.models.missing.add("small")
    units = make_units(store, machine)
    with pytest.raises(ModelError, match="use builtin://small"):
        await units.deploy("t", CHAT)
    assert store.units() == ()


async def test_a_dry_run_says_what_would_be_and_changes_nothing(
    store: Store, machine: Machine
) -> None:
    units = make_units(store, machine)
    planned = await units.deploy("t", CHAT, dry_run=True)
    assert (planned.created, store.units(), machine.models.kept) == (True, (), frozenset())
    assert machine.models.pulled == []
    real = await units.deploy("t", CHAT)
    assert real.unit.target.revision == planned.unit.target.revision
    assert not (await units.deploy("t", CHAT, dry_run=True)).created


async def test_units_of_an_older_version_are_bound_to_their_models_when_it_is_known(
    store: Store, machine: Machine
) -> None:
    deployed = await make_units(store, machine).deploy("t", CHAT)
    text = store.units()[0].wanted.spec_json
    store.put_unit("t", "chat", RevisionRecord("old", text, 1.0), now_s=2.0)
    machine.models.missing.add(None)
    units = make_units(store, machine)
    (unit,) = all_of(units)
    assert unit.target.progress == "its model is being looked up"
    assert not await units.catalog.pin_all()
    (unit,) = all_of(units)
    assert "use builtin://small" in (unit.target.problem or "")
    machine.models.missing.clear()
    assert await units.catalog.pin_all()
    (unit,) = all_of(units)
    assert unit.target.pin == deployed.unit.target.pin
    assert unit.target.host is not None


async def test_a_rollback_goes_to_what_served_before(store: Store, machine: Machine) -> None:
    units = make_units(store, machine)
    first, second = await serve(units, CHAT), await serve(units, chat("two"))
    unit = units.rollback("t", "chat", None)
    assert (unit.target.revision, unit.current.revision) == (first, second)
    units.promote([unit.key])
    routes, revisions = units.history(unit)
    assert [(route.revision, route.cause) for route in routes] == [
        (first, "deploy"),
        (second, "deploy"),
        (first, "rollback"),
    ]
    assert {each.revision for each in revisions} == {first, second}
    again = units.rollback("t", "chat", None)
    assert again.target.revision == second


async def test_a_rollback_while_a_revision_rolls_out_goes_to_the_one_that_serves(
    store: Store, machine: Machine
) -> None:
    units = make_units(store, machine)
    first = await serve(units, CHAT)
    await units.deploy("t", chat("two"))
    unit = units.rollback("t", "chat", None)
    assert unit.target.revision == first
    assert not unit.is_rolling


async def test_a_rollback_to_a_head_of_a_revision_needs_that_to_be_one(
    store: Store, machine: Machine
) -> None:
    units = make_units(store, machine)
    first = await serve(units, CHAT)
    await serve(units, chat("two"))
    assert units.rollback("t", "chat", first[:6]).target.revision == first
    with pytest.raises(RevisionNotFound, match="no such revision"):
        units.rollback("t", "chat", "zzz")
    with pytest.raises(RevisionNotFound, match="2 revisions begin so"):
        units.rollback("t", "chat", "")
    with pytest.raises(UnitNotFound):
        units.rollback("other", "chat", None)


async def test_there_is_nothing_to_roll_back_to_at_first(store: Store, machine: Machine) -> None:
    units = make_units(store, machine)
    await serve(units, CHAT)
    with pytest.raises(RevisionNotFound, match="served no other revision"):
        units.rollback("t", "chat", None)


async def test_traffic_goes_back_to_the_revision_that_could_serve_and_that_outlives_a_restart(
    store: Store, machine: Machine
) -> None:
    units = make_units(store, machine)
    good = await serve(units, CHAT)
    units.prove([("t", "chat")])
    bad = await serve(units, chat("two"))
    worse = await serve(units, chat("three"))
    assert all_of(units)[0].proven == good
    units.revert({("t", "chat"): FailedRollout(worse, "no memory")})
    (unit,) = all_of(make_units(store, machine))
    assert (unit.current.revision, unit.target.revision) == (good, worse)
    assert unit.failed == FailedRollout(worse, "no memory")
    assert bad not in (unit.current.revision, unit.target.revision)


async def test_a_rollback_is_called_one_also_when_the_store_failed_at_first(
    store: Store, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    units = make_units(store, machine)
    await serve(units, CHAT)
    await serve(units, chat("two"))
    unit = units.rollback("t", "chat", None)

    def fail(*_args: object, **_more: object) -> None:
        raise StoreUnavailable("locked")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "serve_revision", fail)
        with pytest.raises(StoreUnavailable):
            units.promote([unit.key])
    units.promote([unit.key])
    routes, _ = units.history(unit)
    assert routes[-1].cause == "rollback"


async def test_what_cannot_be_written_down_is_logged_once_and_written_later(
    store: Store,
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    units = make_units(store, machine)
    await units.deploy("t", CHAT)

    def fail(*_args: object) -> None:
        raise StoreUnavailable("locked")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "add_events", fail)
        for _ in range(3):
            with pytest.raises(StoreUnavailable):
                units.flush_notes()
    assert caplog.text.count("event=Deployed") == 1
    assert [event.reason for event in units.events("t", "chat", 0)] == ["Deployed"]
    assert caplog.text.count("event=Deployed") == 1


async def test_a_model_that_came_while_the_store_fails_ends_nothing(
    store: Store, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    units = make_units(store, machine)
    await units.deploy("t", CHAT)
    units.catalog.invalidate()

    def fail(*_args: object) -> None:
        raise StoreUnavailable("locked")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "units", fail)
        units.on_pull(PullEnd("sha256:0", "ModelReady", "it is here"))
    assert len(all_of(units)) == 1


async def test_a_revision_without_a_known_model_that_is_rolled_back_to_asks_for_it(
    store: Store, machine: Machine
) -> None:
    units = make_units(store, machine)
    await serve(units, CHAT)
    text = store.units()[0].wanted.spec_json
    store.put_unit("t", "chat", RevisionRecord("old", text, 1.0), now_s=2.0)
    await serve(units, CHAT)
    assert await units.catalog.pin_all()
    assert not units.catalog.unpinned.is_set()
    units.rollback("t", "chat", "old")
    assert units.catalog.unpinned.is_set()
    assert await units.catalog.pin_all()
    assert all_of(units)[0].target.host is not None


async def test_what_was_done_is_told_in_order(store: Store, machine: Machine) -> None:
    units = make_units(store, machine)
    await serve(units, CHAT)
    await serve(units, chat("two"))
    units.rollback("t", "chat", None)
    units.delete("t", "chat")
    units.delete("t", "chat")
    units.purge([("t", "chat")])
    reasons = [event.reason for event in units.events("t", "chat", 0)]
    assert reasons == [
        "Deployed",
        "RolledOut",
        "Deployed",
        "RolledOut",
        "RolledBack",
        "Deleting",
        "Deleted",
    ]
    with pytest.raises(UnitNotFound):
        units.events("t", "never-there", 0)
    with pytest.raises(UnitNotFound):
        units.events("other", "chat", 0)


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
async def test_a_record_that_cannot_be_read_is_its_units_problem_alone(
    store: Store, machine: Machine, text: str
) -> None:
    units, world = make_units(store, machine), World()
    await units.deploy("t", chat(name="other"))
    store.put_unit("t", "chat", RevisionRecord("r", text, 1.0), now_s=1.0)
    units = make_units(store, machine, world)
    broken, other = all_of(units)
    assert (other.target.problem, broken.host) == (None, None)
    status = unit_status(world, broken, machine.now_s)
    assert (status.phase, status.reason) == ("Failed", "Unreadable")
    assert "deploy it again, or delete it" in status.message
    routes = Routes(world, make_settings()).make((broken, other), 0.0)
    assert [route.refusal for route in routes.values()] == [status.message, None]
    shown = units.describe(broken)
    assert (shown["name"], shown["spec"]["model"]) == ("chat", "unknown")
    assert units.delete("t", "chat").deleted
    plan = make_plan(world, all_of(units), Scene().limits, machine.now_s)
    assert plan.purge == [("t", "chat")]


async def test_a_deploy_mends_a_record_of_the_same_revision_that_was_damaged(
    store: Store, machine: Machine
) -> None:
    units = make_units(store, machine)
    revision = (await units.deploy("t", CHAT)).unit.target.revision
    store.put_unit("t", "chat", RevisionRecord(revision, "{", 1.0), now_s=1.0)
    units = make_units(store, machine)
    assert all_of(units)[0].target.problem
    deployed = (await units.deploy("t", CHAT)).unit.target
    assert (deployed.problem, deployed.revision) == (None, revision)
