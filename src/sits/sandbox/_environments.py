"""The two Jinja2 environments: one for units' prompts, one for models' chat templates.

Invariants: immutable sandbox, no loader, no template can reach another; an operator or
method that makes something huge out of something small is refused by name, before the memory
limit has to.

Models' templates are written against the environment of Hugging Face's transformers: trimmed
blocks, `raise_exception`, `strftime_now`, loop controls, `tojson` without HTML escaping, and
undefined names that are false. Source: the documentation of its chat templates. Units'
templates differ in one thing: an undefined name is an error.
"""

import datetime as dt
import json
import re
import string
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedFormatter

_MAX_INT_BITS = 4096
_MAX_TEXT = 1_000_000
_MAX_ITEMS = 10_000
_MAX_INDENT = 16
_WIDE_PERCENT = re.compile(r"%(\([^)]*\))?[-+ #0-9.]*(\d{4}|\*)")
_WIDE_FORMAT = re.compile(r"\d{4}")


class _Generation(Extension):
    """`{% generation %}` marks the assistant's part for training; rendering passes it on."""

    tags = {"generation"}  # noqa: RUF012 - the type is Jinja's

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _BoundedFormatter(SandboxedFormatter):
    """`str.format` with bounded widths, also those that come from an argument."""

    def format_field(self, value: Any, format_spec: str) -> str:
        _check_width(format_spec, _WIDE_FORMAT)
        return str(super().format_field(value, format_spec))


class _Environment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"*", "**", "%"})

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "**":
            raise SecurityError("the operator ** is not available in a template")
        if operator == "%" and isinstance(left, str):
            _check_width(left, _WIDE_PERCENT)
        if operator == "*":
            _check_product(left, right)
        return super().call_binop(context, operator, left, right)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        if super().wrap_str_format(value) is None:
            return None
        text, is_map = str(value.__self__), value.__name__ == "format_map"
        formatter: string.Formatter = _BoundedFormatter(self)

        def bounded(*args: Any, **kwargs: Any) -> str:
            if is_map:
                (mapping,) = args
                return formatter.vformat(text, (), mapping)
            return formatter.vformat(text, args, kwargs)

        return bounded


def make_prompt_environment() -> jinja2.Environment:
    """Return the environment of units' prompt templates: an undefined name is an error."""
    return _make_environment(jinja2.StrictUndefined)


def make_chat_environment() -> jinja2.Environment:
    """Return the environment of models' chat templates: an undefined name is false."""
    return _make_environment(jinja2.Undefined)


def _make_environment(undefined: type[jinja2.Undefined]) -> jinja2.Environment:
    environment = _Environment(
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=undefined,
        # What is rendered is a prompt, never HTML.
        autoescape=False,
        extensions=["jinja2.ext.loopcontrols", _Generation],
        cache_size=0,
    )
    environment.filters.update(tojson=_to_json, format=_format)
    del environment.globals["lipsum"]
    environment.globals.update(raise_exception=_raise_exception, strftime_now=_strftime_now)
    return environment


def _check_product(left: Any, right: Any) -> None:
    if isinstance(left, int) and isinstance(right, int):
        if left.bit_length() + right.bit_length() > _MAX_INT_BITS:
            raise SecurityError(f"a product of more than {_MAX_INT_BITS} bits")
        return
    for sequence, times in ((left, right), (right, left)):
        if not isinstance(sequence, Sequence) or not isinstance(times, int):
            continue
        limit = _MAX_TEXT if isinstance(sequence, str) else _MAX_ITEMS
        if len(sequence) * times > limit:
            raise SecurityError(
                f"a {type(sequence).__name__} of {len(sequence)} repeated {times} times; "
                f"at most {limit} items may result"
            )


def _check_width(text: str, wide: re.Pattern[str]) -> None:
    if wide.search(text):
        raise SecurityError(f"the format {text[:40]!r}; a width may have at most 3 digits")


def _format(value: Any, *args: Any, **kwargs: Any) -> str:
    text = str(value)
    _check_width(text, _WIDE_PERCENT)
    return text % (kwargs or args)


def _to_json(
    value: Any,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
    ensure_ascii: bool = False,
) -> str:
    if indent is not None and not 0 <= indent <= _MAX_INDENT:
        raise SecurityError(f"tojson with indent={indent}; 0 to {_MAX_INDENT} may be used")
    return json.dumps(
        value,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
        ensure_ascii=ensure_ascii,
    )


def _raise_exception(message: object) -> NoReturn:
    raise jinja2.TemplateError(str(message))


def _strftime_now(form: str) -> str:
    # A chat template's date is the wall clock of the moment, whatever the time zone.
    return dt.datetime.now().astimezone().strftime(form)
