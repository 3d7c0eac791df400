"""`sits demo`: the whole platform, once from start to end, in a directory of its own."""

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from sits.cli._output import CliError, Output, OutputOption, print_json, progress, say
from sits.cli._unit_file import read_unit
from sits.cli._waiting import wait_until_ready

if TYPE_CHECKING:
    from sits.cli._client import Api

_UNIT = Path(__file__).parent / "chat.yaml"
_QUESTION = "What is photosynthesis?"
_MAX_TOKENS = 160
_END_S = 10.0


@dataclass(frozen=True)
class _Answer:
    answer: str
    tokens: int
    tier: str
    ttft_ms: float
    tokens_per_s: float


def demo(
    file: Annotated[
        Path, typer.Option("--file", "-f", help="The unit to deploy; has its own model.")
    ] = _UNIT,
    question: Annotated[str, typer.Option(help="What to ask.")] = _QUESTION,
    output: OutputOption = Output.TEXT,
) -> None:
    """Start the platform, deploy a unit, stream an answer, and stop: all in one command.

    Nothing is left behind but the model, in the form that this machine runs fastest, and a
    platform that runs already is not touched.
    """
    unit = read_unit(file)
    show = output is Output.TEXT
    with _platform(show) as api:
        began = time.monotonic()
        with unit.placed():
            deployed = api.request("POST", "/api/v1/units", unit.values)
        with progress(f"loading {unit.values['model']}") as tell:
            wait_until_ready(api.request, deployed["name"], 120.0, show=tell)
        if show:
            say(f"deployed {deployed['name']} ({unit.values['model']}) in {_since(began)}")
            say(f"  {deployed['endpoint']}")
            say(f"\n> {question}\n")
        answer = _ask(api, deployed["name"], question, show=show)
    if not show:
        print_json(asdict(answer))
        return
    say(
        f"\n{answer.tier} start, first token after {answer.ttft_ms:.0f} ms, "
        f"{answer.tokens_per_s:.0f} tokens/s, {answer.tokens} tokens"
    )


@contextmanager
def _platform(show: bool) -> Iterator["Api"]:
    """Run a platform on a new home directory and a free port, and end both."""
    from sits.cli._client import Api, local_key
    from sits.cli._up import start_detached
    from sits.node import load_settings

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    home = Path(tempfile.mkdtemp(prefix="sits-demo-"))
    os.environ["SITS_MODELS_DIR"] = str(load_settings().models_path)
    os.environ["XDG_RUNTIME_DIR"] = str(home)  # its sockets go with it
    flags = {"home": home, "port": 0}
    try:
        began = time.monotonic()
        node, process = start_detached(load_settings(flags), flags, parent_pid=os.getpid())
        try:
            if show:
                say(f"started the platform at {node.url} in {_since(began)}")
            with Api(node.url, local_key(home)) as api:
                yield api
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the end is short, and is not cut
            process.terminate()
            process.wait(_END_S)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    """End by SIGTERM, or with the terminal, as by Ctrl-C: cleanly."""
    raise KeyboardInterrupt


def _ask(api: "Api", name: str, question: str, *, show: bool) -> _Answer:
    body: dict[str, Any] = {
        "model": name,
        "messages": [{"role": "user", "content": question}],
        "temperature": 0,
        "max_tokens": _MAX_TOKENS,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    parts: list[str] = []
    tokens = 0
    asked = first = last = time.monotonic()
    with api.stream("/v1/chat/completions", body) as answer:
        for event in answer.events:
            tokens = (event.get("usage") or {}).get("completion_tokens", tokens)
            text = "".join(c["delta"].get("content") or "" for c in event["choices"])
            if text:
                last = time.monotonic()
                first = first if parts else last
                parts.append(text)
                if show:
                    typer.echo(text, nl=False)
                    sys.stdout.flush()
    if show:
        typer.echo()
    if not parts:
        raise CliError("the model gave an empty answer; ask another question with --question")
    rate = (tokens - 1) / (last - first) if last > first else 0.0
    return _Answer(
        "".join(parts), tokens, answer.tier, round((first - asked) * 1e3, 1), round(rate, 1)
    )


def _since(began: float) -> str:
    return f"{time.monotonic() - began:.1f} s"
