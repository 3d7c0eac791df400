"""What every host owes, whether it makes instances by fork or is resident.

Real processes, started as the node starts them; the fake engine keeps it fast.
"""

import os
import signal
import struct
import time
from collections.abc import Iterator

import pytest

from sits.wire import (
    Cancel,
    Embed,
    Embedded,
    Emitted,
    Failed,
    Finished,
    FinishReason,
    FromHost,
    HostReady,
    InstanceGone,
    InstanceReady,
    OpenTemplate,
    StartInstance,
    StopInstance,
    TemplateFailed,
    TemplateReady,
    Tier,
    Usage,
)
from tests.hosts import Host, answer, ask, running
from tests.links import wait_for
from tests.processes import children, is_running


@pytest.fixture(params=["fork", "resident", "remote"])
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    with running(request.param) as host:
        yield host


@pytest.fixture(params=["fork", "resident"])
def model_host(request: pytest.FixtureRequest) -> Iterator[Host]:
    with running(request.param) as host:
        yield host


@pytest.fixture
def forked() -> Iterator[Host]:
    with running("fork") as host:
        yield host


def test_says_first_what_it_serves(host: Host) -> None:
    assert host.link.next() == HostReady()


def test_an_instance_answers_on_its_own_socket(host: Host) -> None:
    worker = host.connect(host.start("chat-1").endpoint)
    worker.send(ask("Grüße 😀"))
    text, finished = answer(worker)
    assert text == "Grüße 😀"
    # One token for each byte; the words have 12, and three marks stand around them.
    assert finished == Finished("r1", FinishReason.STOP, Usage(12 + 3, 12))


def test_tells_how_warm_each_start_was(model_host: Host) -> None:
    host = model_host
    assert host.start("a-1", tenant="a").tier is Tier.COOL
    assert host.start("a-2", tenant="a").tier is Tier.WARM
    host.link.send(OpenTemplate("b"))
    assert host.link.next(TemplateReady) == TemplateReady("b")
    assert host.start("b-1", tenant="b").tier is Tier.WARM


def test_runs_as_many_requests_at_once_as_it_says(host: Host) -> None:
    value = host.start("chat-1")
    assert value.capacity == 2
    worker = host.connect(value.endpoint)
    for name in ("one", "two", "three"):
        worker.send(ask(name * 5, request_id=name))
    texts = {"one": "", "two": "", "three": ""}
    ended: list[str] = []
    while len(ended) < 3:
        event = worker.next()
        if isinstance(event, Emitted):
            texts[event.request_id] += event.piece.text
        else:
            ended.append(event.request_id)
    assert texts == {name: name * 5 for name in texts}


def test_a_cancelled_request_says_nothing_more(host: Host) -> None:
    worker = host.connect(host.start("chat-1").endpoint)
    worker.send(ask("x" * 500))
    worker.next(Emitted)
    worker.send(Cancel("r1"))
    worker.send(ask("after", request_id="r2"))
    text = ""
    while not isinstance(event := worker.next(), Finished):
        text += event.piece.text if event.request_id == "r2" else ""
    assert (event.request_id, text) == ("r2", "after")


@pytest.mark.parametrize("kind", ["fork", "resident", "remote"])
def test_a_gateway_that_leaves_frees_its_places(kind: str) -> None:
    with running(kind, step_s=0.02) as host:
        endpoint = host.start("chat-1").endpoint
        gone = host.connect(endpoint)
        for name in ("a", "b"):  # thirty seconds of work each
            gone.send(ask("x" * 1500, request_id=name))
        gone.next(Emitted)
        gone.close()
        worker = host.connect(endpoint)
        worker.send(ask("free"))
        assert answer(worker)[0] == "free"


@pytest.mark.parametrize("kind", ["fork", "resident", "remote"])
def test_answers_with_vectors_where_the_model_makes_them(kind: str) -> None:
    with running(kind, embedding=True) as host:
        worker = host.connect(host.start("vectors-1").endpoint)
        worker.send(Embed("e1", ("a", "bb", (97, 97))))
        embedded = worker.next()
        assert isinstance(embedded, Embedded)
        # The byte of `a` is 97, 1 modulo 8; that of `b` 98.
        one, two = [struct.pack("<8f", *(float(i == n) for i in range(8))) for n in (1, 2)]
        assert embedded.vectors == (one, two, one)
        # Two marks around each text; token ids are taken as they are.
        assert embedded.usage == Usage(3 + 4 + 2, 0)


@pytest.mark.parametrize("kind", ["fork", "resident"])
@pytest.mark.parametrize("embedding", [False, True])
def test_a_request_of_the_other_kind_is_told_what_to_call(kind: str, embedding: bool) -> None:
    with running(kind, embedding=embedding) as host:
        worker = host.connect(host.start("chat-1").endpoint)
        worker.send(ask("hello", request_id="r") if embedding else Embed("r", ("hello",)))
        failed = worker.next()
        assert isinstance(failed, Failed)
        assert failed.code == "wrong_endpoint"
        assert ("/v1/embeddings" if embedding else "/v1/chat/completions") in failed.message


@pytest.mark.parametrize("kind", ["fork", "resident"])
def test_a_cancelled_request_for_vectors_says_nothing_more(kind: str) -> None:
    with running(kind, embedding=True, step_s=0.02) as host:
        worker = host.connect(host.start("vectors-1").endpoint)
        worker.send(Embed("gone", tuple(["x" * 100] * 500)))  # many steps
        worker.send(Embed("small", ("a",)))
        assert worker.next().request_id == "small"
        worker.send(Cancel("gone"))
        worker.send(Embed("after", ("b",)))
        assert worker.next().request_id == "after"
        host.link.send(StopInstance("vectors-1", drain_s=0.1))
        assert host.link.next(InstanceGone).code == "stopped"


def test_refuses_a_prompt_that_does_not_fit_with_both_numbers(host: Host) -> None:
    worker = host.connect(host.start("chat-1").endpoint)
    worker.send(ask("x" * 3000))
    failed = worker.next()
    assert isinstance(failed, Failed)
    assert failed.code == "context_length_exceeded"
    assert "3003" in failed.message
    assert "2048" in failed.message


def test_a_drained_instance_finishes_and_takes_nothing_new(host: Host) -> None:
    worker = host.connect(host.start("chat-1").endpoint)
    worker.send(ask("y" * 40))
    worker.next(Emitted)
    host.link.send(StopInstance("chat-1", drain_s=10.0))
    worker.send(ask("late", request_id="r2"))
    rest = []
    while not isinstance(event := worker.next(), Finished):
        rest.append(event)
    late = [e for e in rest if isinstance(e, Failed)]
    # The order and the request race: it is refused, or it was there first and is finished.
    assert all((e.code, e.retryable) == ("draining", True) for e in late)
    gone = host.link.next(InstanceGone)
    assert (gone.instance, gone.code) == ("chat-1", "stopped")


def test_a_drain_that_takes_too_long_ends_with_an_error(host: Host) -> None:
    worker = host.connect(host.start("chat-1").endpoint)
    worker.send(ask("z" * 1500))
    worker.next(Emitted)
    host.link.send(StopInstance("chat-1", drain_s=0.05))
    failed = worker.next((Failed, Finished))
    assert isinstance(failed, Failed)
    assert (failed.code, failed.retryable) == ("instance_lost", True)
    assert host.link.next(InstanceGone).code == "stopped"


def test_a_control_that_comes_back_is_told_what_there_is(host: Host) -> None:
    value = host.start("chat-1")
    host.link.close()
    again = host.connect(host.endpoint, FromHost)
    there = (InstanceReady("chat-1", "acme", "chat", value),)
    assert again.next() == HostReady(("acme",), there)


def test_starting_what_is_there_and_stopping_what_is_not_change_nothing(host: Host) -> None:
    host.start("chat-1")
    host.link.send(StartInstance("chat-1", "acme", "chat", host.remotes))
    host.link.send(StopInstance("never-was", drain_s=1.0))
    assert host.link.next(InstanceGone).instance == "never-was"


def test_a_killed_worker_is_told_and_its_gateway_sees_the_end(forked: Host) -> None:
    worker = forked.connect(forked.start("chat-1").endpoint)
    worker.send(ask("x" * 1000))
    worker.next(Emitted)
    (template,) = children(forked.process.pid)
    (pid,) = children(template)
    os.kill(pid, signal.SIGKILL)
    gone = forked.link.next(InstanceGone)
    assert gone.code == "instance_lost"
    assert gone.message.startswith("killed by SIGKILL, perhaps by the kernel")
    with pytest.raises(AssertionError, match="closed"):
        worker.next(Finished)
    assert forked.start("chat-2").tier is Tier.WARM


def test_a_child_holds_none_of_its_parents_sockets(forked: Host) -> None:
    forked.start("chat-1")
    (template,) = children(forked.process.pid)
    (worker,) = children(template)
    host_has, template_has, worker_has = map(sockets, (forked.process.pid, template, worker))
    assert host_has
    assert not host_has & template_has
    assert not template_has & worker_has


def test_a_template_whose_link_broke_is_replaced(forked: Host) -> None:
    """Its end and the next orders come in one turn of the host's loop."""
    forked.start("a-1", tenant="a")
    (template,) = children(forked.process.pid)
    os.kill(forked.process.pid, signal.SIGSTOP)
    os.kill(template, signal.SIGKILL)
    wait_for(lambda: not is_running(template), "the template survived SIGKILL")
    forked.link.send(StartInstance("a-2", "a", "chat"))
    forked.link.send(OpenTemplate("b"))
    os.kill(forked.process.pid, signal.SIGCONT)
    assert forked.link.next(TemplateReady) == TemplateReady("b")
    assert forked.start("a-3", tenant="a").capacity == 2


def test_a_killed_template_takes_its_workers_along_and_is_told(forked: Host) -> None:
    forked.start("chat-1")
    (template,) = children(forked.process.pid)
    (worker,) = children(template)
    os.kill(template, signal.SIGKILL)
    assert forked.link.next(InstanceGone).code == "instance_lost"
    assert "SIGKILL" in forked.link.next(TemplateFailed).message
    wait_for(lambda: not is_running(worker), "the worker was orphaned", within_s=2.0)
    assert forked.start("chat-2").tier is Tier.COOL


def test_a_worker_that_hangs_is_killed_soon_after_its_drain() -> None:
    with running("fork", step_s=1000) as host:
        worker = host.connect(host.start("chat-1").endpoint)
        worker.send(ask("hang"))
        time.sleep(0.3)  # nothing tells from outside that the worker is in its endless step
        began = time.monotonic()
        host.link.send(StopInstance("chat-1", drain_s=0.1))
        gone = host.link.next(InstanceGone)
        assert (gone.instance, gone.code) == ("chat-1", "stopped")
        assert 1.0 < time.monotonic() - began < 5.0
        assert host.start("chat-2").tier is Tier.WARM


def test_a_killed_host_leaves_no_process(forked: Host) -> None:
    forked.start("chat-1")
    forked.start("chat-2", tenant="other")
    templates = children(forked.process.pid)
    family = templates + [pid for template in templates for pid in children(template)]
    assert len(family) == 4
    forked.process.kill()
    wait_for(lambda: not any(map(is_running, family)), "orphans", within_s=2.0)


def test_a_tenants_template_does_not_hold_another_tenants_prompt(forked: Host) -> None:
    secret = "tangerine-zeppelin-4711"
    worker = forked.connect(forked.start("a-1", tenant="a").endpoint)
    worker.send(ask(secret))
    assert answer(worker)[0] == secret
    forked.start("b-1", tenant="b")
    family = children(forked.process.pid)
    others = [forked.process.pid, *family, *children(family[1])]
    assert not any(secret.encode() in memory_of(pid) for pid in others)
    assert secret.encode() in memory_of(children(family[0])[0])


def sockets(pid: int) -> set[str]:
    """Return the sockets that a process has open, by their inodes."""
    links = (os.readlink(entry.path) for entry in os.scandir(f"/proc/{pid}/fd"))
    return {link for link in links if link.startswith("socket:")}


def memory_of(pid: int) -> bytes:
    """Return what is in the private writable memory of a process."""
    parts = []
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            span, mode, *_rest = line.split()
            if not mode.startswith("rw") or "[v" in line:
                continue
            start, stop = (int(x, 16) for x in span.split("-"))
            memory.seek(start)
            parts.append(memory.read(stop - start) or b"")
    return b"".join(parts)
