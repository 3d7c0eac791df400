"""`sits doctor`: what this machine has, what is missing, and what to do about it."""

from dataclasses import asdict

import typer

from sits.cli._output import Output, OutputOption, print_json


def doctor(output: OutputOption = Output.TEXT) -> None:
    """Check this machine and the platform on it; exit 1 when something must be mended."""
    from sits.cli._checks import CHECKS

    findings = [check() for check in CHECKS]
    if output is Output.JSON:
        print_json([{**asdict(f), "remedy": "" if f.ok else f.remedy} for f in findings])
    else:
        for finding in findings:
            mark = typer.style("ok  ", fg="green") if finding.ok else typer.style("MEND", fg="red")
            typer.echo(f"{mark}  {finding.check:<9} {finding.found}")
            if not finding.ok:
                typer.echo(f"                {finding.remedy}")
    raise typer.Exit(0 if all(finding.ok for finding in findings) else 1)
