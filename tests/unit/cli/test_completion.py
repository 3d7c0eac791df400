"""The shell completes units' names, and is never told of what is wrong."""

import json
from collections.abc import Callable

import httpx2
import pytest
from typer.testing import CliRunner

from sits.cli import _client
from sits.cli._app import app
from sits.cli._names import complete_unit
from sits.cli._output import CliError

Answer = Callable[[httpx2.Request], httpx2.Response]


def models(*names: str) -> Answer:
    listed = {"object": "list", "data": [{"id": name} for name in names]}
    return lambda _request: httpx2.Response(200, text=json.dumps(listed))


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> Callable[[Answer], None]:
    def use(answer: Answer) -> None:
        transport = httpx2.MockTransport(answer)

        def connect(*, patience_s: float) -> _client.Api:
            assert patience_s <= 1.0
            return _client.Api("http://x", "k", transport, patience_s=patience_s)

        monkeypatch.setattr(_client, "connect", connect)

    return use


def complete(*words: str) -> list[str]:
    """Return what bash is given when a person presses the tab key after these words."""
    line = ["sits", *words]
    environment = {
        "_SITS_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(line),
        "COMP_CWORD": str(len(line) - 1),
    }
    result = CliRunner().invoke(app, [], env=environment, prog_name="sits")
    assert result.stderr == ""
    return result.stdout.split()


@pytest.mark.parametrize(
    "words",
    [
        *(("iu", command) for command in ("get", "delete", "call", "history", "rollback")),
        *(("iu", command) for command in ("events", "logs", "wait", "diff")),
        ("chat",),
    ],
)
def test_names_of_units_are_completed(
    words: tuple[str, ...], answered: Callable[[Answer], None]
) -> None:
    answered(models("chat-two", "embeddings", "chat"))
    assert complete(*words, "ch") == ["chat", "chat-two"]


def test_all_names_are_told_when_nothing_is_typed_yet(
    answered: Callable[[Answer], None],
) -> None:
    answered(models("b", "a"))
    assert complete_unit("") == ["a", "b"]


def refuse(_request: httpx2.Request) -> httpx2.Response:
    raise httpx2.ConnectError("nobody is there")


@pytest.mark.parametrize(
    "answer",
    [
        refuse,
        lambda _request: httpx2.Response(401, text='{"error": {"message": "no"}}'),
        lambda _request: httpx2.Response(200, text="<html>"),
        lambda _request: httpx2.Response(200, text="[]"),
        lambda _request: httpx2.Response(200, text='{"data": [1]}'),
        lambda _request: httpx2.Response(200, text=""),
    ],
)
def test_what_is_no_platform_completes_nothing_and_says_nothing(
    answer: Answer, answered: Callable[[Answer], None]
) -> None:
    answered(answer)
    assert complete("iu", "get", "ch") == []


def test_without_a_platform_nothing_is_completed() -> None:
    with pytest.raises(CliError):
        _client.connect()
    assert complete("iu", "get", "") == []
