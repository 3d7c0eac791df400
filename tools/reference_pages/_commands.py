"""The commands: every argument, option and help text, from the command's own tree."""

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import typer.main

from reference_pages._markdown import MARK, make_table
from sits.cli._app import app

_HEAD = f"""# Commands

{MARK}

`sits COMMAND --help` says the same. Results go to standard output, everything else to standard
error. `-o json` prints one JSON document. Exit status: 0 done, 1 failed, 2 wrong use, 130
interrupted. `sits --install-completion` has your shell complete commands, options and the names
of units.

The commands reach the platform that runs on this machine, or the one that `SITS_URL` and
`SITS_API_KEY` name.
"""

_TYPES = {
    "str": "text",
    "text": "text",
    "int": "whole number",
    "integer": "whole number",
    "float": "number",
    "path": "path",
}


def make_commands_page() -> str:
    """Return the whole document."""
    return _HEAD + "".join(_section(words, command) for words, command in walk_commands())


def walk_commands() -> Iterator[tuple[str, Any]]:
    """Give every command that a person may write, by its words, groups before what is in them."""
    yield from _walk("sits", typer.main.get_command(app))


def _walk(words: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield words, command
    for name, inner in sorted(getattr(command, "commands", {}).items()):
        if not inner.hidden:
            yield from _walk(f"{words} {name}", inner)


def _section(words: str, command: Any) -> str:
    """Return what there is to say of one command; a group has its commands after it."""
    params = [each for each in command.params if not getattr(each, "hidden", False)]
    inner = " COMMAND" if getattr(command, "commands", {}) else ""
    names = "".join(f" {_usage(each)}" for each in params if each.param_type_name == "argument")
    text = f"\n{'##' if words.count(' ') < 2 else '###'} `{words}{names}{inner}`\n"
    text += f"\n{(command.help or '').strip()}\n"
    if params:
        columns = ("argument or option", "value", "default", "meaning")
        text += make_table(columns, map(_row, params))
    return text


def _usage(param: Any) -> str:
    name = param.name.upper()
    return name if param.required else f"[{name}]"


def _row(param: Any) -> tuple[str, ...]:
    is_argument = param.param_type_name == "argument"
    spellings = [param.name.upper()] if is_argument else [*param.opts, *param.secondary_opts]
    meaning = (param.help or "").replace(" [default: $SITS_HOME]", "")
    return ", ".join(f"`{each}`" for each in spellings), _value(param), _default(param), meaning


def _value(param: Any) -> str:
    if getattr(param, "is_flag", False):
        return ""
    if param.metavar:
        return f"`{param.metavar}`{', may be repeated' if param.multiple else ''}"
    if choices := getattr(param.type, "choices", None):
        return ", ".join(f"`{each}`" for each in choices)
    least, most = getattr(param.type, "min", None), getattr(param.type, "max", None)
    bounds = "" if least is None or most is None else f", {least} to {most}"
    return _TYPES[param.type.name.removesuffix(" range")] + bounds


def _default(param: Any) -> str:
    if param.required:
        return "needed"
    value = param.default
    if param.name == "home":
        return "`$SITS_HOME`"
    if value is None or value is False:
        return ""
    # A path is where this checkout lies: no reader's.
    return f"`{value.name if isinstance(value, PurePath) else value}`"
