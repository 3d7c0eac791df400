"""Pinning and pulling from a hub on this machine that has the faults of real ones."""

import hashlib
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sits.models import (
    HubSettings,
    ModelError,
    ModelFile,
    ModelKind,
    ModelPin,
    ModelStore,
    ModelStoreFull,
    ModelUnavailable,
    PullProgress,
)
from sits.models import _download as downloads
from sits.spec import parse_model_reference
from sits.testing import FakeHub, tiny_gguf

MODEL = "huggingface://org/model"
# Not compressible and not periodic, so that a byte in a wrong place is seen.
CONTENT = tiny_gguf("llama") + random.Random(7).randbytes(1_000_000)
DIGEST = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with FakeHub() as running:
        running.add("org/model", {"README.md": b"#", "model-Q4_K_M.gguf": CONTENT})
        yield running


def settings(hub: FakeHub, **changes: float) -> HubSettings:
    values = {"connect_s": 5.0, "stall_s": 5.0, "pause_s": 0.01, **changes}
    return HubSettings(endpoint=hub.endpoint, **values)  # type: ignore[arg-type]


def make_store(hub: FakeHub, tmp_path: Path, **changes: float) -> ModelStore:
    return ModelStore(tmp_path / "store", prepare=None, hub=settings(hub, **changes))


def pin(store: ModelStore, reference: str = MODEL) -> ModelPin:
    return store.pin(parse_model_reference(reference))


def pull(store: ModelStore, wanted: ModelPin) -> tuple[ModelFile, list[PullProgress]]:
    told: list[PullProgress] = []
    return store.pull(wanted, told.append), told


def ranges(hub: FakeHub) -> list[str | None]:
    return [seen.range for seen in hub.seen if seen.path.startswith("/content/")]


def test_a_pin_has_the_hubs_digest_and_commit(hub: FakeHub, tmp_path: Path) -> None:
    found = pin(make_store(hub, tmp_path))
    assert (found.digest, found.size_bytes) == (DIGEST, len(CONTENT))
    assert (found.file, found.kind) == ("model-Q4_K_M.gguf", ModelKind.CHAT)
    assert found.commit is not None
    assert len(found.commit) == 40
    assert hub.sent_bytes["model-Q4_K_M.gguf"] < 100_000


def test_a_pulled_model_has_the_hubs_bytes(hub: FakeHub, tmp_path: Path) -> None:
    store = make_store(hub, tmp_path)
    file, told = pull(store, pin(store))
    assert file.path.read_bytes() == CONTENT
    assert file.name == "model"
    assert told[0].state == "downloading"
    assert told[-1].state == "done"


def test_a_pin_means_its_commit_when_the_repository_goes_on(hub: FakeHub, tmp_path: Path) -> None:
    store = make_store(hub, tmp_path)
    first = pin(store)
    hub.add("org/model", {"model-Q4_K_M.gguf": tiny_gguf("qwen3")})
    second = pin(store)
    assert (second.digest == first.digest, second.commit == first.commit) == (False, False)


def test_a_file_that_is_kept_in_git_is_pinned_by_its_bytes(hub: FakeHub, tmp_path: Path) -> None:
    hub.add("org/small", {"small.gguf": tiny_gguf()}, lfs=False)
    store = make_store(hub, tmp_path)
    found = pin(store, "huggingface://org/small#small.gguf")
    assert found.digest == f"sha256:{hashlib.sha256(tiny_gguf()).hexdigest()}"
    assert pull(store, found)[0].path.read_bytes() == tiny_gguf()


def test_an_old_name_of_a_repository_leads_to_the_new_one(hub: FakeHub, tmp_path: Path) -> None:
    hub.add("google-bert/bert", {"b.gguf": tiny_gguf("bert")}, alias="bert")
    store = make_store(hub, tmp_path)
    found = pin(store, "huggingface://bert")
    assert found.kind is ModelKind.EMBEDDING
    assert pull(store, found)[0].path.read_bytes() == tiny_gguf("bert")


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("huggingface://org/none", "is not at the hub"),
        ("huggingface://org/model@v9", "no revision 'v9'; it has main"),
        ("huggingface://org/model#none.gguf", "use one of #model-Q4_K_M.gguf"),
        ("huggingface://org/gated", "gated: accept its terms"),
        ("huggingface://org/encoder", "no GGUF file.*safetensors.*builtin://smollm2"),
        ("huggingface://org/t5", "architecture 't5'"),
        ("huggingface://org/broken", "another kind of file"),
        ("huggingface://a--b/c", "no name of a repository"),
    ],
)
def test_what_cannot_be_run_is_refused_at_the_pin(
    hub: FakeHub, tmp_path: Path, reference: str, words: str
) -> None:
    hub.add("org/gated", {"m.gguf": CONTENT}, gated=True)
    hub.add("org/encoder", {"config.json": b"{}", "model.safetensors": b"weights"})
    hub.add("org/t5", {"t5.gguf": tiny_gguf("t5")})
    hub.add("org/broken", {"m.gguf": b"<html>not a model</html>"})
    with pytest.raises(ModelError, match=words) as caught:
        pin(make_store(hub, tmp_path), reference)
    assert (caught.value.retryable, caught.value.http_status) == (False, 422)


def test_a_busy_hub_is_told_with_how_long(hub: FakeHub, tmp_path: Path) -> None:
    hub.faults.busy_api_answers, hub.faults.retry_after = 1, "17"
    with pytest.raises(ModelUnavailable, match=r"429 .*try again in 17 s") as caught:
        pin(make_store(hub, tmp_path))
    assert (caught.value.retry_after_s, caught.value.http_status) == (17.0, 503)


def test_a_hub_that_is_away_is_told_unless_the_model_is_here(tmp_path: Path) -> None:
    with FakeHub() as hub:
        hub.add("org/model", {"m.gguf": CONTENT})
        store = make_store(hub, tmp_path)
        before = pin(store)
        pull(store, before)
    assert pin(store) == before
    with pytest.raises(ModelUnavailable, match="connection to the hub"):
        pin(store, "huggingface://org/other")


def test_a_model_that_was_pinned_and_never_came_is_not_had_without_the_hub(tmp_path: Path) -> None:
    with FakeHub() as hub:
        hub.add("org/model", {"m.gguf": CONTENT})
        store = make_store(hub, tmp_path)
        pin(store)
    with pytest.raises(ModelUnavailable, match="Without the hub there are"):
        pin(store)


def test_what_answers_and_is_no_hub_is_told(hub: FakeHub, tmp_path: Path) -> None:
    elsewhere = HubSettings(endpoint=f"{hub.endpoint}/content")
    store = ModelStore(tmp_path, prepare=None, hub=elsewhere)
    with pytest.raises(ModelError, match="HF_ENDPOINT"):
        pin(store)


def test_a_cut_connection_goes_on_at_the_byte_where_it_was_cut(
    hub: FakeHub, tmp_path: Path
) -> None:
    store = make_store(hub, tmp_path)
    wanted = pin(store)
    hub.seen.clear()
    hub.sent_bytes.clear()
    hub.faults.cut_every_bytes = 300_000
    file, _ = pull(store, wanted)
    assert file.path.read_bytes() == CONTENT
    assert ranges(hub) == [f"bytes={at}-" for at in (0, 300_000, 600_000, 900_000)]
    assert hub.sent_bytes["model-Q4_K_M.gguf"] == len(CONTENT)


def test_a_hub_that_brings_nothing_more_fails_and_keeps_what_came(
    hub: FakeHub, tmp_path: Path
) -> None:
    store = make_store(hub, tmp_path, tries=3)
    wanted = pin(store)
    hub.faults.cut_every_bytes = 1000
    told: list[PullProgress] = []
    with pytest.raises(ModelUnavailable, match="what has come is kept"):
        store.pull(wanted, told.append)
    assert (told[-1].state, told[-1].retryable) == ("failed", True)
    hub.faults.cut_every_bytes = 0
    hub.seen.clear()
    file, _ = pull(store, wanted)
    assert file.path.read_bytes() == CONTENT
    assert ranges(hub) == ["bytes=3000-"]


def test_a_stalled_connection_fails_with_a_message_and_is_resumed(
    hub: FakeHub, tmp_path: Path
) -> None:
    store = make_store(hub, tmp_path, stall_s=0.3, tries=1)
    wanted = pin(store)
    hub.faults.stall_after_bytes = 20_000
    began_s = time.monotonic()
    with pytest.raises(ModelUnavailable, match=r"20000 of .* no byte from the hub for 0.3 s"):
        pull(store, wanted)
    assert time.monotonic() - began_s < 3
    hub.faults.stall_after_bytes = 0
    hub.seen.clear()
    assert pull(store, wanted)[0].path.read_bytes() == CONTENT
    assert ranges(hub) == ["bytes=20000-"]


def test_a_busy_hub_is_waited_for_as_long_as_it_asks(hub: FakeHub, tmp_path: Path) -> None:
    store = make_store(hub, tmp_path)
    wanted = pin(store)
    hub.faults.busy_answers = 2
    began_s = time.monotonic()
    file, told = pull(store, wanted)
    assert file.path.read_bytes() == CONTENT
    assert 2 <= time.monotonic() - began_s < 5
    assert any("busy (429) and asks to wait 1 s" in progress.message for progress in told)


def test_a_hub_that_is_busy_for_too_long_is_told(hub: FakeHub, tmp_path: Path) -> None:
    store = make_store(hub, tmp_path, busy_s=60)
    wanted = pin(store)
    hub.faults.busy_answers, hub.faults.retry_after = 1, "600"
    with pytest.raises(ModelUnavailable, match="try again in 600 s") as caught:
        pull(store, wanted)
    assert caught.value.retry_after_s == 600


def test_wrong_bytes_are_not_taken(hub: FakeHub, tmp_path: Path) -> None:
    store = make_store(hub, tmp_path)
    wanted = pin(store)
    hub.faults.alter = True
    with pytest.raises(ModelError, match="other bytes than the hub announced") as caught:
        pull(store, wanted)
    assert not caught.value.retryable
    assert store.find(wanted) is None
    assert list((tmp_path / "store" / "partial").iterdir()) == []


def test_a_partial_file_that_is_not_right_is_fetched_anew(hub: FakeHub, tmp_path: Path) -> None:
    store = make_store(hub, tmp_path)
    wanted = pin(store)
    partial = tmp_path / "store" / "partial" / f"{wanted.digest[7:]}.part"
    partial.write_bytes(bytes(500_000))  # what a power failure may leave
    assert pull(store, wanted)[0].path.read_bytes() == CONTENT


@pytest.mark.parametrize("size", [500_000, len(CONTENT) + 5])
def test_a_hub_without_ranges_is_read_from_the_start(
    hub: FakeHub, tmp_path: Path, size: int
) -> None:
    store = make_store(hub, tmp_path)
    wanted = pin(store)
    partial = tmp_path / "store" / "partial" / f"{wanted.digest[7:]}.part"
    partial.write_bytes((CONTENT + bytes(5))[:size])
    hub.faults.ignore_ranges = True
    assert pull(store, wanted)[0].path.read_bytes() == CONTENT


def test_a_disk_without_room_is_told_before_anything_is_fetched(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store(hub, tmp_path)
    wanted = pin(store)
    monkeypatch.setattr(downloads, "_SPARE_BYTES", 1 << 60)
    with pytest.raises(ModelStoreFull, match="sits models gc"):
        pull(store, wanted)


def test_the_token_goes_to_the_hub_alone(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    store = make_store(hub, tmp_path)
    _, told = pull(store, pin(store))
    asked = {seen.authorization for seen in hub.seen if not seen.path.startswith("/content/")}
    elsewhere = {seen.authorization for seen in hub.seen if seen.path.startswith("/content/")}
    assert (asked, elsewhere) == ({"Bearer hf_secret"}, {None})
    assert "hf_secret" not in repr(told)


def test_many_askers_in_one_process_download_once(hub: FakeHub, tmp_path: Path) -> None:
    store = make_store(hub, tmp_path)
    wanted = pin(store)
    hub.sent_bytes.clear()
    states: list[list[str]] = [[] for _ in range(4)]

    def ask(told: list[str]) -> None:
        store.pull(wanted, lambda progress: told.append(progress.state))

    threads = [threading.Thread(target=ask, args=(told,)) for told in states]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [told[-1] for told in states] == ["done"] * 4
    assert hub.sent_bytes["model-Q4_K_M.gguf"] == len(CONTENT)
