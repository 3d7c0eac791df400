"""What every host owes to units with adapters. Real processes; the fake engine keeps it fast."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from sits.testing import tiny_adapter, tiny_gguf
from sits.wire import (
    ChatPrompt,
    CloseTemplate,
    Generate,
    InstanceGone,
    Message,
    StartInstance,
    StopInstance,
    TeachPrefix,
    TemplateClosed,
    Tier,
    UnitAdapter,
    UnitPrompt,
    own_id,
    try_id,
)
from tests.hosts import Host, answer, ask, running
from tests.links import wait_for
from tests.processes import children

SYSTEM = UnitPrompt("A constant beginning that is longer than thirty-two tokens.")
# The fake's template: a mark, the system's words, its end, and the user's mark.
PREFIX_TOKENS = len((SYSTEM.system or "").encode()) + 3


@pytest.fixture(params=["fork", "resident"])
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    with running(request.param) as host:
        yield host


@pytest.fixture
def forked() -> Iterator[Host]:
    with running("fork") as host:
        yield host


def adapter(folder: Path, words: str, share_ppm: int = 1_000_000) -> UnitAdapter:
    path = folder / f"{words}.gguf"
    path.write_bytes(tiny_adapter(words))
    return UnitAdapter(str(path), f"digest of {words}", share_ppm)


def said(host: Host, endpoint: str, words: str = "hello", request_id: str = "r1") -> str:
    worker = host.connect(endpoint)
    worker.send(ask(words, request_id))
    text, _ = answer(worker)
    worker.close()
    return text


def cached_tokens(host: Host, endpoint: str) -> int:
    """Ask with the constant beginning, and return how much of the prompt was found."""
    worker = host.connect(endpoint)
    messages = (Message("system", SYSTEM.system or ""), Message("user", "and then?"))
    worker.send(Generate("r1", ChatPrompt(messages)))
    _, finished = answer(worker)
    worker.close()
    return finished.usage.cached_tokens


def comm(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def templates(host: Host) -> list[int]:
    return [pid for pid in children(host.process.pid) if comm(pid) == "sits-template"]


def test_units_of_one_tenant_answer_each_with_its_own_adapter(host: Host, tmp_path: Path) -> None:
    endpoints = {
        words: host.start(f"{name}-1", unit=name, adapters=adapters).endpoint
        for name, words, adapters in (
            ("plain", "", ()),
            ("one", "[1]", (adapter(tmp_path, "[1]"),)),
            ("two", "[2]", (adapter(tmp_path, "[2]"),)),
        )
    }
    for words, endpoint in endpoints.items():
        assert said(host, endpoint) == f"{words}hello"
    if host.kind == "fork":
        (template,) = templates(host)
        assert [comm(pid) for pid in children(template)] == ["sits-worker"]


def test_what_was_computed_without_an_adapter_is_not_used_with_it(
    forked: Host, tmp_path: Path
) -> None:
    plain = forked.start("plain-1", unit="plain").endpoint
    adapted = forked.start("one-1", unit="one", adapters=(adapter(tmp_path, "[1]"),)).endpoint
    assert cached_tokens(forked, plain) == 0
    assert cached_tokens(forked, adapted) == 0
    assert cached_tokens(forked, plain) > PREFIX_TOKENS
    assert cached_tokens(forked, adapted) > PREFIX_TOKENS


@pytest.mark.parametrize(
    ("data", "words"),
    [(tiny_gguf(), "no LoRA adapter"), (tiny_adapter("x", "bert"), "architecture 'bert'")],
)
def test_an_adapter_that_cannot_be_loaded_ends_the_start_alone(
    host: Host, tmp_path: Path, data: bytes, words: str
) -> None:
    plain = host.start("plain-1", unit="plain").endpoint
    path = tmp_path / "wrong.gguf"
    path.write_bytes(data)
    for name in ("wrong-1", "wrong-2"):
        adapters = (UnitAdapter(str(path), "1"),)
        host.link.send(StartInstance(name, "acme", "wrong", adapters=adapters))
        gone = host.link.next(InstanceGone)
        assert (gone.instance, gone.code) == (name, "start_failed")
        assert str(path) in gone.message
        assert words in gone.message
    assert said(host, plain) == "hello"
    right = (adapter(tmp_path, "[right]"),)
    assert (
        said(host, host.start("right-1", unit="right", adapters=right).endpoint) == "[right]hello"
    )


def test_a_worker_inherits_what_one_before_it_could_load(forked: Host, tmp_path: Path) -> None:
    adapters = (adapter(tmp_path, "[1]"),)
    for number in (1, 2):
        endpoint = forked.start(f"one-{number}", unit="one", adapters=adapters).endpoint
        assert said(forked, endpoint) == "[1]hello"
        forked.link.send(StopInstance(f"one-{number}", drain_s=1.0))
        assert forked.link.next(InstanceGone).code == "stopped"
        (tmp_path / "[1].gguf").unlink(missing_ok=True)


def test_a_first_start_that_fails_leaves_no_worker(forked: Host, tmp_path: Path) -> None:
    adapters = (UnitAdapter(str(tmp_path / "missing.gguf"), "1"),)
    forked.link.send(StartInstance("one-1", "acme", "one", adapters=adapters))
    assert forked.link.next(InstanceGone).code == "start_failed"
    (template,) = templates(forked)
    wait_for(lambda: not children(template) or None, "a worker without instances does not end")


def test_a_prefix_is_of_the_adapter_that_it_was_computed_with(forked: Host, tmp_path: Path) -> None:
    one, two = (adapter(tmp_path, words) for words in ("[1]", "[2]"))
    kept = Path(forked.endpoint).parent
    forked.link.send(TeachPrefix("acme", "one", SYSTEM, (one,)))
    wait_for(lambda: list(kept.glob("kv/*/*.kv")) or None, "no prefix was kept")
    for name, adapters, tokens in (("plain", (), 0), ("two", (two,), 0)):
        endpoint = forked.start(f"{name}-1", unit=name, prompt=SYSTEM, adapters=adapters).endpoint
        assert cached_tokens(forked, endpoint) == tokens
    with running("fork") as other:
        target = Path(other.endpoint).parent / "kv"
        os.rename(kept / "kv", target)
        value = other.start("one-1", unit="one", prompt=SYSTEM, adapters=(one,))
        assert value.tier is Tier.COOL
        assert cached_tokens(other, value.endpoint) == PREFIX_TOKENS


def test_a_prefix_is_taught_for_each_way_that_a_unit_answers(forked: Host, tmp_path: Path) -> None:
    half = adapter(tmp_path, "[1]", 500_000)
    forked.link.send(TeachPrefix("acme", "one", SYSTEM, (half,)))
    folder = Path(forked.endpoint).parent
    wait_for(
        lambda: len(list(folder.glob("kv/*/*.kv"))) == 2 or None, "two prefixes are to be kept"
    )
    forked.link.send(CloseTemplate("acme"))
    forked.link.next(TemplateClosed)
    endpoint = forked.start("one-1", unit="one", prompt=SYSTEM, adapters=(half,)).endpoint
    assert cached_tokens(forked, endpoint) == PREFIX_TOKENS


def test_a_request_gets_the_same_adapter_at_every_instance_and_try(
    forked: Host, tmp_path: Path
) -> None:
    adapters = (adapter(tmp_path, "[1]", 300_000), adapter(tmp_path, "[2]", 300_000))
    endpoints = [
        forked.start(name, unit="shared", adapters=adapters).endpoint for name in ("s-1", "s-2")
    ]
    texts = []
    for number in range(60):
        for place, endpoint in enumerate(endpoints):
            texts.append(said(forked, endpoint, "x", try_id(f"req-{number}", f"t-{place}")))
    assert texts[::2] == texts[1::2]
    counts = Counter(texts[::2])
    assert set(counts) == {"x", "[1]x", "[2]x"}
    assert min(counts.values()) >= 8  # of 60, where 18, 18 and 24 are expected


def test_a_tries_id_tells_the_requests_own() -> None:
    assert own_id(try_id("req~1", "t-2")) == "req~1"
    assert own_id("req-1") == "req-1"
