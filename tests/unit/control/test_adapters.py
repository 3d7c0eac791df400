"""Units with adapters: what they are bound to, what instances are told, what people are told."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from sits.control import SystemClock
from sits.control._models import Models, PullEnd
from sits.control._names import Names
from sits.control._pins import Pins, decode_pins, encode_pins
from sits.control._room import Room
from sits.control._status import unit_status
from sits.control._units import Units
from sits.control._wanted import Release, Wanted
from sits.control._world import World
from sits.models import ModelError, ModelFile, ModelKind, ModelPin
from sits.spec import Loaded, canonical_json, load_unit, revision_id
from sits.store import RevisionRecord, Store, open_store
from sits.testing import FakeModels
from sits.wire import StartInstance, TeachPrefix, UnitAdapter, UnitPrompt
from tests.unit.control.builders import Scene, make_release, make_settings, make_wanted, update

pytestmark = pytest.mark.anyio

TONE = {"adapter": "file:///tone.gguf", "weight": "25%"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path / "sits.db")
    yield opened
    opened.close()


def make_units(store: Store, source: FakeModels) -> Units:
    models = Models(source, Path("/home"), SystemClock(), lambda end: None)
    world, wake = World(), lambda: None
    return Units(store, world, SystemClock(), models, Room(), make_settings(), wake)


def chat(lora: str, rest: str = "") -> Loaded:
    return load_unit(f"name: chat\nmodel: builtin://small\nlora: {lora}\n{rest}", "chat")


async def deploy(units: Units, lora: str, rest: str = "") -> Release:
    return (await units.deploy("t", chat(lora, rest))).unit.target


def adapter_pin(name: str, digit: str = "1") -> ModelPin:
    return ModelPin(f"file:///{name}.gguf", "sha256:" + digit * 64, 9, ModelKind.ADAPTER)


def make_adapted(*shares: str, digit: str = "1", here: bool = True, **fields: object) -> Release:
    """Return a revision with adapters that have these shares; `here`: whether their files are."""
    names = [f"tone{number}" for number in range(len(shares))]
    lora = [
        {"adapter": f"file:///{name}.gguf", "weight": share}
        for name, share in zip(names, shares, strict=True)
    ]
    pins = tuple(adapter_pin(name, digit) for name in names)
    files = tuple(ModelFile(Path(f"/blobs/{name}"), name, 9) for name in names)
    release = make_release(lora=lora, **fields)  # type: ignore[arg-type]
    return replace(
        release,
        adapter_pins=pins,
        adapter_files=files if here else (),
        revision=release.revision + digit,
    )


def adapted_scene(release: Release) -> Scene:
    wanted = Wanted("default", "chat", release, release, 1.0, 2.0)
    scene = Scene(wanted)
    scene.limits = replace(scene.limits, make_name=Names(1))
    return scene


# deploys


async def test_a_revision_is_bound_to_the_bytes_of_its_adapters(store: Store) -> None:
    source = FakeModels()
    units = make_units(store, source)
    first = await deploy(units, "file:///tone.gguf")
    assert [pin.reference for pin in first.adapter_pins] == ["file:///tone.gguf"]
    assert len(first.digests) == 2
    assert source.kept == {*first.digests}
    moved = replace(first.adapter_pins[0], digest="sha256:" + "0" * 64)
    source.pin_adapter = lambda reference, model: moved  # type: ignore[method-assign]
    second = await deploy(units, "file:///tone.gguf")
    assert second.revision != first.revision
    assert second.variant != first.variant
    assert source.kept == {*first.digests, *second.digests}
    assert all_adapters(make_units(store, source)) == [
        (UnitAdapter("/tone.gguf", moved.digest, 1_000_000),)
    ]


def all_adapters(units: Units) -> list[tuple[UnitAdapter, ...]]:
    return [unit.target.adapters for unit in units.catalog.wanted()]


async def test_an_adapter_that_the_model_cannot_have_refuses_the_deploy(store: Store) -> None:
    source = FakeModels()
    source.missing = {"/gone.gguf"}
    units = make_units(store, source)
    with pytest.raises(ModelError, match=r"adapter 'file:///gone\.gguf'"):
        await units.deploy("t", chat("file:///gone.gguf"))
    assert list(units.catalog.wanted()) == []


async def test_only_files_are_acted_on_and_the_others_are_told(store: Store) -> None:
    lora = "[{adapter: 'adapter://tone@v2', weight: 10%}, {adapter: file:///a.gguf, weight: 5%}]"
    units = make_units(store, FakeModels())
    release = await deploy(units, lora)
    assert [adapter.share_ppm for adapter in release.adapters] == [50_000]
    (idle,) = release.idle_fields
    assert (idle.path, idle.why) == (
        "lora[0]",
        "the platform makes no adapters yet; name a file, as file:///PATH.gguf",
    )


async def test_adapters_of_models_elsewhere_are_not_looked_for(store: Store) -> None:
    source = FakeModels()
    source.missing = {"/tone.gguf"}
    text = (
        "name: far\nmodel: openai://m\nlora: file:///tone.gguf\n"
        "engine: {kind: openai, endpoints: [http://127.0.0.1:1/v1]}\n"
    )
    release = (await make_units(store, source).deploy("t", load_unit(text, "far"))).unit.target
    assert release.adapter_pins == ()
    assert [field.path for field in release.idle_fields] == ["lora[0]"]
    assert release.host is not None


async def test_a_unit_waits_for_its_adapter_to_be_taken_in(store: Store) -> None:
    source = FakeModels()
    source.away = {"/tone.gguf"}
    source.failures = [ModelError("adapter 'file:///tone.gguf' is another file")]
    send, ends = anyio.create_memory_object_stream[PullEnd](10)
    models = Models(source, Path("/home"), SystemClock(), send.send_nowait)
    units = Units(store, World(), SystemClock(), models, Room(), make_settings(), lambda: None)
    release = await deploy(units, "file:///tone.gguf")
    assert (release.host, release.adapters) == (None, ())
    (unit,) = units.catalog.wanted()
    seen: list[Release] = []
    async with send, ends, anyio.create_task_group() as group:
        group.start_soon(models.run)
        with anyio.fail_after(5):
            async for end in ends:
                if end.reason == "PullingModel":
                    continue
                seen.append(units.catalog.freshen(unit).target)
                if end.reason == "ModelReady":
                    break
                models.retry(end.digest)
        group.cancel_scope.cancel()
    assert [each.host is None for each in seen] == [True, False]
    assert seen[0].problem == "adapter 'file:///tone.gguf' is another file"
    assert [adapter.path for adapter in seen[1].adapters] == ["/tone.gguf"]


async def test_what_an_older_version_deployed_with_an_adapter_says_what_to_do(
    store: Store,
) -> None:
    source = FakeModels()
    units = make_units(store, source)
    unit = chat("file:///tone.gguf").unit
    pin = source.pin(unit.model)
    revision = revision_id(unit, pin.digest)
    record = RevisionRecord(revision, canonical_json(unit), 1.0, encode_pins(Pins(pin)))
    store.put_unit("t", "chat", record, now_s=1.0)
    units.catalog.invalidate()
    (wanted,) = units.catalog.wanted()
    assert wanted.target.problem is not None
    assert "deploy it again" in wanted.target.problem


def test_pins_are_kept_as_they_were_before_there_were_adapters() -> None:
    model = ModelPin("builtin://x", "sha256:" + "2" * 64, 3, ModelKind.CHAT)
    old = (
        '{"reference":"builtin://x","digest":"sha256:' + "2" * 64 + '","size_bytes":3,'
        '"kind":"chat","commit":null,"file":null}'
    )
    assert encode_pins(Pins(model)) == old
    assert decode_pins(old) == Pins(model)
    both = Pins(model, (adapter_pin("a"), adapter_pin("b", "3")))
    assert decode_pins(encode_pins(both)) == both


# plans


def test_instances_and_lessons_are_told_of_the_adapters() -> None:
    scene = adapted_scene(make_adapted("25%", "50%", prompt={"system": "Be brief."}))
    scene.warm()
    scene.load(waiting=1)
    messages = [order.message for order in scene.turn() if order.host]
    adapters = tuple(
        UnitAdapter(f"/blobs/tone{n}", "sha256:" + "1" * 64, share)
        for n, share in enumerate((250_000, 500_000))
    )
    starts = [message for message in messages if isinstance(message, StartInstance)]
    assert [start.adapters for start in starts] == [adapters]
    lessons = [message for message in messages if isinstance(message, TeachPrefix)]
    assert lessons == [TeachPrefix("default", "chat", UnitPrompt("Be brief."), adapters)]
    assert not [order for order in scene.turn() if isinstance(order.message, TeachPrefix)]


@pytest.mark.parametrize(
    "newer", [make_adapted("50%"), make_adapted("25%", digit="2"), make_release()]
)
def test_other_adapters_or_shares_are_another_variant(newer: Release) -> None:
    former = make_adapted("25%")
    assert former.host == newer.host
    assert not newer.runs_as(former)
    scene = adapted_scene(former)
    scene.serve()
    (name,) = scene.world.instances
    scene.wanted = [update(scene.wanted[0], newer)]
    assert scene.turn_words()[0] == f"StopInstance {name}"


def test_the_same_adapters_with_another_prompt_keep_their_instances() -> None:
    former = make_adapted("25%")
    assert make_adapted("25%", prompt="new").runs_as(former)
    assert make_wanted().target.variant == ""


def conditions(scene: Scene) -> dict[str, tuple[str, str, str]]:
    status = unit_status(scene.world, scene.wanted[0], scene.now_s)
    return {each.type: (each.status, each.reason, each.message) for each in status.conditions}


def test_a_condition_tells_how_the_adapters_are() -> None:
    here = make_adapted("25%")
    for release, status, reason, words in (
        (here, "True", "Here", "file:///tone0.gguf"),
        (
            replace(make_adapted("25%", here=False), problem="it is gone"),
            "False",
            "Unavailable",
            "it is gone",
        ),
        (
            replace(make_adapted("25%", here=False), progress="it waits"),
            "Unknown",
            "Pulling",
            "it waits",
        ),
    ):
        found = conditions(adapted_scene(release))["AdaptersAvailable"]
        assert found == (status, reason, words)
    assert "AdaptersAvailable" not in conditions(Scene(make_wanted()))


def test_an_adapter_is_called_as_the_unit_calls_it_where_its_start_failed() -> None:
    scene = adapted_scene(make_adapted("25%"))
    scene.warm()
    for _ in range(4):
        scene.load(waiting=1)
        scene.turn()
        for name in list(scene.world.instances):
            message = "/blobs/tone0: llama.cpp cannot use this file"
            scene.world.instance_gone(name, "start_failed", message, scene.now_s)
        scene.now_s += 31.0
    status = unit_status(scene.world, scene.wanted[0], scene.now_s - 31.0)
    assert "file:///tone0.gguf: llama.cpp cannot use this file" in status.message
