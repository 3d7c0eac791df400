"""Quantities that units declare: times, sizes, shares, rates, counts and money.

Each is a frozen value that is compared by what it amounts to, not by how it was written, and
whose `str` is its one canonical text: `Time.parse("0.8s") == Time.parse("800ms")`, and both are
written `800ms`. `base` is the amount in the unit in which it is measured while running (seconds,
bytes, 0 to 1, per second), which is what triggers are evaluated against.

Invariant: `T.parse(str(q)) == q` for every quantity `q` of type `T`.
"""

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

from sits.spec._number import (
    NUMBER,
    Kind,
    QuantityError,
    decimal_text,
    read_atoms,
    refusal,
    to_atoms,
    write_atoms,
)
from sits.spec._words import given

_MILLION = 10**6
_DAY_US = 86_400 * _MILLION
_DECIMAL = re.compile(NUMBER, re.ASCII)


@dataclass(frozen=True, order=True)
class Quantity:
    """An amount of one kind, in atoms of it."""

    KIND: ClassVar[Kind]

    atoms: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a quantity from its text.

        Raises:
            QuantityError: it is none; the message says what was expected.
        """
        return cls(read_atoms(text, cls.KIND))

    @classmethod
    def read(cls, value: object) -> Self:
        """Take a quantity from a file's value, or as it is.

        Raises:
            QuantityError: it is none; the message says what was expected.
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            return cls.parse(value)
        raise refusal(value, cls.KIND)

    @property
    def base(self) -> float:
        """The amount in seconds, bytes, per second, or as it is."""
        return self.atoms / _MILLION

    def __str__(self) -> str:
        return write_atoms(self.atoms, self.KIND)


class Time(Quantity):
    """A length of time, in whole microseconds."""

    KIND = Kind(
        noun="a time",
        form="a number and us, ms, s, m, h or d, such as 800ms",
        units={
            "us": 1,
            "ms": 1000,
            "s": _MILLION,
            "m": 60 * _MILLION,
            "h": 3600 * _MILLION,
            "d": _DAY_US,
        },
        most=3650 * _DAY_US,
        most_text="3650d",
        finest="1us",
        aliases={
            **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
            **dict.fromkeys(("min", "mins", "minute", "minutes"), "m"),
            **dict.fromkeys(("hr", "hrs", "hour", "hours"), "h"),
            **dict.fromkeys(("day", "days"), "d"),
            **dict.fromkeys(("msec", "msecs", "millis", "millisecond", "milliseconds"), "ms"),
            **dict.fromkeys(("usec", "micros", "microseconds", "µs", "μs"), "us"),
        },
        plain=("s", "ms"),
    )


class Size(Quantity):
    """An amount of memory, in bytes; `Mi` is short for `MiB`, as on Kubernetes."""

    KIND = Kind(
        noun="a size",
        form="a number and B, KB, MB, GB, TB, KiB, MiB, GiB or TiB, such as 8GiB",
        units={
            "B": 1,
            "KB": 10**3,
            "Ki": 2**10,
            "KiB": 2**10,
            "MB": 10**6,
            "Mi": 2**20,
            "MiB": 2**20,
            "GB": 10**9,
            "Gi": 2**30,
            "GiB": 2**30,
            "TB": 10**12,
            "Ti": 2**40,
            "TiB": 2**40,
        },
        most=2**60,
        most_text="1048576TiB",
        finest="1B",
        aliases={
            **dict.fromkeys(("byte", "bytes"), "B"),
            **{letter: f"{letter.upper()}B" for letter in "kmgt"},
        },
        plain=("B", "GiB"),
    )

    @property
    def base(self) -> float:
        """The amount in bytes."""
        return float(self.atoms)


class _Plain(Quantity):
    """A quantity that is also written as a number alone."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a quantity from its text, with or without a unit.

        Raises:
            QuantityError: it is none; the message says what was expected.
        """
        if _DECIMAL.fullmatch(text):
            return cls._of_number(text, Fraction(text))
        return super().parse(text)

    @classmethod
    def read(cls, value: object) -> Self:
        """Take a quantity from a file's number or text, or as it is.

        Raises:
            QuantityError: it is none; the message says what was expected.
        """
        if isinstance(value, int | float) and not isinstance(value, bool):
            if not math.isfinite(value) or value < 0:
                raise refusal(value, cls.KIND)
            return cls._of_number(value, Fraction(repr(value)))
        return super().read(value)

    @classmethod
    def _of_number(cls, value: object, number: Fraction) -> Self:
        return cls(to_atoms(value, number * _MILLION, cls.KIND))


class Share(_Plain):
    """A part of a whole, from 0% to 100%, in millionths."""

    KIND = Kind(
        noun="a share",
        form="a percentage such as 25%, or a number from 0 to 1",
        units={"%": _MILLION // 100},
        most=_MILLION,
        most_text="100%",
        finest="0.0001%",
        aliases=dict.fromkeys(("percent", "pct", "per cent"), "%"),
        plain=("%",),
    )

    @classmethod
    def _of_number(cls, value: object, number: Fraction) -> Self:
        if number > 1:
            raise refusal(value, cls.KIND)
        return super()._of_number(value, number)


class Rate(_Plain):
    """So many a second, in millionths a day; a number alone is a second's."""

    KIND = Kind(
        noun="a rate",
        form="a number and /s, /m, /h or /d, such as 50/s; a number alone is a second's",
        units={"/d": _MILLION, "/h": 24 * _MILLION, "/m": 1440 * _MILLION, "/s": _DAY_US},
        most=10**12 * _DAY_US,
        most_text="1000000000000/s",
        finest="0.000001/d",
        aliases={
            **dict.fromkeys(("/sec", "/second", "rps", "qps", "tps", "hz"), "/s"),
            **dict.fromkeys(("/min", "/minute", "rpm"), "/m"),
            **dict.fromkeys(("/hr", "/hour"), "/h"),
            "/day": "/d",
        },
        plain=("/s",),
    )

    @property
    def base(self) -> float:
        """The amount a second."""
        return self.atoms / _DAY_US

    @classmethod
    def _of_number(cls, value: object, number: Fraction) -> Self:
        return cls(to_atoms(value, number * _DAY_US, cls.KIND))


class Count(_Plain):
    """How many, in millionths (a mean need not be whole); `2M` is two million."""

    KIND = Kind(
        noun="a count",
        form="a number, such as 250000 or 2M; k, M, G, T, P and E are thousands of each other",
        units={"": _MILLION}
        | {
            letter: 10 ** (6 + 3 * power)
            for power, letter in enumerate(("k", "M", "G", "T", "P", "E"), start=1)
        },
        most=10**33,
        most_text="1000000000E",
        finest="0.000001",
        aliases={letter.lower(): letter for letter in "MGTPE"},
        plain=("",),
    )

    def __str__(self) -> str:
        return decimal_text(Fraction(self.atoms, _MILLION))


_MONEY_KIND = Kind(
    noun="an amount of money",
    form="a number and a currency's three letters, such as 20USD",
    units={},
    most=10**12 * _MILLION,
    most_text="1000000000000 of a currency",
    finest="0.000001",
)
_MONEY = re.compile(rf"(?P<number>{NUMBER})(?P<currency>[A-Z]{{3}})", re.ASCII)
_LOOSE_MONEY = re.compile(
    r"(?P<before>[A-Za-z]{3}|[$€£¥])?\s*(?P<number>\d+(\.\d+)?)\s*(?P<after>[A-Za-z]{3}|[$€£¥])?",
    re.ASCII,
)
_SIGNS = {"$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY"}


@dataclass(frozen=True)
class Money:
    """An amount in one currency, in its millionths."""

    millionths: int
    currency: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read an amount of money from its text.

        Raises:
            QuantityError: it is none; the message says what was expected.
        """
        return cls.read(text)

    @classmethod
    def read(cls, value: object) -> Self:
        """Take an amount of money from a file's value, or as it is.

        Raises:
            QuantityError: it is none; the message says what was expected.
        """
        if isinstance(value, cls):
            return value
        found = _MONEY.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            raise _money_refusal(value)
        amount = Fraction(found["number"]) * _MILLION
        return cls(to_atoms(value, amount, _MONEY_KIND), found["currency"])

    def __str__(self) -> str:
        return f"{decimal_text(Fraction(self.millionths, _MILLION))}{self.currency}"


def _money_refusal(value: object) -> QuantityError:
    problem = f"is {given(value)}; expected {_MONEY_KIND.noun} ({_MONEY_KIND.form})"
    found = _LOOSE_MONEY.fullmatch(value.strip()) if isinstance(value, str) else None
    marks = [mark for mark in (found["before"], found["after"]) if mark] if found else []
    if found and len(marks) == 1:
        currency = _SIGNS.get(marks[0], marks[0].upper())
        problem += f": write {decimal_text(Fraction(found['number']))}{currency}"
    return QuantityError(problem)
