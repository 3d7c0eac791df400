"""A host in a process of its own, as the node starts it, and a control's link to it."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from sits.runtime.host import HostSettings
from sits.runtime.remote import RemoteSettings
from sits.testing import FakeEndpointBehaviour, FakeOpenAI
from sits.wire import (
    ChatPrompt,
    Emitted,
    Finished,
    FromHost,
    FromWorker,
    Generate,
    Instance,
    InstanceReady,
    Message,
    RemoteEndpoint,
    StartInstance,
    UnitAdapter,
    UnitPrompt,
)
from tests.links import Link
from tests.processes import end

STEP_S = 0.002


class Host:
    """A host process and a control's link to it.

    Args:
        directory: for its sockets; short, since a unix socket's path has at most 107 bytes.
        kind: "fork", "resident" or "remote".
        step_s: how long a step of the engine takes, or an endpoint waits before each piece.
        behaviour: of the fake model, beside that.
    """

    def __init__(
        self, directory: Path, kind: str, *, step_s: float = STEP_S, **behaviour: Any
    ) -> None:
        self.kind = kind
        self.endpoint = str(directory / "host.sock")
        self.prompts = directory / "p"
        self.openai = FakeOpenAI(FakeEndpointBehaviour(pause_s=step_s))
        if kind == "remote":
            self.openai.__enter__()
            module, settings = "sits.runtime.remote", self._remote_settings(directory)
        else:
            model = directory / "model.json"
            model.write_text(json.dumps({"step_s": step_s, **behaviour}))
            module, settings = "sits.runtime.host", self._settings(directory, model)
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, msgspec.json.encode(settings)],
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        self._links: list[Link] = []
        self.link = self.connect(self.endpoint, FromHost)

    def _settings(self, directory: Path, model: Path) -> Any:
        return HostSettings(
            model_path=str(model),
            endpoint=self.endpoint,
            run_dir=str(directory / "i"),
            parent_pid=os.getpid(),
            engine="sits.testing:load_fake",
            resident=self.kind == "resident",
            kv_dir=str(directory / "kv"),
            sequences=2,
            worker_bytes=256 << 20,
        )

    def _remote_settings(self, directory: Path) -> Any:
        return RemoteSettings(
            tenant="acme",
            endpoint=self.endpoint,
            run_dir=str(directory / "i"),
            secrets_dir=str(directory / "secrets"),
            parent_pid=os.getpid(),
            capacity=2,
        )

    @property
    def remotes(self) -> tuple[RemoteEndpoint, ...]:
        """What an instance's order names."""
        return (RemoteEndpoint(self.openai.url, "there"),) if self.kind == "remote" else ()

    def connect(self, endpoint: str, types: Any = FromWorker) -> Link:
        link = Link(endpoint, types)
        self._links.append(link)
        return link

    def start(
        self,
        name: str,
        tenant: str = "acme",
        unit: str = "chat",
        prompt: UnitPrompt = UnitPrompt(),  # noqa: B008 - it is frozen
        adapters: tuple[UnitAdapter, ...] = (),
    ) -> Instance:
        order = StartInstance(name, tenant, unit, self.remotes, prompt, adapters=adapters)
        self.link.send(order)
        ready = self.link.next(InstanceReady)
        assert ready.instance == name
        value = ready.value
        assert isinstance(value, Instance)
        return value

    def close(self) -> None:
        for link in self._links:
            link.close()
        end(self.process)
        if self.kind == "remote":
            self.openai.__exit__(None, None, None)
        else:
            self.openai.close()


@contextmanager
def running(kind: str, **more: Any) -> Iterator[Host]:
    """Run a host. Not in `tmp_path`, whose names are too long for sockets."""
    with tempfile.TemporaryDirectory(prefix="sits-") as directory:
        host = Host(Path(directory), kind, **more)
        try:
            yield host
        finally:
            host.close()


def ask(words: str, request_id: str = "r1", max_tokens: int | None = None) -> Generate:
    return Generate(request_id, ChatPrompt((Message("user", words),)), max_tokens=max_tokens)


def answer(worker: Link) -> tuple[str, Finished]:
    text, seq = "", 0
    while True:
        event = worker.next()
        if isinstance(event, Finished):
            return text, event
        assert isinstance(event, Emitted)
        assert event.piece.seq == seq
        seq += 1
        text += event.piece.text
