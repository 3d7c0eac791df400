"""A platform of its own for a benchmark: `sits up`, in a temporary home, on a free port.

Invariants: nothing of the person's own platform is used but its models; it ends with this
process however that ends, and its home goes with it. Processes are looked at in /proc, so this
is for Linux.
"""

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from sits.bench._client import Ask
from sits.bench._errors import BenchError
from sits.bench._processes import family
from sits.models import ModelFile, ModelStore, prepare_command
from sits.runtime.engine import LLAMACPP
from sits.spec import parse_model_reference

Message = tuple[str, str]
"""A role and its words."""

FAKE_ENGINE = "sits.testing:load_fake"
_END_S = 10.0
_REQUEST_S = 60.0
_READY_S = 240.0
_POLL_S = 0.05
_ENGINE_PACKAGE = "llama_cpp"


def engine_setting() -> str:
    """Return the engine's factory for `SITS_ENGINE`; empty: llama.cpp, which is installed."""
    given = os.environ.get("SITS_ENGINE", "")
    if given or importlib.util.find_spec(_ENGINE_PACKAGE) is not None:
        return given
    return FAKE_ENGINE


def engine_words() -> str:
    """Return what the engine is called in a result's setting."""
    return engine_setting() or "llama.cpp"


def need_engine(bench: str) -> None:
    """Refuse to run a benchmark whose numbers would be none of a model.

    Raises:
        BenchError: the engine is not installed.
    """
    if engine_setting() == FAKE_ENGINE:
        raise BenchError(
            f"'{bench}' measures the engine, and {_ENGINE_PACKAGE} is not installed; install it: "
            "make ready"
        )


@dataclass(frozen=True)
class BenchPlatform:
    """A running platform.

    Attributes:
        environment: that it was started with, and with which the command finds it.
        http: a client that has its key.
        node_pid: its first process.
    """

    environment: Mapping[str, str]
    http: httpx2.Client
    node_pid: int

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request and return the answer's JSON.

        Raises:
            BenchError: it is refused, or there is no answer.
        """
        try:
            reply = self.http.request(method, path, json=body)
        except httpx2.HTTPError as error:
            raise BenchError(f"{method} {path} got no answer: {error!r}") from error
        if not reply.is_success:
            raise BenchError(f"{method} {path} was answered {reply.status_code}: {reply.text}")
        return reply.json()

    def first_piece_ms(self, unit: str, words: str) -> float:
        """Stream an answer of a unit, and return how long its first text took.

        Raises:
            BenchError: there is no text.
        """
        message = {"role": "user", "content": words}
        body = {"model": unit, "messages": [message], "max_tokens": 4, "stream": True}
        began_s = time.perf_counter()
        first_s: float | None = None
        try:
            with self.http.stream("POST", "/v1/chat/completions", json=body) as reply:
                for line in reply.iter_lines():
                    if first_s is None and _has_text(line):
                        first_s = time.perf_counter()
        except httpx2.HTTPError as error:
            raise BenchError(f"the stream of '{unit}' broke: {error!r}") from error
        if first_s is None:
            raise BenchError(f"'{unit}' was asked {words!r} and answered no text")
        return (first_s - began_s) * 1e3

    def command_ms(self, *arguments: str) -> float:
        """Run `sits` as a person does and return its time from exec to exit.

        Raises:
            BenchError: it fails.
        """
        command = [*_sits(), *arguments]
        began_s = time.perf_counter()
        done = subprocess.run(  # noqa: S603 - our own command
            command, env=dict(self.environment), capture_output=True, check=False
        )
        took_ms = (time.perf_counter() - began_s) * 1e3
        if done.returncode:
            raise BenchError(f"{command} failed: {done.stderr.decode('utf-8', 'replace')}")
        return took_ms

    def service_pid(self, name: str) -> int:
        """Return the process id of a service, such as `control`.

        Raises:
            BenchError: it does not run.
        """
        children = Path(f"/proc/{self.node_pid}/task/{self.node_pid}/children").read_text()
        for pid in map(int, children.split()):
            if Path(f"/proc/{pid}/comm").read_text().strip() == f"sits-{name}":
                return pid
        raise BenchError(f"no {name} runs below the node {self.node_pid}")

    def count_processes(self, name: str) -> int:
        """Return how many processes of the platform are called so, such as `worker`."""
        return sum(comm == f"sits-{name}" for comm in family(self.node_pid))

    def deploy(self, spec: Mapping[str, Any]) -> None:
        """Deploy a unit, and wait until it is ready.

        Raises:
            BenchError: it is refused, or not ready within `_READY_S`.
        """
        self.request("POST", "/api/v1/units", spec)
        until_s = time.perf_counter() + _READY_S
        while True:
            status = self.request("GET", f"/api/v1/units/{spec['name']}")["status"]
            if status["phase"] == "Ready":
                return
            if status["phase"] == "Failed" or time.perf_counter() > until_s:
                raise BenchError(f"'{spec['name']}' is not ready: {status['message']}")
            time.sleep(_POLL_S)

    def ask(self, unit: str, messages: Sequence[Message], tokens: int, **more: Any) -> Ask:
        """Return the request for a streamed greedy answer of at most so many tokens."""
        return Ask(
            self.http.base_url.port or 80,
            chat_body(unit, messages, tokens, **more),
            {"Authorization": self.http.headers["Authorization"]},
        )

    def model_file(self, reference: str) -> ModelFile:
        """Return the file that a unit's model is served from.

        Raises:
            BenchError: it is not here.
        """
        given = self.environment.get("SITS_MODELS_DIR")
        root = Path(given or f"{self.environment['SITS_HOME']}/models")
        # As the node does, so that it is the very file that the platform serves.
        engine = self.environment.get("SITS_ENGINE") or LLAMACPP
        store = ModelStore(root, prepare=prepare_command(engine))
        file = store.find(store.pin(parse_model_reference(reference)))
        if file is None:
            raise BenchError(f"{reference} is not in {store.root}; a unit has to be deployed first")
        return file


def chat_body(model: str, messages: Sequence[Message], tokens: int, **more: Any) -> dict[str, Any]:
    """Return the document that asks for a streamed greedy answer; the same for all peers."""
    return {
        "model": model,
        "messages": [{"role": role, "content": words} for role, words in messages],
        "max_tokens": tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        **more,
    }


@contextmanager
def run_platform(
    models_dir: str, settings: Mapping[str, str] | None = None
) -> Iterator[BenchPlatform]:
    """Run a platform, and end it.

    Args:
        models_dir: directory of models; empty: in its home.
        settings: of the platform, by name, such as `sequences`.

    Raises:
        BenchError: it does not come up, or this is not Linux.
    """
    if not Path("/proc/self/schedstat").exists():
        raise BenchError("processes are measured through /proc; run benchmarks on Linux")
    # Its sockets lie here too, and a socket's path has to be short.
    home = Path(tempfile.mkdtemp(prefix="sb-", dir="/tmp"))
    environment = _environment(home, models_dir, settings or {})
    command = [sys.executable, "-P", "-m", "sits.cli", "up", "--port", "0", "-o", "json"]
    process = subprocess.Popen(  # noqa: S603 - our own command
        [*command, "--parent-pid", str(os.getpid())],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        with _client(_url(process), home) as http:
            yield BenchPlatform(environment, http, process.pid)
    finally:
        _end(process)
        shutil.rmtree(home, ignore_errors=True)


def _environment(home: Path, models_dir: str, settings: Mapping[str, str]) -> dict[str, str]:
    inherited = {name: text for name, text in os.environ.items() if not name.startswith("SITS_")}
    own = {"SITS_HOME": str(home), "XDG_RUNTIME_DIR": str(home)}
    if models_dir:
        own["SITS_MODELS_DIR"] = models_dir
    if engine := engine_setting():
        own["SITS_ENGINE"] = engine
    given = {f"SITS_{name.upper()}": text for name, text in settings.items()}
    return inherited | own | given


def _url(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    assert process.stderr is not None
    line = process.stdout.readline()
    if not line:
        words = process.stderr.read().decode("utf-8", "replace").strip()
        raise BenchError(f"the platform did not start: {words}")
    return str(json.loads(line)["url"])


def _client(url: str, home: Path) -> httpx2.Client:
    key = (home / "key").read_text(encoding="ascii").strip()
    return httpx2.Client(
        base_url=url,
        headers={"Authorization": f"Bearer {key}"},
        timeout=_REQUEST_S,
        trust_env=False,
        verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),  # there is no TLS, so no authorities
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(_END_S)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def _sits() -> Sequence[str]:
    script = Path(sys.executable).with_name("sits")
    return [str(script)] if script.exists() else [sys.executable, "-P", "-m", "sits.cli"]


def _has_text(line: str) -> bool:
    data = line.removeprefix("data: ")
    if data in (line, "[DONE]"):
        return False
    event = json.loads(data)
    return any(choice.get("delta", {}).get("content") for choice in event.get("choices", ()))
