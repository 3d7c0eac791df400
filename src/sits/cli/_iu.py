"""`sits iu`: units, from their files to their endpoints."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from sits.cli import _past
from sits.cli._group import Group
from sits.cli._names import NameArgument
from sits.cli._output import (
    Output,
    OutputOption,
    print_json,
    print_pieces,
    print_table,
    progress,
    say,
)
from sits.cli._schema import schema
from sits.cli._unit_file import read_unit, spec_text
from sits.cli._waiting import wait_until_ready

app = typer.Typer(
    help="Intelligence Units: deploy, look at, call, roll back, delete.",
    no_args_is_help=True,
    cls=Group,
)


@app.command()
def deploy(
    file: Annotated[Path, typer.Option("--file", "-f", help="The unit's YAML file; -: the input.")],
    wait_s: Annotated[
        float,
        typer.Option("--wait", min=0, help="Seconds without progress to wait for; 0: do not."),
    ] = 60.0,
    region: Annotated[
        str | None, typer.Option(help="Where it is to run, instead of the file's region.")
    ] = None,
    dry_run: Annotated[bool, typer.Option(help="Check it, and change nothing.")] = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Make a unit's file true, and answer with its endpoint."""
    from sits.cli._client import connect

    unit = read_unit(file)
    values = unit.values if region is None else {**unit.values, "region": region}
    with connect() as api:
        path = f"/api/v1/units{'?dry_run=true' if dry_run else ''}"
        with unit.placed():
            answer: dict[str, Any] = api.request("POST", path, values)
        if wait_s > 0 and not dry_run:
            with progress(f"deploying {answer['name']}") as show:
                answer["phase"] = wait_until_ready(
                    api.request, answer["name"], wait_s, revision=answer["revision"], show=show
                )
    answer["notes"] = [*unit.notes, *(n for n in answer["notes"] if n not in unit.notes)]
    if output is Output.JSON:
        print_json(answer)
        return
    for note in answer["notes"]:
        say(f"note: {note}")
    say(f"{answer['name']} {answer['revision']} {'would deploy' if dry_run else answer['phase']}")
    typer.echo(answer["endpoint"])


@app.command("list")
def list_units(output: OutputOption = Output.TEXT) -> None:
    """List the units, with their state."""
    from sits.cli._client import connect

    with connect() as api:
        query = "" if output is Output.JSON else "?brief=true"
        units = api.request("GET", f"/api/v1/units{query}")["units"]
    if output is Output.JSON:
        print_json(units)
        return
    rows = [
        (
            unit["name"],
            unit["phase"],
            f"{unit['ready_instances']}/{unit['max_instances']}",
            unit["tier"],
            _counts(unit["starts"]),
            unit["model"],
            unit["message"],
        )
        for unit in units
    ]
    columns = ("NAME", "PHASE", "READY", "TIER", "STARTS", "MODEL", "MESSAGE")
    print_table(columns, rows, "no units; `sits iu deploy --file unit.yaml` makes one")


@app.command()
def get(name: NameArgument, output: OutputOption = Output.TEXT) -> None:
    """Show one unit: what is wanted, and what is."""
    from sits.cli._client import connect

    with connect() as api:
        unit = api.request("GET", f"/api/v1/units/{_segment(name)}")
    if output is Output.JSON:
        print_json(unit)
        return
    status = unit["status"]
    for label, value in (
        ("name", unit["name"]),
        ("revision", _revision(unit)),
        ("endpoint", unit["endpoint"]),
        ("phase", f"{status['phase']} ({status['reason']})"),
        ("message", status["message"]),
        ("instances", _counts(status["instances"])),
        ("tier", f"{status['tier']} (how the next request would start)"),
        ("starts", f"{_counts(status['starts'])} (since the platform's control was started)"),
    ):
        typer.echo(f"{label:<10} {value}")
    rows = [
        (each["type"], each["status"], each["reason"], each["message"])
        for each in status["conditions"]
    ]
    typer.echo()
    print_table(("CONDITION", "STATUS", "REASON", "MESSAGE"), rows, "")
    typer.echo(f"\n{spec_text(unit['spec'])}")


def _counts(counts: dict[str, int]) -> str:
    """Return counts in words: `3 warm, 1 cool`; `none` where there are none."""
    return ", ".join(f"{count} {what}" for what, count in counts.items()) or "none"


def _revision(unit: dict[str, Any]) -> str:
    serving = unit["status"]["serving_revision"]
    if serving in (None, unit["revision"]):
        return str(unit["revision"])
    return f"{unit['revision']} ({serving} takes traffic until it is ready)"


@app.command()
def delete(name: NameArgument, output: OutputOption = Output.TEXT) -> None:
    """Delete a unit. Requests that run finish; new ones find nothing there."""
    from sits.cli._client import connect

    with connect() as api:
        answer = api.request("DELETE", f"/api/v1/units/{_segment(name)}")
    if output is Output.JSON:
        print_json(answer)
    else:
        say(f"{name} is being deleted")


@app.command()
def call(
    name: NameArgument,
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", "-i", metavar="KEY=VALUE", help="An input of the template."),
    ] = None,
    inputs_json: Annotated[
        str | None, typer.Option("--json", help="All inputs, as a JSON object; - reads them.")
    ] = None,
    max_tokens: Annotated[int | None, typer.Option(help="At most so many tokens.")] = None,
    temperature: Annotated[float | None, typer.Option(help="0 is greedy.")] = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Fill a unit's template and print the answer as it comes."""
    from sits.cli._client import connect

    body = {
        "inputs": _inputs(inputs or [], inputs_json),
        "max_tokens": max_tokens,
        "temperature": temperature,
    }
    body = {key: value for key, value in body.items() if value is not None}
    path = f"/iu/{_segment(name)}/v1/query"
    with connect() as api:
        if output is Output.JSON:
            print_json(api.request("POST", path, body))
            return
        with api.stream(path, {**body, "stream": True}) as answer:
            print_pieces(event["output"] for event in answer.events)


for command in (
    _past.diff,
    _past.history,
    _past.rollback,
    _past.events,
    _past.logs,
    _past.wait,
    schema,
):
    app.command()(command)


def _inputs(pairs: list[str], document: str | None) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if document is not None:
        text = sys.stdin.read() if document == "-" else document
        try:
            values = json.loads(text)
        except ValueError as error:
            raise typer.BadParameter(f"--json is no JSON ({error}); expected an object") from error
        if not isinstance(values, dict):
            raise typer.BadParameter('--json is no object; expected such as {"question": "…"}')
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"--input {pair!r}; expected KEY=VALUE")
        values[key] = value
    return values


def _segment(name: str) -> str:
    """Return a name as one path segment, whatever it holds."""
    from urllib.parse import quote

    return quote(name, safe="")
