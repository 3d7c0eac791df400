"""Objects in, orders out: starts and stops that take too long."""

from sits.control._lifecycle import HostState, State
from sits.control._status import unit_status
from sits.wire import OpenTemplate, StopInstance
from tests.unit.control.builders import (
    COOL_S,
    DRAIN_S,
    LOAD_S,
    START_S,
    Scene,
    host_of,
    make_wanted,
    routes_of,
)

SMALL = host_of("small")
GRACE_S = 5.0


def starting(**scale: int) -> Scene:
    """Have `chat-1` start at 0.0, and nobody answer for it."""
    scene = Scene(make_wanted(scale=scale or {"max_instances": 1}))
    scene.warm()
    scene.load(waiting=1)
    assert scene.turn_words() == ["StartInstance chat-1"]
    return scene


def draining() -> Scene:
    """Have `chat-1` be told to stop at 100.0, and nobody answer for it."""
    scene = Scene(make_wanted())
    scene.serve()
    scene.load()
    scene.now_s = 40.0
    scene.turn()
    scene.now_s = 100.0
    assert scene.turn_words() == ["StopInstance chat-1"]
    return scene


def serving_beside_a_hung_one() -> Scene:
    """Have `chat-1` hang while it drains, beside `other-2`, which serves."""
    scene = draining()
    scene.wanted.append(make_wanted("other", scale={"min_instances": 1}))
    assert scene.turn_words() == ["StartInstance other-2"]
    scene.come_up("other-2")
    return scene


def test_a_start_has_its_time_and_the_plan_is_due_at_its_end() -> None:
    scene = starting()
    assert scene.due_s == START_S  # by the very plan that ordered it: nothing else may happen
    assert scene.plan().due_s == START_S
    scene.now_s = START_S - 0.1
    assert scene.turn() == []
    scene.come_up("chat-1")
    scene.now_s = START_S + 0.1
    assert scene.turn() == []
    assert scene.world.instances["chat-1"].life.state is State.READY


def test_a_start_that_takes_too_long_is_stopped_and_counts_as_one_failure() -> None:
    scene = starting()
    scene.now_s = START_S
    (order,) = scene.turn()
    assert (order.message, order.host) == (StopInstance("chat-1", DRAIN_S), SMALL)
    backoff = scene.world.scales["default", "chat"].backoff
    assert (backoff.failures, backoff.retry_at_s) == (1, START_S + 0.5)
    assert "chat-1" in backoff.reason
    assert "40 s" in backoff.reason
    assert scene.turn() == []
    scene.world.instance_gone("chat-1", "stopped", "killed", START_S + 0.1)
    assert scene.world.scales["default", "chat"].backoff.failures == 1
    scene.now_s = START_S + 0.5
    assert scene.turn_words() == ["StartInstance chat-2"]


def test_with_room_another_is_started_while_the_late_one_is_waited_for() -> None:
    scene = starting(max_instances=2)
    scene.now_s = START_S
    scene.turn()
    assert scene.due_s == START_S + 0.5
    scene.now_s = START_S + 0.5
    assert scene.turn_words() == ["StartInstance chat-2"]


def test_late_starts_in_a_row_become_a_crash_loop_that_says_why() -> None:
    scene = starting()
    for count in range(1, 6):
        (name,) = scene.world.instances
        scene.now_s += START_S
        assert scene.turn_words() == [f"StopInstance {name}"]
        scene.world.instance_gone(name, "stopped", "killed", scene.now_s)
        if count < 5:
            scene.now_s = scene.world.scales["default", "chat"].backoff.retry_at_s
            scene.turn()
    status = unit_status(scene.world, scene.wanted[0], scene.now_s)
    assert status.reason == "CrashLoop"
    assert "within 40 s" in status.message


def test_a_late_start_of_a_deleted_unit_is_stopped_once() -> None:
    scene = starting()
    scene.wanted = [make_wanted(deleted=True)]
    scene.now_s = START_S
    assert scene.turn_words() == ["StopInstance chat-1"]


def test_a_drain_has_its_time_and_the_plan_is_due_at_its_end() -> None:
    scene = draining()
    assert scene.due_s == scene.plan().due_s == 100.0 + DRAIN_S + GRACE_S
    scene.now_s = 100.0 + DRAIN_S + GRACE_S - 0.1
    assert scene.turn() == []


def test_an_instance_that_does_not_end_is_told_again_and_then_its_host_is_stopped() -> None:
    scene = draining()
    scene.now_s = 100.0 + DRAIN_S + GRACE_S
    (order,) = scene.turn()
    assert (order.message, order.host) == (StopInstance("chat-1", 0.0), SMALL)
    assert scene.due_s == scene.now_s + GRACE_S
    assert scene.turn() == []
    assert scene.due_s == scene.now_s + GRACE_S
    scene.now_s += GRACE_S
    assert scene.turn_words() == [f"StopHost {SMALL}"]
    for _ in range(2):  # what was done is not due again
        assert (scene.due_s or 1e9) > scene.now_s
        assert scene.turn() == []


def test_an_instance_that_ends_when_told_again_costs_no_host() -> None:
    scene = draining()
    scene.now_s = 100.0 + DRAIN_S + GRACE_S
    scene.turn()
    scene.world.instance_gone("chat-1", "stopped", "killed", scene.now_s)
    scene.now_s += 100.0
    assert scene.turn() == []
    assert scene.world.hosts[SMALL].life.state is HostState.READY


def test_a_host_that_is_stopped_for_a_hung_instance_is_off_the_table_first() -> None:
    scene = serving_beside_a_hung_one()
    scene.now_s = 115.0
    scene.turn()
    scene.now_s = 120.0
    assert scene.turn_words() == [f"StopHost {SMALL}"]
    routes = routes_of(scene)
    assert [route.instances for route in routes] == [(), ()]


def test_nothing_is_started_on_a_host_that_is_being_stopped_as_broken() -> None:
    scene = serving_beside_a_hung_one()
    scene.now_s = 115.0
    scene.turn()
    scene.load(waiting=1)
    scene.wanted.append(make_wanted("third", tenant="t3"))
    scene.now_s = 120.0
    orders = scene.turn()
    assert not any(isinstance(order.message, OpenTemplate) for order in orders)
    assert [type(order.message).__name__ for order in orders] == ["StopHost"]


def test_a_broken_host_is_started_anew_after_a_pause_and_serves_again() -> None:
    scene = serving_beside_a_hung_one()
    scene.now_s = 115.0
    scene.turn()
    scene.now_s = 120.0
    scene.turn()
    assert "chat-1" in scene.world.host_backoffs[SMALL].reason
    scene.world.host_down(SMALL, "stopped", scene.now_s)
    assert (scene.turn(), scene.world.instances) == ([], {})
    scene.now_s = 120.5
    assert scene.turn_words() == [f"StartHost {SMALL}"]
    assert scene.world.host_backoffs[SMALL].failures == 1


def test_a_host_has_its_time_to_load_and_the_plan_is_due_at_its_end() -> None:
    scene = Scene(make_wanted())
    scene.now_s = 10.0
    assert scene.turn_words() == [f"StartHost {SMALL}"]
    assert scene.due_s == scene.plan().due_s == 10.0 + LOAD_S
    scene.now_s = 100.0
    scene.world.host_up(SMALL, scene.now_s)  # it gets no more time for having come up
    assert scene.plan().due_s == 10.0 + LOAD_S
    scene.now_s = 10.0 + LOAD_S - 0.1
    assert scene.turn() == []


def test_a_host_that_hangs_is_stopped_and_counts_as_one_failure() -> None:
    for comes_up in (False, True):
        scene = Scene(make_wanted())
        scene.turn()
        if comes_up:
            scene.world.host_up(SMALL, 1.0)
        scene.now_s = LOAD_S
        assert scene.turn_words() == [f"StopHost {SMALL}"]
        assert scene.turn() == []
        scene.world.host_down(SMALL, "stopped", scene.now_s)
        backoff = scene.world.host_backoffs[SMALL]
        assert (backoff.failures, backoff.retry_at_s) == (1, LOAD_S + 0.5)
        assert "did not load its model within 300 s" in backoff.reason
        scene.now_s += 0.5
        assert scene.turn_words() == [f"StartHost {SMALL}"]


def test_a_host_that_was_taken_over_gets_its_time_from_then_on() -> None:
    scene = Scene(make_wanted())
    scene.world.host_up(SMALL, 1000.0)
    scene.now_s = 1000.0
    assert scene.turn() == []
    assert scene.due_s == 1000.0 + LOAD_S


def test_a_host_that_hangs_while_the_node_is_away_is_stopped_when_it_is_back() -> None:
    scene = Scene(make_wanted())
    scene.turn()
    scene.world.host_up(SMALL, 0.0)
    scene.world.node_lost()
    scene.now_s = LOAD_S + 1.0
    assert scene.turn() == []
    assert scene.due_s == COOL_S  # until when it is kept warm
    scene.world.node_up()
    assert scene.turn_words() == [f"StopHost {SMALL}"]
