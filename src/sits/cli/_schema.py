"""`sits iu schema`: what a unit's file may say, for editors and for checks elsewhere."""

import json

import typer

from sits.cli._output import Output, OutputOption, print_json


def schema(output: OutputOption = Output.TEXT) -> None:
    """Print the JSON Schema (2020-12) of a unit's file."""
    from sits.spec import unit_schema

    if output is Output.JSON:
        print_json(unit_schema())
    else:
        typer.echo(json.dumps(unit_schema(), ensure_ascii=False, indent=2))
