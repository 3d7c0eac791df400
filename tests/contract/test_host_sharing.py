"""What is shared between instances, what is kept of them, and what becomes of those that hang."""

import os
import signal
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest

from sits.wire import (
    ChatPrompt,
    CloseTemplate,
    Emitted,
    Generate,
    InstanceGone,
    MemoryUse,
    Message,
    OpenTemplate,
    PrefixTaught,
    StopInstance,
    TeachPrefix,
    TemplateClosed,
    TemplateFailed,
    TemplateReady,
    Tier,
    UnitPrompt,
    put_prompt_aside,
)
from tests.hosts import Host, answer, ask, running
from tests.links import wait_for
from tests.processes import children, is_running


@pytest.fixture(params=["fork", "resident"])
def model_host(request: pytest.FixtureRequest) -> Iterator[Host]:
    with running(request.param) as host:
        yield host


@pytest.fixture
def forked() -> Iterator[Host]:
    with running("fork") as host:
        yield host


# what is shared, what is kept, what does not go on

SYSTEM = UnitPrompt("A constant beginning that is longer than thirty-two tokens.")


def ask_after(system: UnitPrompt, words: str) -> Generate:
    messages = (Message("system", system.system or ""), Message("user", words))
    return Generate("r1", ChatPrompt(messages))


def cached_tokens(host: Host, endpoint: str, system: UnitPrompt = SYSTEM) -> int:
    worker = host.connect(endpoint)
    worker.send(ask_after(system, "and then?"))
    text, finished = answer(worker)
    assert text == "and then?"
    worker.close()
    return finished.usage.cached_tokens


def prefix_tokens(system: UnitPrompt) -> int:
    # The fake's template: a mark, the system's words, its end, and the user's mark.
    return len((system.system or "").encode()) + 3


def files(host: Host) -> list[Path]:
    return list(Path(host.endpoint).parent.glob("kv/*/*.kv"))


def stop(host: Host, name: str) -> None:
    host.link.send(StopInstance(name, drain_s=1.0))
    assert host.link.next(InstanceGone).code == "stopped"


def teach(host: Host, system: UnitPrompt = SYSTEM) -> None:
    host.link.send(TeachPrefix("acme", "chat", system))
    wait_for(lambda: files(host) or None, "no prefix was kept")
    # The template takes it in after the file is there; an order behind it is obeyed after that.
    wait_for(lambda: not teachers(host) or None, "a teacher does not end")


def teachers(host: Host) -> list[int]:
    found = [child for pid in children(host.process.pid) for child in children(pid)]
    return [pid for pid in found if _name(pid) == "sits-teacher"]


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def test_units_of_a_tenant_share_a_worker_and_what_it_computed(forked: Host) -> None:
    one = forked.start("one-1", unit="one")
    assert cached_tokens(forked, one.endpoint) == 0
    two = forked.start("two-1", unit="two")
    assert (one.tier, two.tier) == (Tier.COOL, Tier.HOT)
    # The same words again: all but the last token.
    assert cached_tokens(forked, two.endpoint) == prefix_tokens(SYSTEM) + len("and then?") + 1
    stop(forked, "one-1")
    assert cached_tokens(forked, two.endpoint) > prefix_tokens(SYSTEM)
    stop(forked, "two-1")


def test_tenants_share_nothing(forked: Host) -> None:
    assert cached_tokens(forked, forked.start("a-1", tenant="a").endpoint) == 0
    assert cached_tokens(forked, forked.start("b-1", tenant="b").endpoint) == 0


def test_a_worker_begins_with_what_its_template_was_taught(forked: Host) -> None:
    teach(forked)
    value = forked.start("chat-1", prompt=SYSTEM)
    assert value.tier is Tier.WARM
    assert cached_tokens(forked, value.endpoint) == prefix_tokens(SYSTEM)


def test_a_prefix_outlives_its_template(forked: Host) -> None:
    teach(forked)
    forked.link.send(CloseTemplate("acme"))
    forked.link.next(TemplateClosed)
    value = forked.start("chat-1", prompt=SYSTEM)
    assert value.tier is Tier.COOL
    assert cached_tokens(forked, value.endpoint) == prefix_tokens(SYSTEM)


@pytest.mark.parametrize("damage", ["cut", "altered", "empty"])
def test_a_broken_prefix_file_is_not_used_and_goes(forked: Host, damage: str) -> None:
    teach(forked)
    forked.link.send(CloseTemplate("acme"))
    forked.link.next(TemplateClosed)
    (path,) = files(forked)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    damaged = {"cut": bytes(data[:-7]), "altered": bytes(data), "empty": b""}
    path.write_bytes(damaged[damage])
    value = forked.start("chat-1", prompt=SYSTEM)
    assert cached_tokens(forked, value.endpoint) == 0
    assert not files(forked)


def test_a_template_with_instances_is_not_closed(model_host: Host) -> None:
    host = model_host
    value = host.start("chat-1")
    host.link.send(CloseTemplate("acme"))
    assert host.link.next((TemplateReady, TemplateClosed)) is not None
    worker = host.connect(value.endpoint)
    worker.send(ask("still here"))
    assert answer(worker)[0] == "still here"


def workers(host: Host) -> list[int]:
    found = [child for pid in children(host.process.pid) for child in children(pid)]
    return [pid for pid in found if _name(pid) == "sits-worker"]


@pytest.mark.parametrize("busy", [True, False])
def test_a_stopped_worker_is_found_and_killed(forked: Host, busy: bool) -> None:
    worker = forked.connect(forked.start("chat-1").endpoint)
    if busy:
        worker.send(ask("x" * 1500))
        worker.next(Emitted)
    (pid,) = workers(forked)
    os.kill(pid, signal.SIGSTOP)
    gone = forked.link.next(InstanceGone)
    assert (gone.instance, gone.code) == ("chat-1", "instance_lost")
    assert "stopped" in gone.message
    assert not is_running(pid)


def test_a_stopped_template_is_found_and_killed_and_can_be_had_again(forked: Host) -> None:
    forked.start("chat-1")
    (template,) = children(forked.process.pid)
    os.kill(template, signal.SIGSTOP)
    assert forked.link.next(InstanceGone).instance == "chat-1"
    assert "stopped" in forked.link.next(TemplateFailed).message
    assert not is_running(template)
    assert forked.start("chat-2").endpoint


@pytest.mark.timeout(60)  # it is waited for: nobody knows yet how long its steps take
def test_a_worker_whose_step_never_ends_is_found_and_killed() -> None:
    with running("fork", step_s=30.0) as host:
        worker = host.connect(host.start("chat-1").endpoint)
        worker.send(ask("x"))
        gone = host.link.next(InstanceGone)
        assert (gone.instance, gone.code) == ("chat-1", "instance_lost")
        assert "no progress" in gone.message


def test_a_worker_that_takes_too_much_memory_ends_alone_and_says_so() -> None:
    with running("fork", step_bytes=16 << 20) as host:
        other = host.start("b-1", tenant="b")
        worker = host.connect(host.start("a-1", tenant="a").endpoint)
        worker.send(ask("x" * 200))
        gone = host.link.next(InstanceGone)
        assert (gone.instance, gone.code) == ("a-1", "instance_lost")
        assert "out of memory" in gone.message
        worker = host.connect(other.endpoint)
        worker.send(ask("fine"))
        assert answer(worker)[0] == "fine"


def test_what_a_host_takes_is_told(forked: Host) -> None:
    forked.link.send(OpenTemplate("a"))
    use = forked.link.next(MemoryUse)
    assert set(use.templates) == {"a"}
    assert 1 << 20 < use.host < 1 << 30
    assert 1 << 20 < use.templates["a"] < 1 << 30


SECRET = "xq7-only-one-tenant-says-this-zv9"


def holds(pid: int, text: str) -> bool:
    """Return whether a process's memory has a text, as bytes or as packed token ids."""
    raw = text.encode()
    packed = array("i", list(raw)).tobytes()
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            span, rights = line.split()[:2]
            if not rights.startswith("rw"):
                continue
            first, last = (int(each, 16) for each in span.split("-"))
            try:
                memory.seek(first)
                data = memory.read(last - first)
            except OSError:
                continue
            if raw in data or packed in data:
                return True
    return False


def test_another_tenants_words_are_in_no_worker_of_mine(forked: Host) -> None:
    worker = forked.connect(forked.start("a-1", tenant="a").endpoint)
    worker.send(ask(SECRET))
    assert answer(worker)[0] == SECRET
    forked.start("b-1", tenant="b")
    theirs, mine = sorted(workers(forked))
    assert holds(theirs, SECRET)
    assert not holds(mine, SECRET)
    # Nor in the base host, from which every tenant's template is forked.
    assert not holds(forked.process.pid, SECRET)


def test_another_tenants_constant_prompt_is_in_no_process_of_mine(forked: Host) -> None:
    words = UnitPrompt(SECRET * 40)
    aside = put_prompt_aside(words, str(forked.prompts))
    forked.link.send(TeachPrefix("a", "chat", aside))
    assert forked.link.next(PrefixTaught).tokens > len(SECRET)
    forked.start("a-1", tenant="a", prompt=put_prompt_aside(words, str(forked.prompts)))
    (theirs,) = children(forked.process.pid)
    assert holds(theirs, SECRET)
    forked.start("b-1", tenant="b")
    (mine,) = set(children(forked.process.pid)) - {theirs}
    (worker,) = children(mine)
    assert [holds(pid, SECRET) for pid in (forked.process.pid, mine, worker)] == [False] * 3
    assert list(forked.prompts.iterdir()) == []


def test_a_prompt_whose_file_is_gone_has_no_beginning(forked: Host) -> None:
    forked.link.send(TeachPrefix("a", "chat", UnitPrompt(file=str(forked.prompts / "gone"))))
    assert forked.link.next(PrefixTaught).tokens == 0
