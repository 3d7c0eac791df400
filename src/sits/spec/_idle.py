"""Which fields this version acts on: the one table, and what it comes to for one unit.

A field whose part is not built yet is kept, and told: nothing that a person wrote is silently
ignored. When a part is built, its fields move from `WAITING` to `ACTED_ON`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sits.spec._adapter import AdapterScheme
from sits.spec._canonical import unit_values
from sits.spec._sections import EngineKind, LoraAdapter
from sits.spec._unit import SECTIONS, Unit
from sits.spec._words import dotted

ACTED_ON = frozenset(
    {
        "name",
        "tenant",
        "model",
        "lora.adapter",
        "lora.weight",
        "engine.kind",
        "engine.endpoints",
        "engine.serves",
        "prompt.system",
        "prompt.template",
        "prompt.file",
        "scale.min_instances",
        "scale.max_instances",
        "scale.idle",
        "scale.cool_after",
        "slo.itl",
        "slo.itl_p95",
        "slo.itl_p99",
        "labels",
    }
)
# What each of the others waits for.
WAITING: Mapping[str, str] = {
    "adapter": "there is no data mesh yet",
    "trainer": "there is no fine-tuning yet",
    "scale.trigger": "instances follow the requests in flight",
    "slo": "objectives are not watched yet",
    "budget": "nothing is metered yet",
    "session": "there are no sessions yet",
    "hardware": "there is one machine, and its CPU",
    "region": "there is one machine",
}
# And these values of fields that are acted on otherwise.
WAITING_ADAPTERS: Mapping[AdapterScheme, str] = {
    AdapterScheme.ADAPTER: "the platform makes no adapters yet; name a file, as file:///PATH.gguf",
    AdapterScheme.HUGGINGFACE: (
        "adapters are not fetched yet; fetch it, and name the file, as file:///PATH.gguf"
    ),
}
_ELSEWHERE = "an endpoint elsewhere has adapters of its own, or none"


@dataclass(frozen=True)
class IdleField:
    """A field that is kept and not acted on.

    Attributes:
        path: where it is, such as `scale.trigger`.
        value: what it says, as text.
        why: what it waits for.
    """

    path: str
    value: str
    why: str

    def __str__(self) -> str:
        return f"{self.path}: '{self.value}' is kept, and not acted on by this version ({self.why})"


def is_acted_on(path: str) -> bool:
    """Return whether this version acts on a field, such as `scale.idle`."""
    return path in ACTED_ON or (path not in WAITING and path.partition(".")[0] not in WAITING)


def idle_fields(unit: Unit) -> tuple[IdleField, ...]:
    """Return the fields that a unit sets and this version does not act on."""
    found = []
    for path, value in _said(unit_values(unit), ()):
        why = WAITING.get(path[0]) or WAITING.get(dotted(path[:2]))
        if path[0] == "lora":
            why = _why_idle(unit, unit.lora[path[1]])
        if why is not None and dotted(path[:2]) not in ACTED_ON:
            found.append(IdleField(dotted(path), value, why))
    return tuple(found)


def served_adapters(unit: Unit) -> tuple[LoraAdapter, ...]:
    """Return those of a unit's adapters that this version serves."""
    return tuple(each for each in unit.lora if _why_idle(unit, each) is None)


def _why_idle(unit: Unit, each: LoraAdapter) -> str | None:
    if unit.engine.kind is EngineKind.OPENAI:
        return _ELSEWHERE
    return WAITING_ADAPTERS.get(each.adapter.scheme)


def _said(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Return what is set, one value each; a mapping inside of a list is one."""
    if isinstance(value, dict) and path and isinstance(path[-1], int):
        yield path, ", ".join(f"{key}: {part}" for key, part in value.items())
    elif isinstance(value, dict):
        for key, part in value.items():
            if not _is_default((*path, key), part):
                yield from _said(part, (*path, key))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _said(part, (*path, index))
    else:
        yield path, str(value)


def _is_default(path: tuple[Any, ...], value: Any) -> bool:
    section = SECTIONS.get(str(path[0])) if len(path) == 2 else None
    return section is not None and section.model_fields[path[1]].default == value
