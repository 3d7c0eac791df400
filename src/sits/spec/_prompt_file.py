"""A prompt that lies in a file of its own, put into the unit before it is deployed.

The path is checked here; the file system is the reader's: it must refuse whatever resolves
(through symbolic links) to outside the directory of the unit's file.
"""

from collections.abc import Callable
from pathlib import PurePosixPath

from sits.spec._errors import SpecError
from sits.spec._sections import Prompt
from sits.spec._unit import Unit


def inline_prompt_file(
    unit: Unit, read: Callable[[PurePosixPath], str], *, source: str = ""
) -> Unit:
    """Return the unit with `prompt.file` replaced by the text that it names.

    Args:
        unit: the unit as it was loaded.
        read: given a relative path without `..`, returns the text of the file there, beside
            the unit's file, or raises `OSError`. It confines symbolic links.
        source: what messages call the unit's file.

    Raises:
        SpecError: the path leaves the directory, or the file cannot be read.
    """
    if unit.prompt is None or unit.prompt.file is None:
        return unit
    given = unit.prompt.file
    path = PurePosixPath(given)
    if path.is_absolute() or ".." in path.parts or "\\" in given or "\0" in given:
        raise SpecError(
            f"is {given!r}; expected a path inside the directory of the unit's file: "
            "no leading '/', no '..'",
            source=source,
            field="prompt.file",
        )
    try:
        text = read(path)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SpecError(
            f"{given!r} cannot be read: {reason}; put a UTF-8 text file there",
            source=source,
            field="prompt.file",
        ) from error
    prompt = Prompt(system=unit.prompt.system, template=text)
    return unit.model_copy(update={"prompt": prompt})
