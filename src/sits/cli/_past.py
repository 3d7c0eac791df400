"""`sits iu diff|history|rollback|events|logs|wait`: what changed, what happened, and back again."""

import difflib
import json
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from sits.cli._log_line import read_line
from sits.cli._names import NameArgument, complete_unit
from sits.cli._output import (
    CliError,
    Output,
    OutputOption,
    print_json,
    print_table,
    progress,
    say,
    since,
)
from sits.cli._unit_file import UnitFile, read_unit
from sits.cli._waiting import wait_for_condition, wait_until_gone, wait_until_ready

FollowOption = Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes.")]
_POLL_S = 0.5
_STATUSES = ("True", "False", "Unknown")


def diff(
    name: Annotated[
        str | None,
        typer.Argument(help="The unit, to compare revisions.", autocompletion=complete_unit),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", help="A unit's file, to compare with what is; -: the input."),
    ] = None,
    old: Annotated[
        str | None, typer.Option("--from", help="A revision; without: what takes traffic.")
    ] = None,
    new: Annotated[
        str | None, typer.Option("--to", help="A revision; without: the newest.")
    ] = None,
    exit_code: Annotated[bool, typer.Option(help="End with status 1 if they differ.")] = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show what a file would change, or two revisions' difference.

    NAME compares two revisions of a unit, --file a file with what is deployed.
    """
    from sits.cli._client import connect

    if name is None and file is None:
        raise typer.BadParameter(
            "one of two is needed: NAME compares a unit's revisions, --file compares a file with "
            "what is deployed"
        )
    if name is not None and file is not None:
        raise typer.BadParameter("NAME and --file are both given; give one of them")
    unit = read_unit(file) if file is not None else None
    with connect() as api:
        if unit is not None:
            before, after = _file_sides(api, unit)
        else:
            before, after = _revision_sides(api, _segment(name or ""), old, new)
    lines = _unified(before, after)
    if output is Output.JSON:
        sides = {"from": before[0], "to": after[0]}
        print_json({**sides, "same": not lines, "diff": "\n".join(lines)})
    elif lines:
        for line in lines:
            colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[0])
            typer.secho(line, fg=colour if sys.stdout.isatty() else None)
    else:
        say(f"{before[0]} and {after[0]} are the same")
    if lines and exit_code:
        raise typer.Exit(1)


def history(name: NameArgument, output: OutputOption = Output.TEXT) -> None:
    """List which revisions took a unit's traffic, and when."""
    from sits.cli._client import connect

    with connect() as api:
        answer = api.request("GET", f"/api/v1/units/{_segment(name)}/history")
    if output is Output.JSON:
        print_json(answer)
        return
    served = {route["revision"] for route in answer["routes"]}
    rows = [
        (str(route["seq"]), route["revision"], since(route["at_s"]), route["cause"], mark)
        for route in answer["routes"]
        for mark in ["takes traffic" if route is answer["routes"][-1] else ""]
    ]
    rows += [
        ("-", each["revision"], since(each["created_s"]), "-", "never took traffic")
        for each in answer["revisions"]
        if each["revision"] not in served
    ]
    print_table(("NO", "REVISION", "SINCE", "CAUSE", ""), rows, "no revision took traffic yet")


def rollback(
    name: NameArgument,
    to: Annotated[
        str | None, typer.Option("--to", help="A revision; without: what served before.")
    ] = None,
    wait_s: Annotated[
        float,
        typer.Option("--wait", min=0, help="Seconds without progress to wait for; 0: do not."),
    ] = 60.0,
    output: OutputOption = Output.TEXT,
) -> None:
    """Go back to an earlier revision. The newer one serves until that is ready."""
    from urllib.parse import quote

    from sits.cli._client import connect

    query = f"?to={quote(to, safe='')}" if to else ""
    with connect() as api:
        path = f"/api/v1/units/{_segment(name)}/rollback{query}"
        answer: dict[str, Any] = api.request("POST", path)
        if wait_s > 0:
            with progress(f"rolling {name} back") as show:
                answer["phase"] = wait_until_ready(
                    api.request, _segment(name), wait_s, revision=answer["revision"], show=show
                )
    if output is Output.JSON:
        print_json(answer)
    else:
        say(f"{name} {answer['revision']} {answer['phase']}")


def events(
    name: NameArgument, follow: FollowOption = False, output: OutputOption = Output.TEXT
) -> None:
    """Show what happened to a unit, also to one that is gone."""
    from sits.cli._client import connect

    path = f"/api/v1/units/{_segment(name)}/events"
    with connect() as api:
        found = api.request("GET", path)["events"]
        if output is Output.JSON and not follow:
            print_json(found)
            return
        if output is Output.TEXT:
            columns = ("LAST", "KIND", "REASON", "TIMES", "MESSAGE")
            print_table(columns, [_event_row(event) for event in found], "nothing has happened yet")
        last, fresh = 0, found if output is Output.JSON else []
        while follow:
            for event in fresh:
                _print_line(event, output, "  ".join(_event_row(event)))
            last = max((event["seq"] for event in found), default=last)
            time.sleep(_POLL_S)
            found = fresh = api.request("GET", f"{path}?after={last}")["events"]


def logs(
    name: NameArgument,
    tail: Annotated[int, typer.Option(min=0, max=1000, help="At most so many lines.")] = 100,
    follow: FollowOption = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Print what the platform's logs say of a unit.

    Its requests are there, and what became of it.
    """
    from urllib.parse import quote

    from sits.cli._client import connect

    path = f"/api/v1/units/{_segment(name)}/logs"
    with connect() as api:
        page = api.request("GET", f"{path}?tail={tail}")
        if output is Output.JSON and not follow:
            print_json([read_line(line) for line in page["lines"]])
            return
        while True:
            for line in page["lines"]:
                _print_line(read_line(line), output, line)
            if not follow:
                return
            time.sleep(_POLL_S)
            cursor = quote(page["cursor"], safe="")
            page = api.request("GET", f"{path}?tail=1000&cursor={cursor}")


def wait(
    name: NameArgument,
    condition: Annotated[
        str,
        typer.Option("--for", help="ready, deleted, or CONDITION or CONDITION=STATUS."),
    ] = "ready",
    timeout_s: Annotated[float, typer.Option("--timeout", min=0, help="Seconds.")] = 60.0,
    output: OutputOption = Output.TEXT,
) -> None:
    """Wait until a unit is ready, gone, or has a condition.

    Conditions are those that `sits iu get` shows, such as RolledOut.
    """
    from sits.cli._client import connect

    path = _segment(name)
    kind, equals, status = condition.partition("=")
    if not kind or (equals and status not in _STATUSES):
        raise typer.BadParameter(
            f"--for {condition!r}: expected ready, deleted, CONDITION or CONDITION=STATUS, such as "
            f"Ready=False; a status is {', '.join(_STATUSES)}, and `sits iu get NAME` shows a "
            "unit's conditions"
        )
    with connect() as api, progress(f"waiting for {name}") as show:
        if condition == "deleted":
            wait_until_gone(api.request, path, timeout_s)
            told = {"name": name, "deleted": True}
        elif condition == "ready":
            phase = wait_until_ready(api.request, path, timeout_s, show=show)
            told = {"name": name, "phase": phase}
        else:
            found = wait_for_condition(api.request, path, (kind, status or "True"), timeout_s)
            told = {"name": name, **found}
    if output is Output.JSON:
        print_json(told)
    else:
        say(f"{name}: {condition}")


def _print_line(value: Any, output: Output, text: str) -> None:
    """Print what came while following: one line of text, or one line of JSON."""
    typer.echo(json.dumps(value, ensure_ascii=False) if output is Output.JSON else text)
    sys.stdout.flush()


Side = tuple[str, dict[str, Any]]


def _file_sides(api: Any, file: UnitFile) -> tuple[Side, Side]:
    unit = file.values
    with file.placed():
        planned = api.request("POST", "/api/v1/units?dry_run=true", unit)
    listed = {each["name"]: each for each in api.request("GET", "/api/v1/units")["units"]}
    now = listed.get(unit["name"])
    if now is None:
        return ("nothing", {}), (planned["revision"], unit)
    before, after = dict(now["spec"]), dict(unit)
    if now["revision"] != planned["revision"] and before == after:
        # The same words, and another model behind them.
        before["model"] = f"{before['model']} (as of revision {now['revision']})"
    return (now["revision"], before), (planned["revision"], after)


def _revision_sides(api: Any, name: str, old: str | None, new: str | None) -> tuple[Side, Side]:
    answer = api.request("GET", f"/api/v1/units/{name}/history")
    earlier = [route["revision"] for route in answer["routes"]]
    newest = new or answer["wanted"]
    if old is None:
        others = [revision for revision in earlier if not revision.startswith(newest)]
        if not others:
            raise CliError(
                f"no revision took traffic before {newest}; name one with --from "
                f"(`sits iu history {name}`)"
            )
        old = others[-1]

    def side(revision: str) -> Side:
        path = f"/api/v1/units/{name}/revisions/{_segment(revision)}"
        return revision, api.request("GET", path)

    return side(old), side(newest)


def _unified(before: Side, after: Side) -> list[str]:
    import yaml

    old, new = (
        yaml.safe_dump(spec, allow_unicode=True, width=100).splitlines() if spec else []
        for _, spec in (before, after)
    )
    return list(difflib.unified_diff(old, new, before[0], after[0], lineterm=""))


def _event_row(event: dict[str, Any]) -> tuple[str, ...]:
    return (
        since(event["last_s"]),
        event["kind"],
        event["reason"],
        str(event["count"]),
        event["message"],
    )


def _segment(name: str) -> str:
    from urllib.parse import quote

    return quote(name, safe="")
