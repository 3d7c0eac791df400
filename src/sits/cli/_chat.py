"""`sits chat`: a conversation in the terminal."""

import contextlib
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sits.cli._names import NameArgument
from sits.cli._output import (
    CliError,
    Output,
    OutputOption,
    print_error,
    print_json,
    print_pieces,
    say,
)

if TYPE_CHECKING:
    from sits.cli._client import Api


def chat(
    name: NameArgument,
    message: Annotated[
        str | None, typer.Argument(help="One message; without it, a conversation.")
    ] = None,
    system: Annotated[str | None, typer.Option(help="A system prompt of your own.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="At most so many tokens.")] = None,
    temperature: Annotated[float | None, typer.Option(help="0 is greedy.")] = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Talk with a unit; the answer is printed as it comes."""
    from sits.cli._client import connect

    options = {"model": name, "max_tokens": max_tokens, "temperature": temperature}
    options = {key: value for key, value in options.items() if value is not None}
    messages: list[dict[str, str]] = []
    if system is not None:
        messages.append({"role": "system", "content": system})
    with connect() as api:
        if message is None:
            if output is Output.JSON:
                raise typer.BadParameter("a conversation has no JSON form; give a message")
            _converse(api, options, messages)
            return
        messages.append({"role": "user", "content": message})
        if output is Output.JSON:
            body = {**options, "messages": messages}
            print_json(api.request("POST", "/v1/chat/completions", body))
        else:
            _say_answer(api, options, messages)


def _converse(api: "Api", options: dict[str, Any], messages: list[dict[str, str]]) -> None:
    """Ask and answer until an empty line or the end of the input; Ctrl-C ends one answer."""
    interactive = sys.stdin.isatty()
    if interactive:
        with contextlib.suppress(ImportError):  # not in every Python; it edits the line
            import readline  # noqa: F401
        say(f"Talking with {options['model']}. An empty line or Ctrl-D ends it.")
    while words := _ask_person(interactive):
        messages.append({"role": "user", "content": words})
        try:
            answer = _say_answer(api, options, messages)
        except (CliError, KeyboardInterrupt) as error:
            typer.echo()
            if isinstance(error, CliError):
                print_error(error)
            elif not interactive:
                raise
            messages.pop()  # the conversation goes on as if it had not been asked
            continue
        messages.append({"role": "assistant", "content": answer})


def _ask_person(interactive: bool) -> str:
    """Return the next line, empty when there are no more."""
    try:
        return input("> " if interactive else "").strip()
    except (EOFError, KeyboardInterrupt):
        if interactive:
            typer.echo()
        return ""


def _say_answer(api: "Api", options: dict[str, Any], messages: list[dict[str, str]]) -> str:
    """Print an answer as it comes and return it whole."""
    body = {**options, "messages": messages, "stream": True}
    with api.stream("/v1/chat/completions", body) as answer:
        return print_pieces(
            choice["delta"].get("content") or ""
            for event in answer.events
            for choice in event["choices"]
        )
