"""How results and errors are shown."""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Any

import typer

from sits._errors import SitsError


class Output(StrEnum):
    """A form of output."""

    TEXT = "text"
    JSON = "json"


OutputOption = Annotated[
    Output, typer.Option("-o", "--output", help="text for people, json for programs.")
]


class CliError(SitsError):
    """The command cannot do what was asked; the message says what to do."""

    code = "cli_error"


class Refusal(CliError):
    """The platform refused a request.

    Attributes:
        status: of its HTTP answer.
        param: the field of what was sent that it is about, if it is about one.
    """

    def __init__(self, message: str, status: int, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.param = param


def print_json(value: Any) -> None:
    """Print one JSON document on standard output."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], empty: str) -> None:
    """Print rows under their columns' names; `empty` when there are none.

    On a terminal the last column is cut where the line would not fit.
    """
    if not rows:
        say(empty)
        return
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (columns, *rows)
    )
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    typer.echo("\n".join(_cut(line, room) for line in lines))  # in one piece: each echo is flushed


def _cut(line: str, room: int) -> str:
    return line if not room or len(line) <= room else line[: room - 1] + "…"


def print_pieces(pieces: Iterable[str]) -> str:
    """Print a text as it comes, on standard output, and return it whole."""
    parts: list[str] = []
    for piece in pieces:
        parts.append(piece)
        typer.echo(piece, nl=False)
        sys.stdout.flush()
    typer.echo()
    return "".join(parts)


def say(message: str) -> None:
    """Tell a person something, on standard error."""
    typer.echo(message, err=True)


@contextmanager
def progress(message: str) -> Iterator[Callable[[str], None]]:
    """Show that something takes its time, and give what shows how far it is.

    On a terminal that is one line that changes; elsewhere each new stage (what stands before a
    colon) is a line of its own.
    """
    if not sys.stderr.isatty():
        stages: set[str] = set()

        def tell(stage: str) -> None:
            head = stage.partition(":")[0]
            if head not in stages:
                stages.add(head)
                say(f"{message}: {stage}")

        yield tell
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status(escape(message)) as status:
        yield lambda stage: status.update(escape(f"{message}: {stage}"))


def since(unix_s: float) -> str:
    """Return how long ago a time is, in its two largest units: `3m12s`, `2d4h`."""
    left = max(0, int(time.time() - unix_s))
    parts: list[str] = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count or parts or unit == "s":
            parts.append(f"{count}{unit}")
    return "".join(parts[:2])


def print_error(error: SitsError) -> None:
    """Print an error, on standard error, red on a terminal."""
    typer.secho(f"error: {error}", err=True, fg="red" if _colours() else None)


def _colours() -> bool:
    return sys.stderr.isatty() and "NO_COLOR" not in os.environ
