"""A prompt that lies in a file of its own, put into the unit before it is deployed.

The path is checked here; the file system is the reader's: it must refuse whatever resolves
(through symbolic links) to outside the directory of the unit's file.
"""

from collections.abc import Callable
from pathlib import PurePosixPath

from sits.spec._places import NO_PLACES, Places
from sits.spec._sections import Prompt
from sits.spec._text import odd_character
from sits.spec._unit import Unit


def inline_prompt_file(
    unit: Unit,
    read: Callable[[PurePosixPath], str],
    *,
    source: str = "",
    places: Places = NO_PLACES,
) -> Unit:
    """Return the unit with `prompt.file` replaced by the text that it names.

    Args:
        unit: the unit as it was loaded.
        read: given a relative path without `..`, returns the text of the file there, beside
            the unit's file, or raises `OSError`. It confines symbolic links.
        source: what messages call the unit's file.
        places: where in that file the unit's fields are, so that messages can say it.

    Raises:
        SpecError: the path leaves the directory, or the file cannot be read, or is no text.
    """
    if unit.prompt is None or unit.prompt.file is None:
        return unit
    given = unit.prompt.file
    path = PurePosixPath(given)
    if path.is_absolute() or ".." in path.parts or "\\" in given or "\0" in given:
        raise places.error(
            "prompt.file",
            f"is {given!r}; expected a path inside the directory of the unit's file: "
            "no leading '/', no '..'",
            source,
        )
    try:
        text = read(path)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise places.error(
            "prompt.file",
            f"{given!r} cannot be read: {reason}; put a UTF-8 text file there",
            source,
        ) from error
    if problem := odd_character(text):
        raise places.error("prompt.file", f"{given!r} {problem}", source)
    prompt = Prompt(system=unit.prompt.system, template=text)
    return unit.model_copy(update={"prompt": prompt})
