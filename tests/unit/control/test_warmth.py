"""Warm, cool and cold: what is kept, what goes, what is taught, and what is told of it."""

from dataclasses import replace
from pathlib import Path

from sits.control._memory import MachineMemory, read_memory
from sits.control._status import UnitStatus, unit_status
from sits.control._tracked import TemplateState
from sits.control._wanted import Wanted
from sits.wire import (
    CloseTemplate,
    HostReady,
    Instance,
    InstanceReady,
    MemoryUse,
    OpenTemplate,
    StartInstance,
    TeachPrefix,
    Tier,
    UnitPrompt,
)
from tests.unit.control.builders import (
    COOL_S,
    Scene,
    host_of,
    make_release,
    make_wanted,
    routes_of,
    update,
)
from tests.unit.control.test_plan import make_remote

SMALL, OTHER = host_of("small"), host_of("other")
QUICK = {"idle": "1s", "cool_after": "5s"}
GB = 1 << 30


def status(scene: Scene, number: int = 0) -> UnitStatus:
    return unit_status(scene.world, scene.wanted[number], scene.now_s)


def at(scene: Scene, now_s: float) -> list[str]:
    scene.now_s = now_s
    return scene.turn_words()


def cool_down(scene: Scene) -> None:
    """Let the only unit's time run out, and its host end."""
    scene.warm()
    assert at(scene, 5.0) == [f"StopHost {SMALL}"]
    scene.world.host_down(SMALL, "stopped", scene.now_s)
    assert scene.turn() == []


def test_a_unit_is_made_warm_once_and_is_cool_when_its_time_is_over() -> None:
    scene = Scene(replace(make_wanted(scale=QUICK), serving=None))
    scene.warm()
    assert at(scene, 3000.0) == []  # made warm: from now on it takes traffic
    assert scene.serving() is not None
    assert at(scene, 3004.9) == []
    assert scene.due_s == 3005.0
    assert at(scene, 3005.0) == [f"StopHost {SMALL}"]
    scene.world.host_down(SMALL, "stopped", 3005.0)
    assert at(scene, 9000.0) == []


def test_a_cool_unit_is_ready_and_says_how_its_next_start_would_be() -> None:
    scene = Scene(make_wanted(scale=QUICK))
    cool_down(scene)
    shown = status(scene)
    assert (shown.phase, shown.reason, shown.tier) == ("Ready", "ScaledToZero", Tier.COOL)
    assert shown.refusal is None
    ready = next(each for each in shown.conditions if each.type == "Ready")
    assert (ready.status, ready.reason) == ("True", "Cool")
    assert routes_of(scene)[0].pending is None


def test_a_request_to_a_cool_unit_starts_all_with_one_round_trip_to_the_host() -> None:
    scene = Scene(make_wanted(scale=QUICK))
    cool_down(scene)
    scene.load(waiting=1)
    assert scene.turn_words() == [f"StartHost {SMALL}"]
    assert status(scene).phase == "Ready"
    assert routes_of(scene)[0].pending == "its model is being loaded"
    scene.world.host_up(SMALL, scene.now_s)
    scene.world.host_ready(SMALL, HostReady())
    assert scene.turn_words() == ["OpenTemplate default", "StartInstance chat-1"]


def test_a_running_request_keeps_its_unit_warm_and_the_time_begins_after_it() -> None:
    scene = Scene(make_wanted(scale=QUICK))
    scene.serve()
    assert at(scene, 1000.0) == []
    scene.load()
    assert at(scene, 1000.0) == []
    assert at(scene, 1001.0) == ["StopInstance chat-1"]
    scene.world.instance_gone("chat-1", "stopped", "", 1001.0)
    assert at(scene, 1004.9) == []
    assert at(scene, 1005.0) == [f"StopHost {SMALL}"]


def test_a_unit_that_keeps_instances_is_never_cool() -> None:
    scene = Scene(make_wanted(scale={"cool_after": "5s", "min_instances": 1}))
    scene.warm()
    scene.turn()
    scene.come_up("chat-1")
    assert at(scene, 10_000.0) == []


def test_where_a_unit_says_nothing_the_setting_holds_and_the_longest_of_a_tenants_wins() -> None:
    scene = Scene(make_wanted("a", scale=QUICK), make_wanted("b"))
    scene.warm()
    assert at(scene, COOL_S - 1.0) == []
    assert at(scene, COOL_S) == [f"StopHost {SMALL}"]


def test_one_tenants_template_goes_while_anothers_keeps_the_host() -> None:
    scene = Scene(make_wanted("a", scale=QUICK), make_wanted("b", tenant="t2"))
    scene.warm()
    scene.world.template_ready(SMALL, "t2")
    (order,) = (scene := _later(scene, 5.0)).turn()
    assert (order.message, order.host) == (CloseTemplate("default"), SMALL)
    assert status(scene).tier is Tier.COOL
    assert scene.turn() == []
    scene.world.template_closed(SMALL, "default")
    assert scene.turn() == []
    assert scene.world.hosts[SMALL].templates == {"t2": TemplateState.READY}
    cooled = [note for note in scene.world.notes if note.reason == "Cooled"]
    assert [note.key for note in cooled] == [("default", "a")]


def _later(scene: Scene, now_s: float) -> Scene:
    scene.now_s = now_s
    return scene


def test_a_request_that_comes_while_its_template_closes_waits_for_that_but_not_for_ever() -> None:
    scene = Scene(make_wanted("a", scale=QUICK), make_wanted("b", tenant="t2"))
    scene.warm()
    scene.world.template_ready(SMALL, "t2")
    assert at(scene, 5.0) == ["CloseTemplate default"]
    scene.load(waiting=1, unit="a")
    assert scene.turn() == []
    assert scene.due_s == 10.0
    scene.world.template_closed(SMALL, "default")
    assert scene.turn_words() == ["OpenTemplate default", "StartInstance a-1"]


def test_a_host_that_does_not_say_that_it_closed_a_template_is_told_to_open_it_anyway() -> None:
    scene = Scene(make_wanted("a", scale=QUICK), make_wanted("b", tenant="t2"))
    scene.warm()
    scene.world.template_ready(SMALL, "t2")
    at(scene, 5.0)
    scene.load(waiting=1, unit="a")
    assert at(scene, 10.0) == ["OpenTemplate default"]
    assert scene.turn_words() == ["StartInstance a-1"]


def test_under_memory_pressure_what_nothing_needs_goes_and_stays_away() -> None:
    scene = Scene(make_wanted("a"), make_wanted("b", "other"))
    scene.warm()
    scene.warm("other")
    scene.load(running=1, unit="a")
    scene.world.machine = MachineMemory(10 * GB, GB // 2)  # less than a tenth is left
    assert scene.turn_words() == ["StartInstance a-1"]  # what takes nothing known stays
    scene.world.memory_used(SMALL, MemoryUse(GB, {"default": GB}))
    scene.world.memory_used(OTHER, MemoryUse(GB, {"default": GB}))
    assert at(scene, 10.0) == [f"StopHost {OTHER}"]
    assert scene.turn() == []  # what goes is as good as gone
    scene.world.host_down(OTHER, "stopped", 10.0)
    scene.world.machine = MachineMemory(10 * GB, 5 * GB)
    assert at(scene, 20.0) == []  # nor does it come back before it is needed
    assert status(scene, 1).tier is Tier.COOL


def test_failures_of_a_host_are_remembered_while_it_is_cool() -> None:
    scene = Scene(make_wanted(scale=QUICK))
    scene.warm()
    scene.world.host_down(SMALL, "bad magic", 4.9)
    assert at(scene, 1000.0) == []  # its time is over, so it is not tried again
    assert scene.world.host_backoffs[SMALL].failures == 1
    assert (status(scene).phase, status(scene).reason) == ("Ready", "ScaledToZero")


def make_prompted(name: str = "chat") -> Wanted:
    return make_wanted(name, prompt={"system": "Be brief.", "template": "{{ q }}"})


PROMPT = UnitPrompt("Be brief.", "{{ q }}")


def test_each_prompt_is_taught_once_in_a_templates_life_when_it_is_there() -> None:
    scene = Scene(make_prompted("a"), make_prompted("b"), make_wanted("bare"))
    scene.warm()
    scene.load(waiting=1, unit="b")
    orders = scene.turn()
    assert [order.message for order in orders if order.host] == [
        StartInstance("b-1", "default", "b", prompt=PROMPT),
        TeachPrefix("default", "b", PROMPT),  # whose requests wait comes first
        TeachPrefix("default", "a", PROMPT),
    ]
    assert scene.turn() == []
    scene.world.template_failed(SMALL, "default", "killed", 0.0)
    assert at(scene, 0.5) == ["OpenTemplate default"]
    scene.world.template_ready(SMALL, "default")
    taught = [order.message for order in scene.turn() if isinstance(order.message, TeachPrefix)]
    assert len(taught) == 2


def test_a_new_prompt_is_taught_and_the_old_one_is_not_again() -> None:
    scene = Scene(make_prompted())
    scene.warm()
    assert scene.turn_words() == ["TeachPrefix chat"]
    scene.wanted = [update(scene.wanted[0], make_release(prompt={"system": "Be kind."}))]
    (order,) = scene.turn()
    assert order.message == TeachPrefix("default", "chat", UnitPrompt("Be kind.", None))
    assert scene.turn() == []


def test_endpoints_elsewhere_are_taught_nothing_and_told_to_close_nothing() -> None:
    bare, prompted = make_remote().target, make_prompted().target
    assert bare.unit is not None
    assert prompted.unit is not None
    unit = bare.unit.model_copy(update={"prompt": prompted.unit.prompt})
    release = replace(bare, unit=unit)
    scene = Scene(replace(make_remote(), target=release, serving=release))
    scene.turn()
    host = next(iter(scene.world.hosts))
    scene.world.host_up(host, 0.0)
    scene.world.host_ready(host, HostReady())
    assert [each.message for each in scene.turn()] == [OpenTemplate("default")]
    scene.world.template_ready(host, "default")
    assert scene.turn() == []
    scene.now_s = COOL_S
    assert scene.turn_words() == [f"StopHost {host}"]


def test_starts_are_counted_by_tier_and_those_of_an_earlier_control_are_not() -> None:
    scene = Scene(make_wanted(scale={"max_instances": 3}))
    scene.serve()
    cool = InstanceReady("chat-2", "default", "chat", Instance("/run/2.sock", Tier.COOL, 4))
    scene.world.instance_ready(SMALL, cool)  # nobody asked for it here
    assert status(scene).starts == {"warm": 1}
    scene.wanted = [make_wanted(deleted=True)]
    scene.turn()
    for name in list(scene.world.instances):
        scene.world.instance_gone(name, "stopped", "", 0.0)
    scene.turn()
    assert scene.world.starts == {}


def test_a_start_for_which_requests_waited_while_the_model_was_taken_in_is_cold() -> None:
    absent = make_release(progress="downloading")
    scene = Scene(replace(make_wanted(), target=absent, serving=None))
    scene.load(waiting=1)
    assert scene.turn() == []
    here = make_release()
    scene.wanted = [replace(scene.wanted[0], target=here)]
    scene.warm()
    scene.turn()
    scene.come_up("chat-1")
    (routed,) = routes_of(scene)[0].instances
    assert routed.tier is Tier.COLD
    assert status(scene).starts == {"cold": 1}


def test_a_start_after_requests_gave_up_waiting_for_the_model_is_not_cold() -> None:
    absent = make_release(progress="downloading")
    scene = Scene(replace(make_wanted(), target=absent, serving=None))
    scene.load(waiting=1)
    scene.turn()
    scene.load()
    scene.turn()
    scene.wanted = [replace(scene.wanted[0], target=make_release())]
    scene.serve()
    assert status(scene).starts == {"warm": 1}


def test_the_machines_memory_is_read_as_the_kernel_says_it(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:       2048 kB\nMemFree:  1 kB\nMemAvailable:   1024 kB\n")
    assert read_memory(meminfo) == MachineMemory(2048 * 1024, 1024 * 1024)
    meminfo.write_text("MemTotal:       2048 kB\n")
    assert read_memory(meminfo) is None
    assert read_memory(tmp_path / "absent") is None
