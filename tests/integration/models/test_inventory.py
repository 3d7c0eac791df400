"""A platform that says what it needs at the very moment when that is being removed."""

import threading
from pathlib import Path
from typing import Any

import pytest

from sits.models import ModelStore
from sits.models import _inventory as inventory
from sits.spec import parse_model_reference
from sits.testing import tiny_gguf


def test_whoever_keeps_a_model_amid_its_removal_then_sees_that_it_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ModelStore(tmp_path / "store", prepare=None)
    (tmp_path / "m.gguf").write_bytes(tiny_gguf())
    pin = store.pin(parse_model_reference(f"file://{tmp_path}/m.gguf"))
    store.pull(pin, lambda _progress: None)
    seen: list[object] = []

    def deploy() -> None:
        store.keep(tmp_path, [pin.digest])
        seen.append(store.find(pin))

    deploying = threading.Thread(target=deploy)
    remove = inventory._unlink

    def remove_amid(*given: Any) -> None:
        deploying.start()
        deploying.join(0.3)  # it would be done by then, were it not held up
        remove(*given)

    monkeypatch.setattr(inventory, "_unlink", remove_amid)
    assert len(store.collect().models) == 1
    deploying.join()
    assert seen == [None]
