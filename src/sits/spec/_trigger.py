"""When a unit scales, as a typed expression: what `scale.trigger` is once it has been read.

A trigger is a tree of frozen values, compared by what it says. `str` is its one canonical text:
single spaces, quantities in their canonical form, parentheses only where they are needed or
where a reader would have to know the order of `!` and `for`.

Order, strongest first: comparison, `for TIME`, `!`, `&&`, `||`. So
`!a > 1 for 1m || b > 2 && c > 3` is `(!((a > 1) for 1m)) || ((b > 2) && (c > 3))`. `for` belongs
to the one comparison, or to the parentheses, right before it: it has to have held for so long
without a break.

Invariant: `parse_trigger(str(t)) == t` for every `t` that `parse_trigger` returns.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from sits.spec._quantity import Quantity, Time


class TriggerError(ValueError):
    """A text is no trigger.

    Attributes:
        column: where in the text it is wrong, from 1.
    """

    def __init__(self, column: int, problem: str) -> None:
        self.column = column
        super().__init__(f"is wrong at column {column}: {problem}")


class Comparator(StrEnum):
    """How a metric is held against a quantity."""

    LESS = "<"
    AT_MOST = "<="
    MORE = ">"
    AT_LEAST = ">="
    EQUAL = "=="
    NOT_EQUAL = "!="


class Trigger:
    """A condition on metrics; one of the classes below."""

    __slots__ = ()

    def parts(self) -> tuple["Trigger", ...]:
        """Return the conditions that this one is made of."""
        return ()

    def comparisons(self) -> Iterator["Comparison"]:
        """Return every comparison in it, from left to right."""
        if isinstance(self, Comparison):
            yield self
        for part in self.parts():
            yield from part.comparisons()


@dataclass(frozen=True)
class Comparison(Trigger):
    """A metric compared with a quantity of its kind: `latency_p95 > 800ms`."""

    metric: str
    comparator: Comparator
    value: Quantity

    def __str__(self) -> str:
        return f"{self.metric} {self.comparator} {self.value}"


@dataclass(frozen=True)
class Held(Trigger):
    """A condition that has to have been true all the time, for so long."""

    condition: Trigger
    duration: Time

    def parts(self) -> tuple[Trigger, ...]:
        """Return the condition."""
        return (self.condition,)

    def __str__(self) -> str:
        inner = str(self.condition)
        if not isinstance(self.condition, Comparison):
            inner = f"({inner})"
        return f"{inner} for {self.duration}"


@dataclass(frozen=True)
class Not(Trigger):
    """The opposite of a condition."""

    condition: Trigger

    def parts(self) -> tuple[Trigger, ...]:
        """Return the condition."""
        return (self.condition,)

    def __str__(self) -> str:
        if isinstance(self.condition, Not):
            return f"!{self.condition}"
        return f"!({self.condition})"


@dataclass(frozen=True)
class And(Trigger):
    """All of two or more conditions, none of which is an `And`."""

    terms: tuple[Trigger, ...]

    def parts(self) -> tuple[Trigger, ...]:
        """Return the terms."""
        return self.terms

    def __str__(self) -> str:
        words = (f"({term})" if isinstance(term, Or) else str(term) for term in self.terms)
        return " && ".join(words)


@dataclass(frozen=True)
class Or(Trigger):
    """At least one of two or more conditions, none of which is an `Or`."""

    terms: tuple[Trigger, ...]

    def parts(self) -> tuple[Trigger, ...]:
        """Return the terms."""
        return self.terms

    def __str__(self) -> str:
        return " || ".join(str(term) for term in self.terms)
