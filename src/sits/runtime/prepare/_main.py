"""From the command line to the record: what the file is, which form is chosen, and why."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from sits._errors import SitsError
from sits._process import die_with_parent, set_process_name
from sits.models import (
    Action,
    Failure,
    GgufHeader,
    Measured,
    ModelError,
    ModelKind,
    ModelStoreFull,
    PreparedRecord,
    choose_measured,
    decide_representation,
    kind_of,
    read_gguf_file,
    read_machine,
)
from sits.runtime.engine import LLAMACPP, ModelLoadError, load_model

_AS_SHIPPED = "as shipped"
_NAME = "model.gguf"


def main(arguments: Sequence[str]) -> int:
    """Prepare one file; return the exit status: 0 done, 1 failed (both with a line of JSON)."""
    parser = argparse.ArgumentParser(prog="python -m sits.runtime.prepare", description=__doc__)
    parser.add_argument("--engine", default=LLAMACPP, help="the engine's factory")
    parser.add_argument("--parent-pid", type=int, help="the process with which this one ends")
    parser.add_argument("source", type=Path, help="the model file")
    parser.add_argument("out", type=Path, help="where a file that is written goes")
    given = parser.parse_args(arguments)
    set_process_name("sits-prepare")
    if given.parent_pid is not None:
        die_with_parent(given.parent_pid)
    try:
        _write(_prepare(given.engine, given.source, given.out))
    except (ModelError, ModelLoadError) as error:
        code = "full" if isinstance(error, ModelStoreFull) else "model"
        _write(Failure(str(error), code))
        return 1
    except (SitsError, OSError) as error:
        _write(Failure(str(error)))
        return 1
    return 0


def _write(answer: PreparedRecord | Failure) -> None:
    sys.stdout.write(msgspec.json.encode(answer).decode() + "\n")


def _prepare(engine: str, source: Path, out: Path) -> PreparedRecord:
    if engine != LLAMACPP:
        load_model(engine, str(source)).close()
        return PreparedRecord(_AS_SHIPPED, reason=f"files of the engine {engine} stay as they are")
    header = read_gguf_file(source)
    kind = kind_of(header, str(source))
    plan = decide_representation(header.elements, read_machine(out))
    match plan.action:
        case Action.TAKE:
            check_runs(source, kind)
            return _record(header, header.representation, plan.reason)
        case Action.EXPAND:
            path = _make(source, plan.candidates[0], out)
            check_runs(path, kind)
            return _keep(header, path, plan.candidates[0], plan.reason)
        case Action.MEASURE:
            return _measure(header, kind, source, out, plan.candidates)


def check_runs(path: Path, kind: ModelKind) -> None:
    """Load a file and compute with it once.

    Raises:
        ModelError: it cannot be loaded, or not be computed with.
    """
    from sits.runtime.prepare._measure import time_model  # noqa: PLC0415 - loads the engine

    time_model(path, kind, prompt_tokens=4, steps=1)


def _make(source: Path, representation: str, out: Path) -> Path:
    from sits.runtime.prepare._llamacpp import write_as  # noqa: PLC0415 - loads the engine

    path = out / f"{representation}.gguf"
    write_as(source, path, representation)
    return path


def _measure(
    header: GgufHeader, kind: ModelKind, source: Path, out: Path, candidates: Sequence[str]
) -> PreparedRecord:
    from sits.runtime.prepare._measure import time_model  # noqa: PLC0415 - loads the engine

    shipped = header.representation
    times = {shipped: time_model(source, kind)}
    made: dict[str, Path] = {}
    chosen, reason = choose_measured(shipped, times)
    for name in candidates:
        made[name] = _make(source, name, out)
        times[name] = time_model(made[name], kind)
        chosen, reason = choose_measured(shipped, times)
        # What lost is removed now: the disk need not hold all of them at once.
        for loser in [loser for loser in made if loser != chosen]:
            made.pop(loser).unlink()
    measured = _measured(times)
    if chosen == shipped:
        return _record(header, shipped, reason, measured)
    return _keep(header, made[chosen], chosen, reason, measured)


def _measured(times: Mapping[str, tuple[float, float]]) -> tuple[Measured, ...]:
    return tuple(
        Measured(name, round(prefill, 2), round(step, 3)) for name, (prefill, step) in times.items()
    )


def _record(
    header: GgufHeader, representation: str, reason: str, measured: tuple[Measured, ...] = ()
) -> PreparedRecord:
    return PreparedRecord(
        representation,
        architecture=header.architecture,
        shipped=header.representation,
        context_tokens=header.context_tokens,
        reason=reason,
        measured=measured,
    )


def _keep(
    header: GgufHeader,
    path: Path,
    representation: str,
    reason: str,
    measured: tuple[Measured, ...] = (),
) -> PreparedRecord:
    path = path.replace(path.with_name(_NAME))
    record = _record(header, representation, reason, measured)
    return msgspec.structs.replace(record, file=path.name, size_bytes=path.stat().st_size)
