"""What people are told about a text that is no trigger: where, what was expected, what to write.

The parser says only where it could not go on; what was meant is found from the text around it.
"""

import re

from sits.spec._metrics import METRICS, nearest_metric
from sits.spec._trigger import TriggerError
from sits.spec._words import given, listed

_WORD = re.compile(r"[^\s()|&!<>=]+")
_SIGN = re.compile(r"[|&!<>=]+")
_NUMBER_AT_END = re.compile(r"(?:^|[\s(<>=])(?P<number>\d[\d.]*)\s+$")
_UNIT = re.compile(r"(us|ms|s|m|h|d|%|[KMGT]i?B?|B|/[smhd])(?![\w/%])")
_MEANT = {
    **dict.fromkeys(("and", "&", "&&&"), "&&"),
    **dict.fromkeys(("or", "|", "|||"), "||"),
    "not": "!",
    "for": "for",
    "≥": ">=",
    "≤": "<=",
    "≠": "!=",
    "=": "==",
    "===": "==",
    "=>": ">=",
    "=<": "<=",
    "<>": "!=",
    "!==": "!=",
    "!": "!=",
    "gt": ">",
    **dict.fromkeys(("ge", "gte"), ">="),
    "lt": "<",
    **dict.fromkeys(("le", "lte"), "<="),
    "eq": "==",
}
_PERCENTILE = re.compile(r"(latency|ttft|itl)_p[\d.]*", re.ASCII)
_METRIC = "a metric, such as latency_p95"
_COMPARATOR = "a comparison: <, <=, >, >=, == or !="
_GOING_ON = "`&&`, `||`, `for` and a time, or the end"


def explain_syntax(text: str, position: int) -> TriggerError:
    """Return what is wrong at a position where the grammar does not allow what is there."""
    before, rest = text[:position], text[position:]
    column = position + 1
    if rest.startswith(")") and before.count("(") <= before.count(")"):
        return TriggerError(column, "this ')' has no '(' before it; remove it")
    expected = _expected(before)
    if not rest.strip():
        open_at = _unclosed(text)
        if open_at is not None and expected == _GOING_ON:
            return TriggerError(open_at + 1, "this '(' is not closed; write ')' where it ends")
        return TriggerError(column, f"the text ends here; expected {expected}")
    found = _WORD.match(rest) or _SIGN.match(rest)
    shown = found.group() if found else rest[0]
    return TriggerError(
        column,
        f"found {given(shown).removeprefix('the text ')}; expected {expected}"
        + _hint(before, rest, shown),
    )


def explain_unknown_metric(name: str, column: int) -> TriggerError:
    """Return what is wrong with a metric that there is none of."""
    near = nearest_metric(name)
    if stem := _PERCENTILE.fullmatch(name):
        return TriggerError(
            column, f"{name!r} has no percentile from 1 to 99, as {stem[1]}_p95 has"
        )
    if near is None and name[:1].isdigit():
        return TriggerError(
            column, f"{name!r} is no metric; write the metric first: latency_p95 > 800ms"
        )
    hint = f"did you mean `{near}`? " if near else ""
    return TriggerError(
        column,
        f"{given(name).removeprefix('the text ')} is no metric; {hint}"
        f"expected one of {listed(METRICS)} (NN: a percentile from 1 to 99)",
    )


def _expected(before: str) -> str:
    """Return what may stand after a text that is right so far."""
    stem = before.rstrip()
    if stem.endswith(("<", ">", "=")):
        return "a quantity, such as 800ms or 85%"
    if not stem or stem.endswith(("(", "&", "|", "!")):
        return f"{_METRIC}, `!` or `(`"
    if re.search(r"[\s)]for$", stem):
        return "a time, such as 60s"
    last = re.split(r"&&|\|\||[()]|!(?!=)|\sfor\s", stem)[-1]
    if last.strip() and not re.search(r"[<>=]", last) and not re.search(r"\sfor\s+\S+$", stem):
        return _COMPARATOR
    return _GOING_ON


def _hint(before: str, rest: str, shown: str) -> str:
    number = _NUMBER_AT_END.search(before)
    unit = _UNIT.match(rest)
    if number and unit:
        return f": write {number['number']}{unit.group()}, without a space"
    word = _WORD.findall(before)[-1:]
    if word and word[0].casefold() == "not" and before.rstrip().endswith(word[0]):
        return ": write `!` for `not`"
    if before.rstrip().endswith((",", ";")):
        return f": write `&&` or `||` for '{before.rstrip()[-1]}'"
    sign = _SIGN.search(before.rstrip()[-2:] + shown)
    shown = sign.group() if sign and sign.group().endswith(shown) else shown
    meant = _MEANT.get(shown.casefold())
    return f": write `{meant}`" if meant and meant != shown else ""


def _unclosed(text: str) -> int | None:
    opened: list[int] = []
    for position, character in enumerate(text):
        if character == "(":
            opened.append(position)
        elif character == ")" and opened:
            opened.pop()
    return opened[-1] if opened else None
