"""`sits models`: what is in the store of this machine, without a platform that runs."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sits.cli._group import Group
from sits.cli._output import Output, OutputOption, print_json, print_table, say

if TYPE_CHECKING:
    from sits.models import ModelStore, PullProgress, StoredModel

app = typer.Typer(
    help="Models on this machine: list, pull, rm, gc.", no_args_is_help=True, cls=Group
)

_SHOWN_DIGITS = 12


@app.command("list")
def list_models(output: OutputOption = Output.TEXT) -> None:
    """List the models that are here, with what needs them."""
    models = _open_store().list_models()
    if output is Output.JSON:
        print_json([_as_json(model) for model in models])
        return
    rows = [
        (
            ", ".join(model.references) or "-",
            _taken(model),
            model.digest.removeprefix("sha256:")[:_SHOWN_DIGITS],
            model.representation or f"({model.state})",
            ", ".join(model.needed_by) or "-",
        )
        for model in models
    ]
    columns = ("MODEL", "SIZE", "DIGEST", "FORM", "NEEDED BY")
    print_table(columns, rows, "no models; `sits models pull REFERENCE` brings one")


@app.command(short_help="Bring a model here and prepare it.")
def pull(
    reference: Annotated[
        str,
        typer.Argument(help="Such as huggingface://ORG/NAME#FILE.gguf or file:///PATH.gguf."),
    ],
    output: OutputOption = Output.TEXT,
) -> None:
    """Bring a model here, going on where an earlier pull broke off, and prepare it."""
    from sits.spec import parse_model_reference

    try:
        parsed = parse_model_reference(reference)
    except ValueError as error:
        raise typer.BadParameter(f"{reference!r} {error}") from error
    store = _open_store()
    pin = store.pin(parsed)
    with _show_progress(reference) as on_progress:
        file = store.pull(pin, on_progress)
    if output is Output.JSON:
        print_json(
            {
                "reference": pin.reference,
                "digest": pin.digest,
                "commit": pin.commit,
                "file": pin.file,
                "kind": pin.kind,
                "path": str(file.path),
                "size_bytes": file.size_bytes,
                "representation": file.representation,
            }
        )
        return
    say(f"{reference} is here: {file.representation}, {_size(file.size_bytes)}")
    typer.echo(pin.digest)


@app.command("rm")
def remove(
    name: Annotated[str, typer.Argument(help="A reference, or the beginning of a digest.")],
    output: OutputOption = Output.TEXT,
) -> None:
    """Remove a model that no platform needs."""
    model = _open_store().remove(name)
    if output is Output.JSON:
        print_json(_as_json(model))
    else:
        say(f"removed {name}: {_size(model.stored_bytes)}")


@app.command(short_help="Remove the models that no platform needs.")
def gc(
    dry_run: Annotated[bool, typer.Option(help="Tell what would go, and remove nothing.")] = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Remove the models that no platform needs, and what broken downloads left."""
    done = _open_store().collect(dry_run=dry_run)
    if output is Output.JSON:
        removed = [_as_json(model) for model in done.models]
        print_json({"removed": removed, "freed_bytes": done.freed_bytes, "dry_run": dry_run})
        return
    for model in done.models:
        typer.echo(", ".join(model.references) or model.digest)
    say(f"{'would free' if dry_run else 'freed'} {_size(done.freed_bytes)}")


def _open_store() -> "ModelStore":
    from sits.models import ModelStore, prepare_command
    from sits.node import load_settings

    settings = load_settings()
    return ModelStore(settings.models_path, prepare=prepare_command(settings.engine))


@contextmanager
def _show_progress(reference: str) -> "Iterator[Callable[[PullProgress], None]]":
    if sys.stderr.isatty():
        with _bar(reference) as on_progress:
            yield on_progress
    else:
        yield _line_printer()


@contextmanager
def _bar(reference: str) -> "Iterator[Callable[[PullProgress], None]]":
    from rich import progress as rich_progress
    from rich.console import Console, Group
    from rich.live import Live

    console = Console(stderr=True)
    bytes_shown = rich_progress.Progress(
        rich_progress.TextColumn("{task.description}"),
        rich_progress.BarColumn(),
        rich_progress.DownloadColumn(),
        rich_progress.TransferSpeedColumn(),
        rich_progress.TimeRemainingColumn(),
    )
    waiting = rich_progress.Progress(
        rich_progress.SpinnerColumn(),
        rich_progress.TextColumn("{task.description}"),
        rich_progress.TimeElapsedColumn(),
    )
    with Live(Group(bytes_shown, waiting), console=console, transient=True):
        counted = bytes_shown.add_task(reference, total=None, visible=False)
        other = waiting.add_task(reference, total=None)

        def on_progress(progress: "PullProgress") -> None:
            words = progress.message or progress.state
            is_counted = progress.state == "downloading" and bool(progress.total_bytes)
            if is_counted:
                bytes_shown.update(
                    counted,
                    total=progress.total_bytes,
                    completed=progress.done_bytes,
                    description=words,
                    visible=True,
                )
            waiting.update(other, description=words, visible=not is_counted)

        yield on_progress


def _line_printer() -> "Callable[[PullProgress], None]":
    last = ""

    def on_progress(progress: "PullProgress") -> None:
        nonlocal last
        if progress.state in {"done", "failed"}:  # the command itself says how it ended
            return
        tenth = 10 * progress.done_bytes // progress.total_bytes if progress.total_bytes else 0
        line = progress.message or f"{progress.state} {tenth * 10} %"
        if line != last:
            last = line
            say(line)

    return on_progress


def _as_json(model: "StoredModel") -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(model)


def _taken(model: "StoredModel") -> str:
    """Return what a model takes of the store's disk; of a source left in place, its size there."""
    if model.state != "partial" and model.stored_bytes < model.size_bytes:
        return f"{_size(model.size_bytes)} in place"
    return _size(model.stored_bytes)


def _size(count: int) -> str:
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if value >= 10 or unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
