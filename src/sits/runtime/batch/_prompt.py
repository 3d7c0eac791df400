"""From a prompt message to the tokens that the engine is fed.

A user's words never become control tokens: where a text contains what the model's tokenizer
would parse as one (`<|im_end|>`), that text is tokenized as plain characters, so that nobody
can end a turn or speak as the system by writing so. Other prompts are tokenized in one go, as
every other runtime does.
"""

import contextlib
import itertools
import re
import secrets
from collections.abc import Iterable

from sits._errors import SitsError
from sits.runtime.batch._tokenized import Tokenized
from sits.runtime.engine import Model, ModelInfo
from sits.sandbox import Limits, SandboxError, render_chat, render_prompt, template_head
from sits.wire import ChatPrompt, Message, TemplatePrompt, UnitPrompt

_DEFAULT_LIMITS = Limits()

# What may follow a constant beginning, as different to a tokenizer as can be.
_CONTINUATIONS = ("A", " z", "\n1", "é", "  .")

# Where a model has no chat template of its own.
_PLAIN_TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)


class PromptTooLong(SitsError):
    """The prompt does not fit into the context; the message has both numbers."""

    code = "context_length_exceeded"
    http_status = 400

    def __init__(self, tokens: str, context_tokens: int) -> None:
        super().__init__(
            f"the prompt has {tokens} tokens; this unit's context holds {context_tokens} with the "
            f"answer, so a prompt may have at most {context_tokens - 1}; shorten it"
        )


def prompt_tokens(
    model: Model,
    prompt: ChatPrompt | TemplatePrompt,
    context_tokens: int,
    limits: Limits = _DEFAULT_LIMITS,
    tokenized: Tokenized | None = None,
) -> list[int]:
    """Render a prompt and return its tokens, fewer than `context_tokens`.

    What cannot fit is refused before it is tokenized, which would take seconds for megabytes
    and hold up the instance's other requests.

    Args:
        model: whose tokenizer and chat template are used.
        prompt: a conversation, or a unit's template and its inputs.
        context_tokens: room for the prompt and at least one token of the answer.
        limits: for the rendering.
        tokenized: remembers texts of the same tenant; None: nothing is remembered.

    Raises:
        PromptTooLong: there is no room for an answer.
        SandboxError: the unit's or the model's template fails on this input.
    """
    info = model.info
    said = prompt_messages(prompt, limits)
    _refuse_if_hopeless(info, said, context_tokens)
    messages, quoted = _quote(said, info.control_texts)
    text = render_chat(
        info.chat_template or _PLAIN_TEMPLATE,
        [{"role": m.role, "content": m.content} for m in messages],
        bos_token=info.bos_text,
        eos_token=info.eos_text,
        limits=limits,
    )
    tokens = _begin(info, text) + list(
        _tokenize(model, text, quoted, tokenized or Tokenized(model))
    )
    if len(tokens) >= context_tokens:
        raise PromptTooLong(str(len(tokens)), context_tokens)
    return tokens


def _refuse_if_hopeless(
    info: ModelInfo, messages: tuple[Message, ...], context_tokens: int
) -> None:
    """Raise `PromptTooLong` when the words alone have too many bytes, or the turns are too many."""
    size = sum(len(message.content.encode("utf-8", "replace")) for message in messages)
    # Every turn is at least one token of the template, beside its words.
    least = max(size // info.longest_token_bytes, len(messages))
    if least >= context_tokens:
        raise PromptTooLong(f"at least {least}", context_tokens)


def compile_template(model: Model) -> None:
    """Compile the model's chat template in this process, so that its forks need not.

    A template that fails is left for the requests to fail on, with its message.
    """
    with contextlib.suppress(SandboxError):
        prompt_tokens(model, ChatPrompt((Message("user", ""),)), context_tokens=1 << 20)


def constant_prefix(
    model: Model, prompt: UnitPrompt, context_tokens: int, limits: Limits = _DEFAULT_LIMITS
) -> list[int]:
    """Return the tokens with which all of a unit's prompts begin.

    What a tokenizer makes of a word depends on what follows it; so several continuations are
    tried, and what all of them have in common is taken.

    Raises:
        PromptTooLong: it fills the context.
        SandboxError: the model's template fails.
    """
    head = template_head(prompt.template) if prompt.template else ""
    shared: list[int] | None = None
    for words in _CONTINUATIONS:
        asked = Message("user", head + words)
        messages = (Message("system", prompt.system), asked) if prompt.system else (asked,)
        tokens = prompt_tokens(model, ChatPrompt(messages), context_tokens, limits)
        shared = tokens if shared is None else _common(shared, tokens)
    return shared or []


def _common(one: list[int], two: list[int]) -> list[int]:
    pairs = zip(one, two, strict=False)
    return [first for first, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)]


def prompt_messages(
    prompt: ChatPrompt | TemplatePrompt, limits: Limits = _DEFAULT_LIMITS
) -> tuple[Message, ...]:
    """Return a prompt's conversation, with a unit's template rendered.

    Raises:
        SandboxError: the unit's template fails on these inputs.
    """
    if isinstance(prompt, ChatPrompt):
        return prompt.messages
    asked = Message("user", render_prompt(prompt.template, prompt.inputs, limits=limits))
    return (Message("system", prompt.system), asked) if prompt.system else (asked,)


def _quote(
    messages: tuple[Message, ...], control_texts: Iterable[str]
) -> tuple[tuple[Message, ...], dict[str, str]]:
    """Put marks for the control texts in the messages; return them and what each mark means.

    The marks are of private-use characters around a number that nobody can guess.
    """
    present = [t for t in control_texts if any(t in m.content for m in messages)]
    if not present:
        return messages, {}
    nonce = secrets.token_hex(8)
    marks = {text: f"\ue000{nonce}{index}\ue001" for index, text in enumerate(present)}
    pattern = re.compile("|".join(re.escape(t) for t in sorted(present, key=len, reverse=True)))
    quoted = tuple(
        Message(m.role, pattern.sub(lambda found: marks[found[0]], m.content)) for m in messages
    )
    return quoted, {mark: text for text, mark in marks.items()}


def _tokenize(
    model: Model, text: str, quoted: dict[str, str], tokenized: Tokenized
) -> Iterable[int]:
    if not quoted:
        yield from tokenized.tokens(text)
        return
    for part in re.split("(" + "|".join(map(re.escape, quoted)) + ")", text):
        if part in quoted:
            yield from model.tokenize(quoted[part], parse_special=False)
        elif part:
            yield from model.tokenize(part, parse_special=True)


def _begin(info: ModelInfo, text: str) -> list[int]:
    """Return the token that must come first, unless the template has written it already."""
    if info.bos_token is None or (info.bos_text and text.startswith(info.bos_text)):
        return []
    return [info.bos_token]
