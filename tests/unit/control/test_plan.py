"""Objects in, orders out: hosts, templates, instances, with failures among them."""

import json

from sits.control._lifecycle import State
from sits.control._names import Names, variant_of
from sits.control._wanted import Release, Wanted
from sits.spec import load_unit_json
from sits.wire import (
    HostKind,
    HostReady,
    Instance,
    InstanceReady,
    OpenTemplate,
    RemoteEndpoint,
    StartHost,
    StartInstance,
    StopInstance,
    Tier,
)
from tests.unit.control.builders import Scene, host_of, make_wanted

SMALL, OTHER = host_of("small"), host_of("other")
LOADED = HostReady()


def test_nothing_wanted_needs_nothing() -> None:
    assert Scene().turn() == []


def test_a_deploy_starts_the_models_host_once() -> None:
    scene = Scene(make_wanted("a"), make_wanted("b"), make_wanted("c", tenant="t2"))
    (order,) = scene.turn()
    assert order.message == StartHost(SMALL, "/models/small.gguf")
    assert order.host is None
    assert scene.turn() == []


def test_a_host_that_is_up_is_asked_for_one_template_for_each_tenant() -> None:
    scene = Scene(make_wanted("a"), make_wanted("b"), make_wanted("c", tenant="t2"))
    scene.turn()
    assert scene.world.host_up(SMALL, scene.now_s)
    assert scene.turn() == []
    scene.world.host_ready(SMALL, LOADED)
    orders = scene.turn()
    assert [order.message for order in orders] == [OpenTemplate("default"), OpenTemplate("t2")]
    assert {order.host for order in orders} == {SMALL}
    assert scene.turn() == []


def test_no_order_goes_to_a_node_that_is_not_there() -> None:
    scene = Scene(make_wanted())
    scene.world.node_lost()
    assert scene.turn() == []
    scene.world.node_up()
    assert scene.turn_words() == [f"StartHost {SMALL}"]


def test_a_start_that_was_on_its_way_to_a_lost_node_is_ordered_again() -> None:
    scene = Scene(make_wanted())
    scene.turn()
    scene.world.node_lost()
    scene.world.node_up()
    assert scene.turn_words() == [f"StartHost {SMALL}"]


def test_demand_before_the_host_is_up_waits_and_then_starts_one() -> None:
    scene = Scene(make_wanted())
    scene.load(waiting=20)
    assert scene.turn_words() == [f"StartHost {SMALL}"]
    scene.world.host_up(SMALL, scene.now_s)
    scene.world.host_ready(SMALL, LOADED)
    assert scene.turn_words() == ["OpenTemplate default", "StartInstance chat-1"]
    assert scene.turn() == []


def test_min_instances_come_up_one_first_and_then_the_rest() -> None:
    scene = Scene(make_wanted(scale={"min_instances": 3, "max_instances": 3}))
    scene.warm()
    assert list(scene.world.instances) == ["chat-1"]
    scene.come_up("chat-1")
    assert scene.turn_words() == ["StartInstance chat-2", "StartInstance chat-3"]


def test_an_idle_instance_is_draining_before_its_order_is_sent() -> None:
    scene = Scene(make_wanted())
    scene.serve()
    scene.load()
    scene.turn()
    scene.now_s = 60.0
    (order,) = scene.turn()
    assert order.message == StopInstance("chat-1", 10.0)
    assert order.host == SMALL
    assert scene.world.instances["chat-1"].life.state is State.DRAINING
    assert scene.turn() == []


def test_the_next_plan_is_due_when_the_idle_window_ends() -> None:
    scene = Scene(make_wanted())
    scene.serve()
    scene.now_s = 5.0
    scene.load()
    assert scene.plan().due_s == 65.0


def test_a_deleted_units_instances_are_stopped_and_then_it_is_purged() -> None:
    scene = Scene(make_wanted())
    scene.serve()
    scene.wanted = [make_wanted(deleted=True)]
    assert scene.turn_words() == ["StopInstance chat-1"]
    assert scene.plan().purge == []
    scene.world.instance_gone("chat-1", "stopped", "", 1.0)
    assert scene.plan().purge == [("default", "chat")]
    assert scene.turn_words() == [f"StopHost {SMALL}"]


def test_a_deleted_units_pending_start_is_cancelled() -> None:
    scene = Scene(make_wanted())
    scene.warm()
    scene.load(waiting=1)
    scene.turn()
    scene.wanted = [make_wanted(deleted=True)]
    assert scene.turn_words() == ["StopInstance chat-1"]
    scene.come_up("chat-1")  # it came up while the order was on its way
    assert scene.world.instances["chat-1"].life.state is State.DRAINING


def test_a_host_that_another_unit_needs_is_kept() -> None:
    scene = Scene(make_wanted("a"), make_wanted("b"))
    scene.warm()
    scene.wanted.pop()
    assert scene.turn() == []


def test_a_host_that_dies_is_started_again_after_its_backoff() -> None:
    scene = Scene(make_wanted())
    scene.serve()
    scene.world.host_down(SMALL, "killed", 10.0)
    assert scene.world.instances == {}
    scene.now_s = 10.0
    assert scene.turn() == []
    assert scene.plan().due_s == 10.5
    scene.now_s = 10.5
    assert scene.turn_words() == [f"StartHost {SMALL}"]


def test_a_host_whose_link_breaks_is_stopped_and_started_anew() -> None:
    scene = Scene(make_wanted())
    scene.serve()
    scene.world.host_link_lost(SMALL, "closed", 10.0)
    assert scene.world.instances == {}
    scene.now_s = 20.0
    assert scene.turn_words() == [f"StopHost {SMALL}"]
    assert scene.turn() == []
    scene.world.host_down(SMALL, "stopped", 20.0)
    assert scene.turn_words() == [f"StartHost {SMALL}"]
    assert scene.world.host_backoffs[SMALL].failures == 1


def test_a_host_that_cannot_load_its_model_says_why_when_it_is_down() -> None:
    scene = Scene(make_wanted())
    scene.turn()
    scene.world.host_up(SMALL, 1.0)
    scene.world.host_link_lost(SMALL, "the host closed its link", 2.0)
    assert SMALL not in scene.world.host_backoffs
    scene.turn()
    scene.world.host_down(SMALL, "exit status 1: no GGUF", 2.0)
    backoff = scene.world.host_backoffs[SMALL]
    assert (backoff.failures, backoff.reason) == (1, "exit status 1: no GGUF")


def test_a_template_that_failed_is_opened_again_after_its_backoff() -> None:
    scene = Scene(make_wanted())
    scene.warm()
    scene.world.template_failed(SMALL, "default", "no memory", 10.0)
    scene.load(waiting=1)
    scene.now_s = 10.2
    assert scene.turn() == []
    assert scene.plan().due_s == 10.5
    scene.now_s = 10.5
    assert scene.turn_words() == ["OpenTemplate default"]
    scene.world.template_ready(SMALL, "default")
    assert scene.turn_words() == ["StartInstance chat-1"]


def test_a_failed_start_waits_for_its_backoff_and_a_deploy_forgives_it() -> None:
    scene = Scene(make_wanted())
    scene.warm()
    scene.load(waiting=1)
    assert scene.turn_words() == ["StartInstance chat-1"]
    scene.world.instance_gone("chat-1", "start_failed", "no memory", 0.0)
    assert scene.turn() == []
    scene.world.forgive(("default", "chat"), [SMALL])
    assert scene.turn_words() == ["StartInstance chat-2"]


def test_an_instance_that_was_asked_to_stop_is_no_failure() -> None:
    scene = Scene(make_wanted())
    scene.serve()
    scene.load()
    scene.turn()
    scene.now_s = 60.0
    scene.turn()
    scene.world.instance_gone("chat-1", "instance_lost", "killed", 60.0)
    scene.load(waiting=1)
    assert scene.turn_words() == ["StartInstance chat-2"]


REMOTE = {
    "model": "openai://far",
    "engine": {"kind": "openai", "endpoints": [{"url": "https://a.example/v1", "secret": "k"}]},
}


def make_remote(url: str = "https://a.example/v1", name: str = "chat") -> Wanted:
    text = {"name": name, **REMOTE}
    text["engine"] = {"kind": "openai", "endpoints": [{"url": url, "secret": "k"}]}
    unit = load_unit_json(json.dumps(text), "remote").unit
    release = Release("default", name, url, unit)
    return Wanted("default", name, release, release, 1.0, 2.0)


def test_units_served_elsewhere_share_one_host_of_their_tenant_and_have_instances() -> None:
    scene = Scene(make_remote(), make_remote(name="other"))
    (order,) = scene.turn()
    assert isinstance(order.message, StartHost)
    assert (order.message.kind, order.message.tenant) == (HostKind.REMOTE, "default")
    host = order.message.host
    scene.world.host_up(host, 0.0)
    scene.world.host_ready(host, LOADED)
    scene.turn()
    scene.world.template_ready(host, "default")
    scene.load(waiting=1)
    (order,) = scene.turn()
    assert isinstance(order.message, StartInstance)
    assert order.message.remotes == (RemoteEndpoint("https://a.example/v1", "far", "k"),)


def test_other_endpoints_are_other_instances_on_the_same_host() -> None:
    former, newer = make_remote().target, make_remote("https://b.example/v1").target
    assert former.host == newer.host
    assert not former.runs_as(newer)
    assert Names(1)("chat", former.variant) != Names(1)("chat", newer.variant)
    assert variant_of(Names(1)("chat", former.variant)) == former.variant


def test_a_unit_whose_model_is_gone_needs_no_host() -> None:
    scene = Scene(make_wanted(problem="not installed"))
    scene.load(waiting=3)
    assert scene.turn() == []
    assert scene.plan().purge == []


def make_ready(name: str, unit: str = "chat", tenant: str = "default") -> InstanceReady:
    return InstanceReady(name, tenant, unit, Instance(f"/run/{name}.sock", Tier.WARM, 4))


def test_what_an_earlier_life_left_running_is_taken_over_in_one_step() -> None:
    scene = Scene(make_wanted())
    assert scene.world.host_up(SMALL, scene.now_s)
    left = HostReady(("default",), (make_ready("chat-0001-0001"),))
    scene.world.host_ready(SMALL, left)
    scene.load(running=1)
    assert scene.turn() == []
    assert scene.world.instances["chat-0001-0001"].life.state is State.READY


def test_what_an_earlier_life_left_and_nobody_wants_is_stopped_host_last() -> None:
    scene = Scene(make_wanted(), make_wanted("other", "other"))
    scene.warm()
    scene.wanted = [make_wanted()]
    scene.world.host_up(OTHER, scene.now_s)
    left = HostReady(
        ("default",),
        (make_ready("a-0001-0001", "a"), make_ready("chat-0001-0002", tenant="t2")),
    )
    scene.world.host_ready(OTHER, left)
    assert scene.turn_words() == ["StopInstance a-0001-0001", "StopInstance chat-0001-0002"]
    scene.world.instance_gone("a-0001-0001", "stopped", "", 1.0)
    assert scene.turn() == []
    scene.world.instance_gone("chat-0001-0002", "stopped", "", 1.0)
    assert scene.turn_words() == [f"StopHost {OTHER}"]


def test_what_is_said_of_strangers_changes_nothing() -> None:
    scene = Scene()
    scene.world.host_ready("h-stranger", LOADED)
    scene.world.host_down("h-stranger", "x", 1.0)
    scene.world.host_link_lost("h-stranger", "x", 1.0)
    scene.world.template_ready("h-stranger", "default")
    scene.world.template_failed("h-stranger", "default", "x", 1.0)
    scene.world.instance_ready("h-stranger", make_ready("chat-1"))
    scene.world.instance_gone("stranger-1", "x", "x", 1.0)
    assert (scene.world.hosts, scene.world.instances, scene.world.scales) == ({}, {}, {})
