"""The command's tree, and the one place where an error becomes an exit status."""

import os
import sys
from typing import Annotated, NoReturn

import typer

from sits._errors import SitsError
from sits._version import __version__
from sits.cli import _bench, _chat, _demo, _doctor, _iu, _models, _up
from sits.cli._group import Group
from sits.cli._output import CliError, print_error

app = typer.Typer(
    name="sits",
    cls=Group,
    help="An AI-native serverless platform: one YAML file becomes a streaming model endpoint.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # the other modes import rich, a third of a second of CPU time
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("up")(_up.up)
app.command("down")(_up.down)
app.command("demo", short_help="See it all once: start, deploy, stream an answer, stop.")(
    _demo.demo
)
app.command("chat")(_chat.chat)
app.command("doctor", short_help="Check this machine and the platform on it.")(_doctor.doctor)
app.command("bench", short_help="Measure this machine, each figure beside a baseline.")(
    _bench.bench
)
app.add_typer(_iu.app, name="iu")
app.add_typer(_models.app, name="models")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sits {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    pass


def main() -> NoReturn:
    """Run the command and exit: 0 done, 1 failed, 2 wrong use, 130 interrupted."""
    try:
        app()
    except SitsError as error:
        print_error(error)
        sys.exit(1)
    except BrokenPipeError:  # the reader of our output has what it wanted (`sits … | head`)
        _abandon_output()
        sys.exit(1)
    except OSError as error:
        _abandon_output()
        print_error(CliError(f"{error}; is the disk full, or the output closed?"))
        sys.exit(1)
    sys.exit(0)


def _abandon_output() -> None:
    """Keep the interpreter from writing again, at its end, what could not be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
