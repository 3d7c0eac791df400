"""The sections of a unit that say what it owes and what it may use: objectives, budgets, hardware.

As `_sections`, whose rules hold here, too.
"""

from enum import StrEnum
from typing import Any, Self

from pydantic import Field, model_validator

from sits.spec._fields import (
    MoneyField,
    RateField,
    ShareField,
    SizeField,
    SlicesField,
    TimeField,
    WholeField,
)
from sits.spec._quantity import Rate, Size
from sits.spec._sections import SHARE, TIME, Section, kind_words

SIZE = kind_words(Size.KIND)
RATE = kind_words(Rate.KIND)
WHOLE = "a whole number, such as 250000 or 2M"


def _objective(what: str, percentile: int, example: str) -> Any:
    title = f"{what}: {percentile} of 100 requests have to be at most so long"
    return Field(None, title=title, description=TIME, examples=[example])


def _short_objective(name: str, what: str, example: str) -> Any:
    title = f"{what}; short for `{name}_p95`"
    return Field(None, title=title, description=TIME, examples=[example])


_TTFT = "Time to the first token"
_ITL = "Time between two tokens"
_LATENCY = "Time of a whole answer"


class Slo(Section):
    """What the unit owes its callers."""

    ttft: TimeField | None = _short_objective("ttft", _TTFT, "500ms")
    ttft_p50: TimeField | None = _objective(_TTFT, 50, "200ms")
    ttft_p90: TimeField | None = _objective(_TTFT, 90, "400ms")
    ttft_p95: TimeField | None = _objective(_TTFT, 95, "500ms")
    ttft_p99: TimeField | None = _objective(_TTFT, 99, "1s")
    itl: TimeField | None = _short_objective("itl", _ITL, "50ms")
    itl_p50: TimeField | None = _objective(_ITL, 50, "30ms")
    itl_p90: TimeField | None = _objective(_ITL, 90, "40ms")
    itl_p95: TimeField | None = _objective(_ITL, 95, "50ms")
    itl_p99: TimeField | None = _objective(_ITL, 99, "100ms")
    latency: TimeField | None = _short_objective("latency", _LATENCY, "2s")
    latency_p50: TimeField | None = _objective(_LATENCY, 50, "1s")
    latency_p90: TimeField | None = _objective(_LATENCY, 90, "1500ms")
    latency_p95: TimeField | None = _objective(_LATENCY, 95, "2s")
    latency_p99: TimeField | None = _objective(_LATENCY, 99, "3s")
    tokens_per_s: RateField | None = Field(
        None,
        title="Tokens that the unit makes while there is demand",
        description=RATE,
        examples=[1200],
    )
    availability: ShareField | None = Field(
        None,
        title="The share of requests that are answered without a fault of the platform",
        description=SHARE,
        examples=["99.9%"],
    )

    @model_validator(mode="after")
    def _said_once(self) -> Self:
        for name in ("ttft", "itl", "latency"):
            if getattr(self, name) is not None and getattr(self, f"{name}_p95") is not None:
                raise ValueError(
                    f"has both `{name}` and `{name}_p95`, which mean the same; remove one"
                )
        return self


class Period(StrEnum):
    """How long a budget lasts until it begins anew."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    MONTH = "month"
    TOTAL = "total"


class Budget(Section):
    """A hard wall for what the unit may use in a period; at least one amount."""

    tokens: WholeField | None = Field(
        None, title="Tokens, of prompts and answers together", description=WHOLE, examples=["2M"]
    )
    flops: WholeField | None = Field(
        None,
        title="Floating-point operations",
        description="a whole number, such as 1e18 or 5P",
        examples=["5P"],
    )
    memory_hours: SizeField | None = Field(
        None,
        title="Accelerator memory, held for one hour: half as much for two hours is the same",
        description=SIZE,
        examples=["100GiB"],
    )
    money: MoneyField | None = Field(
        None,
        title="Money, by the platform's price list",
        description="an amount of money (a number and a currency's three letters, such as 20USD)",
        examples=["20USD"],
    )
    per: Period = Field(
        Period.MONTH,
        strict=False,
        title="The period, by the calendar in UTC; `total` never begins anew",
        description="minute, hour, day, month or total",
        examples=["day"],
    )
    soft: ShareField | None = Field(
        None,
        title="The share of the budget from which on there is a warning",
        description=SHARE,
        examples=["80%"],
    )

    @model_validator(mode="after")
    def _has_an_amount(self) -> Self:
        if all(
            amount is None for amount in (self.tokens, self.flops, self.memory_hours, self.money)
        ):
            raise ValueError(
                "has no amount; expected at least one of tokens, flops, memory_hours or money"
            )
        return self


class Session(Section):
    """What is kept of conversations between requests."""

    ttl: TimeField | None = Field(
        None,
        title="How long a conversation is kept after its last request",
        description=TIME,
        examples=["30m"],
    )
    max_history_tokens: WholeField | None = Field(
        None,
        title="The longest history of a conversation; what is older is left out",
        description=WHOLE,
        examples=[4096],
    )


class Accelerator(StrEnum):
    """What computes."""

    ANY = "any"
    CPU = "cpu"
    GPU = "gpu"
    CUDA = "cuda"
    ROCM = "rocm"
    METAL = "metal"
    VULKAN = "vulkan"
    NPU = "npu"


class Hardware(Section):
    """What each instance needs."""

    accelerator: Accelerator = Field(
        Accelerator.ANY,
        strict=False,
        title="What computes; `gpu` is any of cuda, rocm, metal and vulkan",
        description="any, cpu, gpu, cuda, rocm, metal, vulkan or npu",
        examples=["cuda"],
    )
    count: SlicesField | None = Field(
        None,
        title="How many accelerators, or which part of one",
        description="0.25, 0.5, 0.75 or a whole number up to 1024",
        examples=[0.25],
    )
    memory: SizeField | None = Field(
        None,
        title="Memory: the accelerators', or the machine's for cpu",
        description=SIZE,
        examples=["8GiB"],
    )
    threads: int | None = Field(
        None,
        ge=1,
        le=1024,
        title="Processor threads",
        description="a whole number from 1 to 1024",
        examples=[1],
    )

    @model_validator(mode="after")
    def _count_has_something_to_count(self) -> Self:
        if self.count is not None and self.accelerator is Accelerator.CPU:
            raise ValueError(
                "has `count` for cpu; expected it with an accelerator: write `threads` instead"
            )
        return self
