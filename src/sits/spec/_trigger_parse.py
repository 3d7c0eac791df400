"""Triggers from text: the grammar, and what its parts become.

The grammar is lark's, an LALR(1) parser that is built once, when the first trigger is read: a
unit without one does not pay for it. Reading takes time in proportion to the text, which is
bounded, and so is the depth of what comes out.
"""

import re
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from sits.spec._metrics import find_metric
from sits.spec._number import QuantityError
from sits.spec._quantity import Count, Quantity, Rate, Share, Size, Time
from sits.spec._trigger import And, Comparator, Comparison, Held, Not, Or, Trigger, TriggerError
from sits.spec._trigger_words import explain_syntax, explain_unknown_metric
from sits.spec._words import given

if TYPE_CHECKING:
    from lark import Lark, Token

MAX_TRIGGER_CHARS = 1000
MAX_TRIGGER_DEPTH = 32
_Q = TypeVar("_Q", bound=Quantity)
_PLAIN = re.compile(r"[\d.]+", re.ASCII)

# A word is a metric, a quantity or a time by where it stands, so that a bad one is read as a
# whole and told about by what it was meant to be.
_GRAMMAR = r"""
start: either
either: both ("||" both)*
both: unary ("&&" unary)*
?unary: "!" unary -> negation
    | lasting
?lasting: condition
    | condition _FOR WORD -> held
?condition: WORD COMPARATOR WORD -> comparison
    | "(" either ")"
COMPARATOR: "<=" | ">=" | "==" | "!=" | "<" | ">"
_FOR.2: /for(?![^\s()|&!<>=])/
WORD: /[^\s()|&!<>=]+/
%ignore /\s+/
"""


def parse_trigger(text: str) -> Trigger:
    """Read a trigger, such as `latency_p95 > 800ms || gpu_util > 85% for 60s`.

    Raises:
        TriggerError: it is none; the message says where, what was expected, and what to write.
    """
    if len(text) > MAX_TRIGGER_CHARS:
        raise TriggerError(
            MAX_TRIGGER_CHARS + 1,
            f"a trigger has at most {MAX_TRIGGER_CHARS} characters, and this has {len(text)}",
        )
    from lark.exceptions import UnexpectedInput  # noqa: PLC0415  (as `_parser`)

    try:
        trigger = _parse(text)
    except UnexpectedInput as error:
        # lark gives the end of the text the position of the last word.
        at_end = getattr(getattr(error, "token", None), "type", "") == "$END"
        found: int | None = getattr(error, "pos_in_stream", None)
        position = len(text) if at_end or found is None else found
        raise explain_syntax(text, position) from error
    _check_depth(trigger)
    return trigger


@cache
def _parser() -> "Lark":
    from lark import Lark  # noqa: PLC0415  (a twentieth of a second, for triggers alone)

    return Lark(_GRAMMAR, parser="lalr", transformer=_Builder(), maybe_placeholders=False)


def _parse(text: str) -> Trigger:
    built: Any = _parser().parse(text)  # the builder's result, where lark's types say a tree
    assert isinstance(built, Trigger)
    return built


class _Builder:
    """What the grammar's rules become, from the inside out; called by lark while it parses."""

    def start(self, parts: list[Trigger]) -> Trigger:
        return parts[0]

    def either(self, terms: list[Trigger]) -> Trigger:
        return _join(Or, terms)

    def both(self, terms: list[Trigger]) -> Trigger:
        return _join(And, terms)

    def negation(self, parts: list[Trigger]) -> Trigger:
        return Not(parts[0])

    def held(self, parts: list[Any]) -> Trigger:
        condition, word = parts
        return Held(condition, _quantity(word, Time, "`for` takes a time, such as 60s"))

    def comparison(self, parts: "list[Token]") -> Trigger:
        name, comparator, word = parts
        metric = find_metric(name)
        if metric is None:
            raise explain_unknown_metric(str(name), _column(name))
        fits = f"`{name}` is compared with {metric.kind.KIND.noun}, such as {metric.example}"
        value = _quantity(word, metric.kind, fits)
        return Comparison(str(name), Comparator(comparator), value)


def _join(kind: type[And] | type[Or], terms: list[Trigger]) -> Trigger:
    if len(terms) == 1:
        return terms[0]
    flat: list[Trigger] = []
    for term in terms:
        flat += term.terms if isinstance(term, kind) else [term]
    return kind(tuple(flat))


def _quantity(token: "Token", kind: type[_Q], fits: str) -> _Q:
    word = str(token)
    try:
        return kind.parse(word)
    except QuantityError as error:
        was_meant = _PLAIN.fullmatch(word) or ": write " in str(error)
        kinds = () if was_meant else (Time, Share, Size, Rate, Count)
        for other in kinds:
            if other is not kind and _is(other, word):
                problem = f"{word!r} is {other.KIND.noun}, and {fits}"
                raise TriggerError(_column(token), problem) from error
        problem = str(error).removeprefix(f"is {given(word)}; expected ")
        raise TriggerError(_column(token), f"{word!r} is not {problem}") from error


def _is(kind: type[Quantity], word: str) -> bool:
    try:
        kind.parse(word)
    except QuantityError:
        return False
    return True


def _column(token: "Token") -> int:
    return (token.start_pos or 0) + 1


def _check_depth(trigger: Trigger) -> None:
    level: tuple[Trigger, ...] = (trigger,)
    for _ in range(MAX_TRIGGER_DEPTH):
        level = tuple(part for above in level for part in above.parts())
        if not level:
            return
    raise TriggerError(
        1, f"it is nested over {MAX_TRIGGER_DEPTH} levels deep; leave out what says nothing"
    )
