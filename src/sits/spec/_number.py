"""Numbers with a unit, as text: read exactly, written in one way, and guessed when misspelled.

A quantity is a whole number of *atoms*, the smallest amount that its kind knows, so that
comparing and adding are exact: `800ms` and `0.8s` are the same 800,000 microseconds.

Invariant: `read_atoms(write_atoms(n, kind), kind) == n` for every n that a kind can be. What is
read is one number and one unit without a space: no sign, no exponent, no leading zeros.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from sits.spec._words import given, listed

NUMBER = r"(0|[1-9][0-9]{0,29})(\.[0-9]{1,9})?"
_STRICT = re.compile(rf"(?P<number>{NUMBER})(?P<unit>\D*)", re.ASCII)
_LOOSE = re.compile(
    r"\+?(?P<number>\d*\.?\d+|\d+\.)(?P<exponent>[eE][-+]?\d{1,2}(?![.\d]))?\s*(?P<unit>[^\s\d.]*)",
    re.ASCII,
)
_PARTS = re.compile(rf"({NUMBER})([a-z]+)", re.ASCII)
_GUESSED_CHARS = 40
_MOST_DECIMALS = 120


class QuantityError(ValueError):
    """A text or number is no quantity; the message begins with `is …`."""


@dataclass(frozen=True)
class Kind:
    """What a quantity of one kind looks like.

    Attributes:
        noun: what messages call it: `a time`.
        form: how it is written: `a number and us, ms or s, such as 800ms`.
        units: atoms in one of each unit, smallest first.
        most: the largest amount, in atoms.
        most_text: the same as text.
        finest: the smallest step, as text.
        aliases: units that people write, in lower case, and what they mean.
        plain: units that a number without one may have meant.
    """

    noun: str
    form: str
    units: Mapping[str, int]
    most: int
    most_text: str
    finest: str
    aliases: Mapping[str, str] = field(default_factory=dict)
    plain: tuple[str, ...] = ()


def read_atoms(value: object, kind: Kind) -> int:
    """Return how many atoms a text is.

    Raises:
        QuantityError: it is no quantity of this kind; the message says how it is written.
    """
    found = _STRICT.fullmatch(value) if isinstance(value, str) else None
    if found is None or found["unit"] not in kind.units:
        raise refusal(value, kind)
    return to_atoms(value, Fraction(found["number"]) * kind.units[found["unit"]], kind)


def to_atoms(value: object, amount: Fraction, kind: Kind) -> int:
    """Return an amount in atoms as a whole number.

    Args:
        value: what was given, for messages.
        amount: what it came to, in atoms.
        kind: what it has to be.

    Raises:
        QuantityError: it is too large, or finer than an atom.
    """
    if amount > kind.most:
        raise QuantityError(f"is {given(value)}; expected {kind.noun} of at most {kind.most_text}")
    if amount.denominator != 1:
        raise QuantityError(
            f"is {given(value)}; expected {kind.noun} in steps of {kind.finest}: round it"
        )
    return amount.numerator


def write_atoms(atoms: int, kind: Kind) -> str:
    """Return the one canonical text: a whole number of the largest unit that divides it."""
    smallest = next(iter(kind.units))
    if atoms == 0:
        return f"0{kind.plain[0] if kind.plain else smallest}"
    for unit in reversed(list(kind.units)):
        if atoms % kind.units[unit] == 0:
            return f"{atoms // kind.units[unit]}{unit}"
    return f"{decimal_text(Fraction(atoms, kind.units[smallest]))}{smallest}"


def decimal_text(value: Fraction) -> str:
    """Return an amount that ends after some decimals as digits, without an exponent."""
    whole, rest = divmod(value.numerator, value.denominator)
    digits = ""
    while rest and len(digits) < _MOST_DECIMALS:
        digit, rest = divmod(rest * 10, value.denominator)
        digits += str(digit)
    return f"{whole}.{digits}" if digits else str(whole)


def refusal(value: object, kind: Kind) -> QuantityError:
    """Return the error for a value that is no quantity of this kind, with what was meant."""
    problem = f"is {given(value)}; expected {kind.noun} ({kind.form})"
    if _is_negative(value):
        return QuantityError(f"{problem}: {kind.noun} is never negative")
    guess = _guess(value, kind)
    return QuantityError(f"{problem}: write {guess}" if guess else problem)


def _is_negative(value: object) -> bool:
    if isinstance(value, str):
        return bool(re.match(r"\s*-\s*\.?\d", value, re.ASCII))
    return isinstance(value, int | float) and not isinstance(value, bool) and value < 0


def _guess(value: object, kind: Kind) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    text = str(value).strip()
    if len(text) > _GUESSED_CHARS:
        return None
    whole = _sum_of_parts(text, kind)
    if whole is not None:
        return whole
    text = re.sub(r"(?<=\d)[_,](?=\d{3}(?!\d))", "", text).replace(",", ".")
    found = _LOOSE.match(text)
    if found is None:
        return None
    number = decimal_text(Fraction(found["number"] + (found["exponent"] or "")))
    guesses = [f"{number}{unit}" for unit in _units_meant(found["unit"], kind)]
    good = [guess for guess in guesses if _is_good(guess, kind)]
    return listed(good) if good else None


def _sum_of_parts(text: str, kind: Kind) -> str | None:
    """Return `90m` for `1h30m`."""
    parts = _PARTS.findall(text)
    if len(parts) < 2 or "".join(number + unit for number, _, _, unit in parts) != text:
        return None
    if not all(unit in kind.units for *_, unit in parts):
        return None
    atoms = sum(Fraction(number) * kind.units[unit] for number, _, _, unit in parts)
    return write_atoms(atoms.numerator, kind) if Fraction(atoms).denominator == 1 else None


def _units_meant(unit: str, kind: Kind) -> tuple[str, ...]:
    if not unit:
        return kind.plain
    if unit in kind.units:
        return (unit,)
    alike = {known.casefold(): known for known in kind.units} | dict(kind.aliases)
    meant = alike.get(unit.casefold())
    return (meant,) if meant else ()


def _is_good(text: str, kind: Kind) -> bool:
    try:
        read_atoms(text, kind)
    except QuantityError:
        return False
    return True
