"""Units' files, as commands read them: never more of one than a unit may have."""

import json
from pathlib import Path, PurePosixPath
from typing import Any

from sits.cli._output import CliError


def read_unit(file: Path) -> tuple[dict[str, Any], list[str]]:
    """Read a unit's file, with the prompt file that it names, as JSON's types and notes.

    Raises:
        SpecError: it is no valid unit; the message names file, line and field.
        CliError: it cannot be read.
    """
    from sits.spec import MAX_UNIT_BYTES, canonical_json, inline_prompt_file, load_unit_bytes

    try:
        data = _read_start(file, MAX_UNIT_BYTES)
    except OSError as error:
        raise CliError(f"{file} cannot be read: {error.strerror}; give a unit's file") from error
    loaded = load_unit_bytes(data, str(file))
    directory = file.resolve().parent

    def read(path: PurePosixPath) -> str:
        found = (directory / path).resolve(strict=True)
        if not found.is_relative_to(directory):
            raise OSError("it leads out of the directory of the unit's file")
        data = _read_start(found, MAX_UNIT_BYTES)
        if len(data) > MAX_UNIT_BYTES:
            raise OSError(f"it is larger than {MAX_UNIT_BYTES} bytes")
        return data.decode("utf-8")

    unit = inline_prompt_file(loaded.unit, read, source=str(file))
    return json.loads(canonical_json(unit)), list(loaded.notes)


def spec_text(spec: dict[str, Any]) -> str:
    """Return a unit as YAML, as one would write it into a file."""
    import yaml

    first = [name for name in ("name", "model") if name in spec]
    ordered = {name: spec[name] for name in [*first, *sorted(spec.keys() - {*first})]}
    return yaml.safe_dump(ordered, allow_unicode=True, sort_keys=False, width=100).rstrip()


def _read_start(file: Path, size: int) -> bytes:
    """Return a file's first bytes: one more than `size` tells that it has more."""
    try:
        with file.open("rb") as stream:
            return stream.read(size + 1)
    except OSError as error:
        raise CliError(f"{file} cannot be read: {error.strerror}; give a unit's file") from error
