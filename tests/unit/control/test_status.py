"""What people are told about a unit, and what gateways are."""

from dataclasses import replace

from sits.control._status import UnitPhase, UnitStatus, unit_status
from sits.policy import CRASH_LOOP_FAILURES, Backoff, ScaleState
from sits.wire import HostReady, RoutedInstance, Tier
from tests.unit.control.builders import Scene, host_of, make_release, make_wanted, routes_of, update

SMALL = host_of("small")


def status(scene: Scene) -> UnitStatus:
    return unit_status(scene.world, scene.wanted[0], scene.now_s)


def summary(scene: Scene) -> tuple[str, str, str]:
    shown = status(scene)
    assert shown.message
    return str(shown.phase), shown.reason, str(shown.tier)


def test_a_unit_goes_from_deploying_to_ready_to_serving() -> None:
    scene = Scene(replace(make_wanted(), serving=None))
    assert summary(scene) == ("Deploying", "LoadingModel", "cool")
    scene.turn()
    scene.world.host_up(SMALL, scene.now_s)
    scene.world.host_ready(SMALL, HostReady())
    assert summary(scene) == ("Deploying", "OpeningTemplate", "cool")
    scene.world.template_ready(SMALL, "default")
    scene.turn()
    assert summary(scene) == ("Ready", "ScaledToZero", "warm")
    scene.load(waiting=1)
    scene.turn()
    assert summary(scene) == ("Ready", "Starting", "warm")
    scene.come_up("chat-1")
    assert summary(scene) == ("Ready", "Serving", "hot")
    assert status(scene).instances == {"starting": 0, "ready": 1, "draining": 0}


def test_a_deleted_unit_is_deleting_and_not_routed() -> None:
    scene = Scene(make_wanted(deleted=True))
    assert status(scene).phase is UnitPhase.DELETING
    assert routes_of(scene) == ()


def test_a_unit_without_its_model_has_failed_and_says_why() -> None:
    scene = Scene(make_wanted(problem="not installed; install it"))
    assert summary(scene) == ("Failed", "ModelUnavailable", "cold")
    assert status(scene).refusal == "not installed; install it"


def test_failures_show_before_they_refuse() -> None:
    scene = Scene(make_wanted())
    scene.turn()
    scene.world.host_down(SMALL, "bad magic", 0.0)
    shown = status(scene)
    assert (shown.phase, shown.reason, shown.refusal) == (UnitPhase.READY, "Retrying", None)
    assert "bad magic" in shown.message


def test_a_host_in_a_crash_loop_refuses_until_its_next_try() -> None:
    scene = Scene(make_wanted())
    for _ in range(5):
        scene.turn()
        scene.world.host_down(SMALL, "bad magic", scene.now_s)
        scene.now_s += 20.0
    scene.now_s -= 20.0
    assert summary(scene) == ("Failed", "CrashLoop", "cool")
    assert "bad magic" in (status(scene).refusal or "")
    scene.now_s += 30.0  # the next request tries again, and nothing is better for that
    assert status(scene).refusal is None
    assert summary(scene)[:2] == ("Failed", "CrashLoop")
    assert conditions(scene)["Ready"] == ("False", "CrashLoop")


def test_a_models_file_is_called_as_its_unit_calls_the_model() -> None:
    scene = Scene(make_wanted())
    scene.turn()
    scene.world.host_down(SMALL, "/models/small.gguf: bad magic", 0.0)
    assert "builtin://small: bad magic" in status(scene).message


def test_a_unit_that_still_serves_is_never_refused() -> None:
    scene = Scene(make_wanted(scale={"max_instances": 2}))
    scene.serve()
    for _ in range(5):
        scene.world.template_failed(SMALL, "default", "no memory", 0.0)
    assert status(scene).refusal is None


def test_routes_carry_what_a_gateway_needs_and_only_ready_instances() -> None:
    scene = Scene(make_wanted(prompt={"system": "S", "template": "T"}))
    scene.serve()
    (route,) = routes_of(scene, hold_s=7.0, queue_limit=3)
    assert route.instances == (RoutedInstance("chat-1", "/run/chat-1.sock", Tier.WARM, 4),)
    assert (route.system, route.template) == ("S", "T")
    assert (route.hold_s, route.queue_limit, route.created_s) == (7.0, 3, 1)
    scene.wanted = [make_wanted(deleted=True)]
    scene.turn()
    assert routes_of(scene) == ()


def conditions(scene: Scene) -> dict[str, tuple[str, str]]:
    return {each.type: (each.status, each.reason) for each in status(scene).conditions}


def test_conditions_tell_each_part_from_the_first_deploy_to_the_first_answer() -> None:
    scene = Scene(make_wanted())
    scene.wanted = [replace(scene.wanted[0], serving=None)]
    assert conditions(scene) == {
        "Ready": ("Unknown", "GettingReady"),
        "ModelAvailable": ("True", "Here"),
        "RolledOut": ("Unknown", "Progressing"),
        "Active": ("False", "ScaledToZero"),
        "ActedOn": ("True", "Whole"),
    }
    scene.serve()
    assert conditions(scene) == {
        "Ready": ("True", "Serving"),
        "ModelAvailable": ("True", "Here"),
        "RolledOut": ("True", "Complete"),
        "Active": ("True", "Running"),
        "ActedOn": ("True", "Whole"),
    }


def test_a_model_that_is_being_taken_in_says_how_far_it_is() -> None:
    release = make_release(progress="downloading: 43 % of 91 MB")
    scene = Scene(replace(make_wanted(), target=release, serving=None))
    assert summary(scene) == ("Deploying", "PullingModel", "cold")
    assert status(scene).message == "downloading: 43 % of 91 MB"
    assert conditions(scene)["ModelAvailable"] == ("Unknown", "Pulling")
    assert status(scene).refusal is None


def test_gateways_are_told_what_a_unit_waits_for_until_it_can_start() -> None:
    scene = Scene(make_wanted())
    waits = [routes_of(scene)[0].pending]
    scene.warm()
    waits.append(routes_of(scene)[0].pending)
    release = make_release(progress="downloading")
    scene.wanted = [replace(make_wanted(), target=release, serving=None)]
    waits.append(routes_of(scene)[0].pending)
    assert waits == ["its model is being loaded", None, "its model is being taken in"]


def test_while_a_newer_revision_gets_ready_the_former_serves_and_is_named() -> None:
    scene = Scene(make_wanted(prompt="old"))
    scene.serve()
    former = scene.wanted[0].target.revision
    scene.wanted = [update(scene.wanted[0], make_release(model="other", prompt="new"))]
    assert summary(scene) == ("Updating", "LoadingModel", "hot")
    assert status(scene).serving_revision == former
    assert f"revision {former} serves until then" in status(scene).message
    assert conditions(scene)["RolledOut"] == ("Unknown", "Progressing")
    assert [route.template for route in routes_of(scene)] == ["old"]


def test_a_newer_revision_whose_model_cannot_be_had_fails_and_the_former_serves() -> None:
    scene = Scene(make_wanted())
    scene.serve()
    scene.wanted = [update(scene.wanted[0], make_release(model="other", problem="no such file"))]
    assert summary(scene) == ("Updating", "RolloutFailed", "hot")
    assert "no such file" in status(scene).message
    assert status(scene).refusal is None
    assert conditions(scene)["RolledOut"] == ("False", "Failed")
    assert conditions(scene)["Ready"] == ("True", "Serving")


def test_one_units_failures_are_not_told_of_its_neighbours_on_the_same_host() -> None:
    scene = Scene(make_wanted("a"), make_wanted("b"), make_wanted("c"))
    scene.warm()
    failing = Backoff(CRASH_LOOP_FAILURES, retry_at_s=scene.now_s + 30.0, reason="killed")
    scene.world.scales["default", "b"] = ScaleState(backoff=failing)
    refusals = {route.name: route.refusal for route in routes_of(scene)}
    assert (refusals["a"], refusals["c"]) == (None, None)
    assert "its instances keep failing" in str(refusals["b"])


def test_a_failing_host_is_told_of_all_units_that_need_it_and_of_no_other() -> None:
    scene = Scene(make_wanted("a"), make_wanted("b"), make_wanted("other", "large"))
    scene.warm()
    failing = Backoff(CRASH_LOOP_FAILURES, retry_at_s=scene.now_s + 30.0, reason="killed")
    scene.world.host_backoffs[host_of()] = failing
    refusals = {route.name: route.refusal for route in routes_of(scene)}
    assert "its model's host keeps failing" in str(refusals["a"])
    assert refusals["a"] == refusals["b"]
    assert refusals["other"] is None
