"""A newer revision beside the one that serves: got ready, given traffic, and taken it again."""

from sits.control._lifecycle import State
from sits.control._status import unit_status
from sits.wire import HostReady
from tests.unit.control.builders import (
    Scene,
    host_of,
    make_release,
    make_wanted,
    routes_of,
    update,
)

SMALL, OTHER = host_of("small"), host_of("other")
LOADED = HostReady()


def test_a_revision_with_another_prompt_and_scale_touches_no_instance() -> None:
    scene = Scene(make_wanted())
    scene.serve()
    newer = make_release(prompt="new", scale={"max_instances": 5})
    scene.wanted = [update(scene.wanted[0], newer)]
    assert scene.turn_words() == ["TeachPrefix chat"]
    assert scene.turn() == []
    assert scene.serving() == newer.revision


def test_another_model_is_made_warm_while_the_old_one_serves() -> None:
    scene = Scene(make_wanted())
    scene.serve()
    scene.wanted = [update(scene.wanted[0], make_release(model="other"))]
    assert scene.turn_words() == [f"StartHost {OTHER}"]
    assert scene.world.instances["chat-1"].life.state is State.READY


def test_with_room_another_model_serves_before_the_old_one_stops() -> None:
    scene = Scene(make_wanted(scale={"max_instances": 2}))
    scene.serve()
    newer = make_release(model="other", scale={"max_instances": 2})
    scene.wanted = [update(scene.wanted[0], newer)]
    scene.warm("other")
    assert scene.turn_words() == ["StartInstance chat-2"]
    scene.come_up("chat-2", "other")
    assert scene.turn_words() == ["StopInstance chat-1"]
    scene.world.instance_gone("chat-1", "stopped", "", 1.0)
    assert scene.turn_words() == [f"StopHost {SMALL}"]


def test_without_room_the_old_one_drains_once_the_new_template_is_warm() -> None:
    scene = Scene(make_wanted())
    scene.serve()
    scene.wanted = [update(scene.wanted[0], make_release(model="other"))]
    scene.turn()
    scene.world.host_up(OTHER, scene.now_s)
    scene.world.host_ready(OTHER, LOADED)
    assert scene.turn_words() == ["OpenTemplate default"]
    assert scene.turn() == []
    scene.world.template_ready(OTHER, "default")
    assert scene.turn_words() == ["StopInstance chat-1"]
    assert scene.turn() == []  # one place, and it is taken until the old one is gone
    scene.world.instance_gone("chat-1", "stopped", "", 1.0)
    assert "StartInstance chat-2" in scene.turn_words()


def test_a_new_model_that_cannot_come_up_leaves_the_old_one_serving() -> None:
    scene = Scene(make_wanted())
    scene.serve()
    scene.wanted = [update(scene.wanted[0], make_release(model="other"))]
    for attempt in range(6):
        scene.now_s = attempt * 100.0
        scene.turn()
        scene.world.host_down(OTHER, "bad file", scene.now_s)
    assert scene.world.instances["chat-1"].life.state is State.READY


def test_an_old_models_idle_instances_go_once_the_new_template_is_warm() -> None:
    scene = Scene(make_wanted())
    scene.serve()
    scene.load()
    scene.wanted = [update(scene.wanted[0], make_release(model="other"))]
    assert scene.turn_words() == [f"StartHost {OTHER}"]
    scene.warm("other")
    assert scene.turn_words() == ["StopInstance chat-1"]
    scene.world.instance_gone("chat-1", "stopped", "", 1.0)
    assert scene.turn_words() == [f"StopHost {SMALL}"]


def test_a_unit_at_zero_goes_over_to_another_model_when_its_template_is_warm() -> None:
    scene = Scene(make_wanted())
    scene.warm()
    former, newer = scene.serving(), make_release(model="other")
    scene.wanted = [update(scene.wanted[0], newer)]
    scene.turn()
    assert scene.serving() == former
    scene.load(waiting=1)  # a request in between is the former revision's
    assert scene.turn_words() == ["StartInstance chat-1"]
    scene.load()
    scene.warm("other")
    scene.turn()
    assert scene.serving() == newer.revision


def test_a_new_model_takes_traffic_only_when_its_first_instance_is_up() -> None:
    scene = Scene(make_wanted(scale={"max_instances": 2}))
    scene.serve()
    former = scene.serving()
    newer = make_release(model="other", scale={"max_instances": 2})
    scene.wanted = [update(scene.wanted[0], newer)]
    scene.warm("other")
    assert scene.turn_words() == ["StartInstance chat-2"]
    assert scene.world.instances["chat-2"].is_canary
    assert [route.instances[0].instance for route in routes_of(scene)] == ["chat-1"]
    assert scene.serving() == former
    scene.come_up("chat-2", "other")
    scene.turn()
    assert scene.serving() == newer.revision
    assert [route.instances[0].instance for route in routes_of(scene)] == ["chat-2"]


def test_a_first_instance_that_fails_is_tried_again_and_the_former_revision_scales_on() -> None:
    scene = Scene(make_wanted(scale={"max_instances": 3}))
    scene.serve()
    newer = make_release(model="other", scale={"max_instances": 3})
    scene.wanted = [update(scene.wanted[0], newer)]
    scene.warm("other")
    scene.turn()
    scene.world.instance_gone("chat-2", "start_failed", "no memory", 0.0)
    assert scene.turn() == []
    assert scene.plan().due_s == 0.5
    scene.load(running=5)  # more than one instance takes
    assert scene.turn_words() == ["StartInstance chat-3"]
    assert not scene.world.instances["chat-3"].is_canary
    scene.now_s = 0.5
    assert scene.turn_words() == ["StartInstance chat-4"]
    assert scene.world.instances["chat-4"].is_canary


def test_instances_never_pass_the_maximum_while_a_revision_takes_over() -> None:
    scene = Scene(make_wanted(scale={"max_instances": 2}))
    scene.serve()
    scene.load(running=8)
    assert scene.turn_words() == ["StartInstance chat-2"]
    scene.come_up("chat-2")
    newer = make_release(model="other", scale={"max_instances": 2})
    scene.wanted = [update(scene.wanted[0], newer)]
    for _ in range(20):
        scene.warm("other")
        scene.turn()
        assert len(scene.world.instances) <= 2
        for item in list(scene.world.instances.values()):
            if item.life.state is State.STARTING:
                scene.come_up(item.name, "other")
            elif item.life.state is State.DRAINING:
                scene.world.instance_gone(item.name, "stopped", "", 1.0)
    assert {item.host for item in scene.world.instances.values()} == {OTHER}


def test_what_was_rolled_back_before_it_took_traffic_leaves_nothing() -> None:
    scene = Scene(make_wanted(scale={"max_instances": 2}))
    scene.serve()
    former = scene.wanted[0]
    newer = make_release(model="other", scale={"max_instances": 2})
    scene.wanted = [update(former, newer)]
    scene.warm("other")
    scene.turn()
    scene.wanted = [former]
    assert scene.turn_words() == ["StopInstance chat-2"]
    scene.world.instance_gone("chat-2", "stopped", "", 1.0)
    assert scene.turn_words() == [f"StopHost {OTHER}"]


def fail_starts(scene: Scene, count: int) -> None:
    """Have so many starts in a row fail, each as soon as it is made."""
    for number in range(count):
        assert scene.plan().revert == {}
        (start,) = [word for word in scene.turn_words() if word.startswith("StartInstance")]
        scene.world.instance_gone(start.split()[1], "start_failed", "no memory", scene.now_s)
        scene.now_s += 2.0**number / 2


def take_over(scene: Scene, model: str) -> None:
    """Deploy another model to a unit with room for one instance, and have it take traffic."""
    scene.wanted = [update(scene.wanted[0], make_release(model=model))]
    scene.warm(model)
    scene.turn()
    for item in list(scene.world.instances.values()):
        if item.life.state is State.DRAINING:
            scene.world.instance_gone(item.name, "stopped", "", scene.now_s)


def test_a_revision_of_which_no_instance_comes_up_gives_traffic_back() -> None:
    scene = Scene(make_wanted())
    scene.serve()
    scene.turn()
    former = scene.wanted[0].current
    take_over(scene, "other")
    newer = scene.serving()
    assert newer != former.revision
    fail_starts(scene, 3)
    reverted = scene.plan().revert["default", "chat"]
    assert (reverted.revision, "no memory" in reverted.message) == (newer, True)
    scene.revert(former)
    for _ in range(3):
        assert scene.plan().promote == []  # until somebody deploys again
        scene.turn()
        scene.now_s += 100.0
    shown = unit_status(scene.world, scene.wanted[0], scene.now_s)
    assert (shown.phase, shown.reason) == ("Updating", "RolloutFailed")
    scene.wanted = [update(scene.wanted[0], scene.wanted[0].target)]  # it was deployed again
    (order,) = scene.turn()
    assert (order.is_canary, order.host) == (True, OTHER)


def test_traffic_goes_back_to_what_could_serve_also_while_a_third_revision_gets_ready() -> None:
    scene = Scene(make_wanted())
    scene.serve()
    scene.turn()
    good = scene.wanted[0].current.revision
    take_over(scene, "other")
    scene.wanted = [update(scene.wanted[0], make_release(model="third", progress="downloading"))]
    fail_starts(scene, 3)
    assert scene.wanted[0].proven == good
    assert list(scene.plan().revert) == [("default", "chat")]


def test_a_revision_that_was_up_once_does_not_give_traffic_back() -> None:
    scene = Scene(make_wanted())
    scene.serve()
    scene.turn()
    scene.wanted = [update(scene.wanted[0], make_release(prompt="new"))]
    scene.turn()
    scene.turn()
    assert scene.wanted[0].proven == scene.serving()
    for _ in range(6):
        for name in list(scene.world.instances):
            scene.world.instance_gone(name, "instance_lost", "killed", scene.now_s)
        scene.now_s += 40.0
        scene.turn()
    assert scene.plan().revert == {}


def test_a_first_revision_has_nothing_to_give_traffic_back_to() -> None:
    scene = Scene(make_wanted())
    scene.warm()
    scene.load(waiting=1)
    fail_starts(scene, 4)
    scene.turn()
    assert scene.plan().revert == {}


def test_old_instances_serve_on_while_the_new_template_cannot_be_had_again() -> None:
    scene = Scene(make_wanted(scale={"max_instances": 2}))
    scene.serve()
    scene.load(running=8)
    scene.turn()
    scene.come_up("chat-2")
    newer = make_release(model="other", scale={"max_instances": 2})
    scene.wanted = [update(scene.wanted[0], newer)]
    scene.warm("other")
    assert scene.turn_words() == ["StopInstance chat-1"]  # one place at a time
    scene.world.template_failed(OTHER, "default", "no memory", scene.now_s)
    scene.world.instance_gone("chat-1", "stopped", "", scene.now_s)
    assert scene.turn_words() == []
    assert scene.world.instances["chat-2"].life.state is State.READY
