"""`POST /v1/chat/completions`: reading the request. Pure.

What cannot be done here yet is refused by name, so that no client believes it has it; what
changes nothing in the answer (`user`, `metadata`, ...) is taken and dropped. Source: OpenAI's
API reference for chat completions; `min_p` is an extension of ours (and of others).
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from sits.gateway._errors import ApiError, invalid
from sits.gateway._fields import Fields
from sits.gateway._job import Job, require_kind
from sits.gateway._render_chat import ChatRenderer
from sits.gateway._sampling import (
    MAX_BIASES,
    take_max_tokens,
    take_sampling,
    take_stop,
    take_top_logprobs,
)
from sits.wire import ChatPrompt, Message, UnitKind, UnitRoute

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}

_HARMLESS = (
    "metadata",
    "parallel_tool_calls",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "user",
)

# Each with the values that ask for nothing beyond what there is.
_UNSUPPORTED: Mapping[str, tuple[Any, ...]] = {
    "audio": (),
    "function_call": ("none",),
    "functions": ([],),
    "modalities": (["text"],),
    "n": (1,),
    "prediction": (),
    "reasoning_effort": (),
    "store": (False,),
    "tool_choice": ("none",),
    "tools": ([],),
    "verbosity": (),
    "web_search_options": (),
}


def read_chat(
    body: dict[str, Any],
    find: Callable[[str], UnitRoute],
    *,
    max_messages: int,
    max_biases: int = MAX_BIASES,
) -> Job:
    """Read a chat completion request.

    Args:
        body: the request's object.
        find: returns the route of a unit that the caller may use, by its name.
        max_messages: most messages that are taken.
        max_biases: most tokens in `logit_bias` that are taken.

    Raises:
        ApiError: something in it cannot be taken; the message names the field.
    """
    fields = Fields(body)
    unit = find(fields.text("model"))
    require_kind(unit, UnitKind.CHAT)
    messages = _take_messages(fields, max_messages)
    stream = fields.flag("stream")
    include_usage = _take_stream_options(fields, stream)
    sampling = take_sampling(fields, max_biases=max_biases)
    top_logprobs = take_top_logprobs(fields)
    max_tokens = take_max_tokens(fields, "max_tokens", "max_completion_tokens")
    stop = take_stop(fields)
    for name in _HARMLESS:
        fields.take(name)
    _refuse_unsupported(fields)
    fields.finish()
    return Job(
        unit=unit,
        prompt=ChatPrompt(_with_system(unit.system, messages)),
        sampling=msgspec.structs.replace(sampling, top_logprobs=top_logprobs),
        stop=stop,
        max_tokens=max_tokens,
        stream=stream,
        make_renderer=partial(
            ChatRenderer, include_usage=include_usage, logprobs=top_logprobs is not None
        ),
    )


def _take_stream_options(fields: Fields, stream: bool) -> bool:
    options = fields.mapping("stream_options")
    if options is None:
        return False
    if not stream:
        raise invalid(
            "stream_options", "'stream_options' is given without 'stream': true; leave it out"
        )
    inner = Fields(options, "stream_options")
    include_usage = inner.flag("include_usage")
    # Padding against guessing by packet sizes: not there, so only "off" is true.
    if inner.flag("include_obfuscation"):
        raise _unsupported("stream_options.include_obfuscation")
    inner.finish()
    return include_usage


def _refuse_unsupported(fields: Fields) -> None:
    for name, neutral in _UNSUPPORTED.items():
        value = fields.take(name)
        if value is not None and not any(_same(value, each) for each in neutral):
            raise _unsupported(name)


def _same(value: object, neutral: object) -> bool:
    # `True == 1`: a boolean is no number here.
    return isinstance(value, bool) == isinstance(neutral, bool) and value == neutral


def _unsupported(name: str) -> ApiError:
    return invalid(
        name,
        f"{name!r} is not supported here yet; leave it out",
        "unsupported_parameter",
    )


def _take_messages(fields: Fields, limit: int) -> tuple[Message, ...]:
    value = fields.take("messages")
    if value is None:
        raise fields.missing("messages", "an array of at least one message")
    if not isinstance(value, list) or not value:
        raise fields.wrong("messages", value, "an array of at least one message")
    if len(value) > limit:
        # Before they are read: that, and rendering them, costs time that others wait for.
        raise invalid(
            "messages",
            f"'messages' has {len(value)} messages; at most {limit} are taken: leave out old ones",
        )
    return tuple(_read_message(each, f"messages[{index}]") for index, each in enumerate(value))


def _read_message(value: object, where: str) -> Message:
    if not isinstance(value, dict):
        raise Fields({}).wrong(where, value, "an object with 'role' and 'content'")
    fields = Fields(value, where)
    given = fields.text("role")
    role = _ROLES.get(given)
    if role is None:
        raise fields.wrong("role", given, f"one of {', '.join(_ROLES)}")
    content = _read_content(fields)
    for name in ("tool_calls", "function_call", "audio", "tool_call_id"):
        if fields.take(name):
            raise _unsupported(fields.path(name))
    # A client sends an answer back as it came, with these.
    for name in ("name", "refusal", "annotations", "reasoning_content"):
        fields.take(name)
    fields.finish()
    return Message(role, content)


def _read_content(fields: Fields) -> str:
    value = fields.take("content")
    if isinstance(value, str):
        return value
    if value is None:
        raise fields.missing("content", "a string or an array of text parts")
    if not isinstance(value, list) or not value:
        raise fields.wrong("content", value, "a string or an array of text parts")
    return "".join(
        _read_part(part, fields.path(f"content[{index}]")) for index, part in enumerate(value)
    )


def _read_part(value: object, where: str) -> str:
    if not isinstance(value, dict):
        raise Fields({}).wrong(where, value, "an object with 'type' and 'text'")
    part = Fields(value, where)
    kind = part.text("type")
    if kind != "text":
        raise invalid(
            part.path("type"),
            f"{part.path('type')!r} is {kind[:40]!r}; only parts of type 'text' are supported here",
            "unsupported_parameter",
        )
    text = part.text("text")
    part.finish()
    return text


def _with_system(system: str | None, messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Put the unit's constant system prompt first, before what the caller's own says.

    As one message: most models' templates know at most one.
    """
    if system is None:
        return messages
    if messages[0].role == "system":
        return (Message("system", f"{system}\n\n{messages[0].content}"), *messages[1:])
    return (Message("system", system), *messages)
