"""Rendering: compile (once for each template, bounded), run inside the walls, count, explain.

Invariants: nothing but `SandboxError` comes out, whatever the template does; its message says
the line where it is known. Compiling is inside the walls too: constant expressions run then.
"""

import contextlib
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final

import jinja2
from jinja2 import nodes

from sits.sandbox._environments import make_chat_environment, make_prompt_environment
from sits.sandbox._errors import SandboxError
from sits.sandbox._limits import Limits, TimeUp, guard

_CACHED_TEMPLATES: Final = 64
_DEFAULT_LIMITS: Final = Limits()
_CHAT = "the model's chat template"
_PROMPT = "the unit's prompt template"
# What a message quotes comes from templates and inputs: of any number and length.
_MAX_NAMES: Final = 10
_MAX_NAME_CHARS: Final = 40
_MAX_REASON_CHARS: Final = 500


class _TooLong(Exception):
    """The output limit is reached."""


def render_prompt(
    template: str, inputs: Mapping[str, Any], *, limits: Limits = _DEFAULT_LIMITS
) -> str:
    """Render a unit's prompt template.

    Args:
        template: Jinja2 text. A name that is not among `inputs` is an error.
        inputs: plain values (what JSON can say), by name.
        limits: how much the render may take.

    Raises:
        SandboxError: the template is wrong, misses an input, or passes a limit.
    """
    try:
        return _run(_PROMPT, template, inputs, limits)
    except jinja2.UndefinedError as error:
        raise SandboxError(
            f"{_PROMPT}{_line(error)}: {_say(error)}; the inputs given are: {_list(inputs)}. "
            "Give the missing one in `inputs`"
        ) from error


def render_chat(
    template: str,
    messages: Sequence[Mapping[str, Any]],
    *,
    bos_token: str = "",
    eos_token: str = "",
    add_generation_prompt: bool = True,
    limits: Limits = _DEFAULT_LIMITS,
) -> str:
    """Render a conversation by a model's own chat template.

    Args:
        template: Jinja2 text, as models carry it. Undefined names are false.
        messages: turns, each with at least `role` and `content`.
        bos_token: the text of the model's first token, if its template writes one.
        eos_token: the text of its last token.
        add_generation_prompt: end with the opening of the assistant's turn.
        limits: how much the render may take.

    Raises:
        SandboxError: the template is wrong, refuses the conversation, or passes a limit.
    """
    variables = {
        "messages": list(messages),
        "bos_token": bos_token,
        "eos_token": eos_token,
        "add_generation_prompt": add_generation_prompt,
        # Templates ask `tools is not none`: undefined would be taken for some.
        "tools": None,
        "documents": None,
    }
    try:
        return _run(_CHAT, template, variables, limits)
    except jinja2.UndefinedError as error:
        raise SandboxError(f"{_CHAT}{_line(error)}: {_say(error)}") from error


def check_prompt(template: str, *, limits: Limits = _DEFAULT_LIMITS) -> None:
    """Check a unit's prompt template as far as that can be done without inputs.

    Args:
        template: Jinja2 text.
        limits: how long it may be, and how much its compiling may take.

    Raises:
        SandboxError: it is too long, or no Jinja2.
    """
    with _walls(_PROMPT, template, limits):
        _compile(False, template)


def template_head(template: str, *, limits: Limits = _DEFAULT_LIMITS) -> str:
    """Return the text with which everything begins that a unit's prompt template renders to.

    Raises:
        SandboxError: it is too long, or no Jinja2.
    """
    with _walls(_PROMPT, template, limits):
        head = ""
        for node in _environment(False).parse(template).body:
            for part in node.nodes if isinstance(node, nodes.Output) else (node,):
                if not isinstance(part, nodes.TemplateData):
                    return head
                head += part.data
        return head


def _run(what: str, template: str, variables: Mapping[str, Any], limits: Limits) -> str:
    """Render, and turn whatever goes wrong, except an undefined name, into `SandboxError`."""
    with _walls(what, template, limits):
        return _collect(_compile(what == _CHAT, template), variables, limits.output_chars)


@contextlib.contextmanager
def _walls(what: str, template: str, limits: Limits) -> Iterator[None]:
    """Bound a block, and turn what goes wrong in it, except an undefined name, into our error."""
    if len(template) > limits.template_chars:
        raise SandboxError(
            f"{what} has {len(template)} characters; at most {limits.template_chars} are taken"
        )
    try:
        with guard(limits):
            yield
    except jinja2.UndefinedError:
        raise
    except TimeUp as stop:
        raise SandboxError(
            f"{what}{_line(stop)}: not done after {limits.wall_s:g} s; make its loops shorter"
        ) from None
    except MemoryError as error:
        raise SandboxError(
            f"{what}{_line(error)}: it wants more than {limits.memory_bytes >> 20} MiB; "
            "make its values smaller"
        ) from None
    except RecursionError as error:
        raise SandboxError(f"{what}{_line(error)}: nested too deeply") from None
    except _TooLong:
        raise SandboxError(
            f"{what} writes more than {limits.output_chars} characters; make its output shorter"
        ) from None
    except Exception as error:  # Here ends what a template can do: it may raise anything.
        raise SandboxError(f"{what}{_line(error)}: {_say(error)}") from error


@functools.lru_cache(maxsize=_CACHED_TEMPLATES)
def _compile(is_chat: bool, template: str) -> jinja2.Template:
    return _environment(is_chat).from_string(template)


@functools.cache
def _environment(is_chat: bool) -> jinja2.Environment:
    return make_chat_environment() if is_chat else make_prompt_environment()


def _collect(template: jinja2.Template, variables: Mapping[str, Any], limit: int) -> str:
    parts: list[str] = []
    length = 0
    # As one mapping: an input may have any name, also `self`.
    for part in template.generate(variables):
        length += len(part)
        if length > limit:
            raise _TooLong
        parts.append(part)
    return "".join(parts)


def _say(error: Exception) -> str:
    kind = type(error).__name__
    if isinstance(error, jinja2.TemplateError):
        return _cut(error.message or kind, _MAX_REASON_CHARS)
    text = _cut(str(error), _MAX_REASON_CHARS)
    return f"{kind}: {text}" if text else kind


def _list(names: Iterable[str]) -> str:
    """Return names for a message, the first few of them."""
    ordered = sorted(names)
    told = [_cut(name, _MAX_NAME_CHARS) for name in ordered[:_MAX_NAMES]]
    if len(ordered) > _MAX_NAMES:
        told.append(f"and {len(ordered) - _MAX_NAMES} more")
    return ", ".join(told) or "none"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _line(error: BaseException) -> str:
    """Return `, line N` of the template where an error came from, or nothing."""
    if isinstance(error, jinja2.TemplateSyntaxError):
        return f", line {error.lineno}"
    found: int | None = None
    step: TracebackType | None = error.__traceback__
    while step is not None:
        names = step.tb_frame.f_globals
        if "__jinja_exception__" in names:
            # A frame that Jinja2 made up: its line is the template's.
            found = step.tb_lineno
        elif isinstance(made_by := names.get("__jinja_template__"), jinja2.Template):
            found = made_by.get_corresponding_lineno(step.tb_lineno)
        step = step.tb_next
    return "" if found is None else f", line {found}"
