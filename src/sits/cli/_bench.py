"""`sits bench`: measurements of this machine, each beside a baseline of the same run."""

from typing import TYPE_CHECKING, Annotated

import typer

from sits.cli._output import Output, OutputOption, print_json, print_table, progress, say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sits.bench import Result


def bench(
    name: Annotated[
        str | None, typer.Argument(help="Which benchmark; without it, they are listed.")
    ] = None,
    quick: Annotated[bool, typer.Option(help="Fewer samples, in under a minute.")] = False,
    seed: Annotated[int, typer.Option(help="Of all that is random in it.")] = 1,
    output: OutputOption = Output.TEXT,
) -> None:
    """Measure, on platforms of its own, and print the figures beside their baseline."""
    from sits.bench import BENCHES, Options, run_bench
    from sits.node import load_settings

    if name is None:
        rows = [(each.name, each.meaning) for each in BENCHES.values()]
        if output is Output.JSON:
            print_json([{"name": row[0], "meaning": row[1]} for row in rows])
        else:
            print_table(("NAME", "WHAT IT COMPARES"), rows, "")
        return
    # The person's own models are used, so that none is taken in anew.
    options = Options(quick, seed, str(load_settings().models_path))
    with progress(f"bench {name}") as show:
        result = run_bench(name, options, show)
    if output is Output.JSON:
        import msgspec

        print_json(msgspec.to_builtins(result))
        return
    _print_figures(result)
    for figure, why in result.left_out.items():
        say(f"{figure} was not measured: {why}")
    for figure in result.missed():
        target = result.target_words(figure)
        say(f"{figure} is {result.figures[figure]:g}; its target is {target}")


def _print_figures(result: "Result") -> None:
    rows = []
    for figure, value in result.figures.items():
        low, high = result.intervals[figure]
        ratio = result.ratio.get(figure)
        rows.append(
            (
                figure,
                f"{value:g}",
                f"{low:g} to {high:g}",
                f"{result.baseline[figure]:g}" if figure in result.baseline else "",
                f"{ratio.median:g} ({ratio.low:g} to {ratio.high:g})" if ratio else "",
                result.target_words(figure) if figure in result.targets else "",
            )
        )
        rows += [
            (f"  {peer}", f"{theirs:g}", "", "", "", "") for peer, theirs in _peers(result, figure)
        ]
    columns = ("FIGURE", "MEDIAN", "95 %", "BASELINE", "RATIO", "TARGET")
    print_table(columns, rows, "")


def _peers(result: "Result", figure: str) -> "Iterable[tuple[str, float]]":
    return result.peers.get(figure, {}).items()
