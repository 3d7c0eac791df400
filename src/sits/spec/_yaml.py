"""YAML read strictly: one plain document, no surprises, and every value's line.

Stricter than YAML 1.1, on purpose: no anchors or aliases (a small file could unfold into a
huge one), no tags, no duplicate keys, no merge keys, bounded depth. Scalars follow YAML 1.2's
core schema, so that `on`, `no` and `2026-01-02` are the text that they look like; numbers that
readers disagree about (`010`, `1_000`) stay text, and are then refused where a number belongs.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from sits.spec._errors import SpecError
from sits.spec._words import dotted

MAX_DEPTH = 32
# A unit has some dozens. Checking, and explaining what is wrong, takes time for each.
MAX_VALUES = 2000

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})")
# With a point or an exponent: a float would round a long whole number.
_FLOAT = re.compile(
    r"[-+]?((\.[0-9]+|(0|[1-9][0-9]*)\.[0-9]*)([eE][-+]?[0-9]{1,3})?"
    r"|(0|[1-9][0-9]*)[eE][-+]?[0-9]{1,3})"
)
# What is left of a character in two halves, from where the parser stopped: behind `\u`.
_PAIR = re.compile(r"\\?u?(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", re.IGNORECASE)
_WORDS: Mapping[str, bool | None] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "Null", "NULL", "~", ""), None),
}

Path = tuple[str | int, ...]


@dataclass
class Document:
    """The value of a file, the line of each path in it, and its scalars as written.

    Attributes:
        blocks: the first line of each text that is a literal block (`|`): its lines are the file's.
    """

    value: Any = None
    lines: dict[Path, int] = field(default_factory=dict)
    written: dict[Path, str] = field(default_factory=dict)
    blocks: dict[Path, int] = field(default_factory=dict)

    def line_of(self, path: Path) -> int | None:
        """Return the line of `path`, or of the nearest part around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path)


def read_yaml(text: str, source: str) -> Document:
    """Read the one document in `text`.

    Raises:
        SpecError: it is not one plain document.
    """
    try:
        return _Reader(text, source).read()
    except yaml.MarkedYAMLError as error:
        problem = error.problem or error.context or "cannot be read"
        is_open = "end of stream" in problem and error.context_mark is not None
        mark = error.context_mark if is_open else error.problem_mark or error.context_mark
        lines = text.splitlines()
        line = lines[mark.line] if mark and mark.line < len(lines) else ""
        at = line[mark.column :] if mark else ""
        raise SpecError(
            f"is not YAML: {problem}; {_what_to_do(problem, at, line)}",
            source=source,
            line=mark.line + 1 if mark else None,
        ) from error
    except yaml.YAMLError as error:
        raise SpecError(f"is not YAML: {_first_line(error)}", source=source) from error


def _what_to_do(problem: str, at: str, line: str) -> str:
    """Say how the problem is mended most often.

    Args:
        problem: the parser's words.
        at: the line from where the problem is.
        line: the whole line.
    """
    if at.startswith("\t"):
        return "indent with spaces, not with tabs"
    if line.startswith("%"):
        return "remove this line: a unit has no directives"
    if "Unicode character escape" in problem:
        return f"write the character itself{_as_one_escape(at)}"
    if at[:1] in {"@", "`", "%", "*", "&", "!", "|", ">", "]", "}"}:
        return f"put a text that begins with '{at[0]}' in quotes"
    if "mapping values" in problem:
        return "put a text with ': ' in quotes, or indent this line as the ones above"
    if "expected ':'" in problem:
        return "write NAME: VALUE"
    if "end of stream" in problem:
        return "close what is opened here"
    return "correct this line, or quote the text"


def _as_one_escape(at: str) -> str:
    """Return how YAML writes a character that JSON writes as two halves."""
    pair = _PAIR.match(at)
    if pair is None:
        return ""
    code = 0x10000 + (int(pair[1], 16) - 0xD800) * 0x400 + (int(pair[2], 16) - 0xDC00)
    return f', or "\\U{code:08X}"'


class _Reader:
    def __init__(self, text: str, source: str) -> None:
        self._source = source
        self._document = Document()
        self._values = 0
        self._events: Iterator[Any] = yaml.parse(text, Loader=_LOADER)

    def read(self) -> Document:
        documents = 0
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self._error(event, (), self._of_two_documents(next(self._events)))
                self._document.value = self._value(next(self._events), (), 0)
        return self._document

    def _of_two_documents(self, second: Any) -> str:
        is_empty = isinstance(second, yaml.ScalarEvent) and not second.style and not second.value
        if is_empty or self._document.value is None:
            return "has more than one document; expected one: remove the '---'"
        return (
            "has more than one document; expected one unit a file: put the second into a file of "
            "its own"
        )

    def _value(self, event: Any, path: Path, depth: int) -> Any:
        self._refuse_cleverness(event, path)
        if depth > MAX_DEPTH:
            raise self._error(event, (), f"is nested over {MAX_DEPTH} levels deep; flatten it")
        self._values += 1
        if self._values > MAX_VALUES:
            raise self._error(event, (), f"has more than {MAX_VALUES} values; shorten it")
        line = event.start_mark.line + 1
        self._document.lines.setdefault(path, line)
        if isinstance(event, yaml.ScalarEvent):
            self._document.written[path] = event.value
            if event.style == "|":
                self._document.blocks[path] = line + 1
            return _scalar(event.value) if not event.style else event.value
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(path, depth)
        return self._mapping(path, depth)

    def _sequence(self, path: Path, depth: int) -> list[Any]:
        values: list[Any] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            values.append(self._value(event, (*path, len(values)), depth + 1))
        return values

    def _mapping(self, path: Path, depth: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._key(event, path)
            if key in values:
                first = self._document.lines[(*path, key)]
                raise self._error(
                    event, (*path, key), f"is given twice, first on line {first}; remove one"
                )
            self._document.lines[(*path, key)] = event.start_mark.line + 1
            values[key] = self._value(next(self._events), (*path, key), depth + 1)
        return values

    def _key(self, event: Any, path: Path) -> str:
        self._refuse_cleverness(event, path)
        if not isinstance(event, yaml.ScalarEvent):
            raise self._error(
                event, path, f"has a list or mapping as a key; expected a name{_quote_hint(event)}"
            )
        if not event.style and event.value == "<<":
            raise self._error(
                event, path, "has a merge key ('<<'); write the fields out where they belong"
            )
        return str(event.value)

    def _refuse_cleverness(self, event: Any, path: Path) -> None:
        if getattr(event, "anchor", None) is not None:
            kind = "alias (*" if isinstance(event, yaml.AliasEvent) else "anchor (&"
            raise self._error(
                event,
                path,
                f"has the {kind}{event.anchor}); write the value out where it belongs",
            )
        if getattr(event, "tag", None) is not None:
            raise self._error(event, path, f"has the tag {event.tag}; remove it")

    def _error(self, event: Any, path: Path, problem: str) -> SpecError:
        return SpecError(
            problem, source=self._source, line=event.start_mark.line + 1, field=dotted(path)
        )


def _quote_hint(event: Any) -> str:
    """Say what a person meant who wrote `template: {{ text }}`."""
    if not getattr(event, "flow_style", False):
        return ""
    if isinstance(event, yaml.MappingStartEvent):
        return ": quote a text that begins with '{', such as \"{{ text }}\""
    return ": quote a text that begins with '['"


def _scalar(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if len(text) <= 40 and _FLOAT.fullmatch(text):
        return float(text)
    return text


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or ["cannot be read"])[0]
