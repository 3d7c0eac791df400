"""Runs the quick form of every benchmark and says what got worse since the last results.

The last results are `results/NAME.json`, one a benchmark, kept with the code: every change is held
against them. Exit status 1 when a figure got worse or misses its target. `--save` makes the new
results the last ones, whatever they are.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec

from sits._errors import SitsError
from sits.bench import BENCHES, Bench, Options, Result, Tell, compare, run_bench, same_machine
from sits.node import load_settings

RESULTS = Path(__file__).resolve().parent.parent / "results"


def main(arguments: Sequence[str]) -> int:
    """Run all, and return the exit status."""
    parser = argparse.ArgumentParser(prog="headline", description=__doc__)
    parser.add_argument("--save", action="store_true", help="make these the last results")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    options = Options(quick=True, seed=given.seed, models_dir=str(load_settings().models_path))
    latest: dict[str, Result] = {}
    for name in BENCHES:
        try:
            latest[name] = run_bench(name, options, partial(_tell, name))
        except SitsError as error:
            sys.stderr.write(f"{name}: {error}\n")
            return 1
    former = {name: read_result(RESULTS / f"{name}.json") for name in latest}
    status = judge(BENCHES, former, latest, print)
    if given.save:
        for name, result in latest.items():
            write_result(RESULTS / f"{name}.json", result)
        return 0
    return status


def judge(
    benches: Mapping[str, Bench],
    former: Mapping[str, Result | None],
    latest: Mapping[str, Result],
    say: Tell,
) -> int:
    """Say how results compare with the former ones, and return 1 where something got worse.

    Args:
        benches: by name.
        former: the last results; None where there is none yet.
        latest: those of now.
        say: takes the lines.
    """
    status = 0
    for name, result in latest.items():
        for figure, value in result.figures.items():
            say(f"{name}: {figure} {value:g}{_beside(former.get(name), result, figure)}")
        for figure in result.missed():
            status = 1
            say(f"MISSED {name}: {figure} is to be {result.target_words(figure)}")
        for figure, why in result.left_out.items():
            say(f"NOT MEASURED {name}: {figure}: {why}")
        last = former.get(name)
        if last is None:
            say(f"{name}: there is no last result; `make headline ARGS=--save` keeps this one")
            continue
        if not same_machine(last.machine, result.machine):
            say(f"{name}: the last result is of another machine; only ratios are compared")
        for worse in compare(benches[name].figures, last, result):
            status = 1
            say(f"WORSE {worse}")
    return status


def read_result(path: Path) -> Result | None:
    """Return a kept result; None where there is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Result)
    except FileNotFoundError:
        return None


def write_result(path: Path, result: Result) -> None:
    """Keep a result, in lines that a diff can show."""
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n")


def _beside(former: Result | None, latest: Result, figure: str) -> str:
    words = []
    if former is not None and figure in former.figures:
        words.append(f"last {former.figures[figure]:g}")
    if figure in latest.baseline:
        words.append(f"baseline {latest.baseline[figure]:g}")
    words += [f"{peer} {value:g}" for peer, value in latest.peers.get(figure, {}).items()]
    return f" ({', '.join(words)})" if words else ""


def _tell(name: str, message: str) -> None:
    sys.stderr.write(f"{name}: {message}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
