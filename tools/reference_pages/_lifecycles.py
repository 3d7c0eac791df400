"""Diagrams of the lives of hosts and instances, from the tables that are the only setter."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from reference_pages._markdown import MARK, first_paragraph, make_table
from sits.control import (
    HOST_TRANSITIONS,
    TRANSITIONS,
    Event,
    HostEvent,
    HostState,
    State,
    _lifecycle,
)

_HEAD = f"""# Lifecycles

{MARK}

Control knows two things that live: hosts (a process for each model) and instances (what answers a
unit's requests). Each has one table of what may happen in which state; what is not in the table
is a bug and raises.
"""


def make_lifecycles_page() -> str:
    """Return the whole document."""
    rest = (_lifecycle.__doc__ or "").partition("\n\n")[2].strip()
    return (
        f"{_HEAD}\n{rest}\n"
        + _section("An instance", TRANSITIONS, (State.STARTING, State.GONE))
        + _meaning(State, Event)
        + _section("A host", HOST_TRANSITIONS, (HostState.STARTING, HostState.GONE))
        + _meaning(HostState, HostEvent)
    )


def _section(
    title: str, transitions: Mapping[tuple[Any, Any], StrEnum], ends: tuple[StrEnum, StrEnum]
) -> str:
    lines = [f"    [*] --> {ends[0]}"]
    lines += [f"    {state} --> {then}: {event}" for (state, event), then in transitions.items()]
    lines.append(f"    {ends[1]} --> [*]")
    return f"\n## {title}\n\n```mermaid\nstateDiagram-v2\n" + "\n".join(lines) + "\n```\n"


def _meaning(states: type[StrEnum], events: type[StrEnum]) -> str:
    rows = [
        (first_paragraph(kind.__doc__).rstrip("."), ", ".join(f"`{each}`" for each in kind))
        for kind in (states, events)
    ]
    return make_table(("", ""), rows)
