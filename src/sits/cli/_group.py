"""The groups of commands: a word that is no command is answered with the one that is meant.

People come with the words of other tools (`apply`, `ls`, `describe`), and leave out `iu`.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from typer.core import TyperGroup

# What others call it, and what it is here: the first of them that there is.
_MEANT: Mapping[str, tuple[str, ...]] = {
    "add": ("deploy", "pull"),
    "apply": ("deploy",),
    "ask": ("call", "chat"),
    "benchmark": ("bench",),
    "check": ("doctor",),
    "clean": ("gc",),
    "create": ("deploy",),
    "del": ("delete", "rm"),
    "delete": ("delete", "rm"),
    "describe": ("get",),
    "destroy": ("delete",),
    "download": ("pull",),
    "fetch": ("pull",),
    "inspect": ("get",),
    "invoke": ("call",),
    "launch": ("deploy",),
    "log": ("logs",),
    "ls": ("list",),
    "model": ("models",),
    "prune": ("gc",),
    "ps": ("list",),
    "query": ("call",),
    "remove": ("delete", "rm"),
    "revert": ("rollback",),
    "revisions": ("history",),
    "rm": ("delete", "rm"),
    "run": ("deploy", "chat"),
    "serve": ("up",),
    "show": ("get",),
    "start": ("up",),
    "status": ("get",),
    "stop": ("down",),
    "undo": ("rollback",),
    "unit": ("iu",),
    "units": ("iu",),
    "update": ("deploy",),
}


class Group(TyperGroup):
    """A group of commands."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command that the words name, or say which one was meant."""
        word = args[0]
        if word not in self.commands and not word.startswith("-") and not ctx.resilient_parsing:
            meant = [f"'sits {' '.join(words)}'" for words in find_meant(ctx, self, word)]
            hint = f" Did you mean {' or '.join(meant)}?" if meant else ""
            ctx.fail(f"No such command {word!r}.{hint}")
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, with its arguments as the documents write them."""
        command = super().get_command(ctx, cmd_name)
        for param in command.params if command is not None else ():
            if param.param_type_name == "argument":
                _write_plainly(param)
        return command


def _write_plainly(argument: Any) -> None:
    """Have the help write NAME and [NAME], not typer's {name}, whose braces people type."""
    argument.metavar = argument.metavar or argument.name.upper()
    usage = argument.metavar if argument.required else f"[{argument.metavar}]"
    argument.get_usage_pieces = lambda _ctx: [usage]


def find_meant(ctx: Any, group: TyperGroup, word: str) -> list[tuple[str, ...]]:
    """Return the commands that were probably meant by a word in a group, each as its words."""
    root = ctx.find_root().command
    own = (group.name or "",) if group is not root else ()
    places = [(own, group), *((words, each) for words, each in _groups(root) if each is not group)]
    # Nearer first: a command of this group, then the same word of another one, then a like one.
    for candidates in ((word, *_MEANT.get(word.lower(), ())), ()):
        found = [
            (*words, name)
            for words, each in places
            if (name := _choose(each, word, candidates)) is not None
        ]
        if found:
            return [each for each in found if each[:-1] == own] or found
    return []


def _groups(root: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield (), root
    for name, command in root.commands.items():
        if isinstance(command, TyperGroup):
            yield (name,), command


def _choose(group: Any, word: str, candidates: tuple[str, ...]) -> str | None:
    if candidates:
        return next((each for each in candidates if each in group.commands), None)
    return next(iter(get_close_matches(word.lower(), group.commands, n=1, cutoff=0.6)), None)
