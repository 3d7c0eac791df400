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
    _tracked,
)

_HEAD = f"""# Lifecycles

{MARK}

Control knows two things that live: hosts (a process for each model, or for a tenant's endpoints
elsewhere) and instances (what answers a unit's requests). Each has one table of what may happen in
which state; what is not in the table is a bug and raises.
"""

_TEMPLATES = """
## A template

Between a host and its instances is a template for each tenant. It has no table: control tells a
host to open or to close one, and what the host says of it then is what is so. Control tells a
template what it is to learn once in its life, and closes none that is learning or has instances.

A template that was closed because nobody asked, or because memory was short, is in no state: its
units are cool, which is no fault of theirs. A host that keeps no template is stopped. The next
request has both made again ([warm and cool](warm-and-cool.md)).
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
        + _TEMPLATES
        + _meaning(_tracked.TemplateState)
    )


def _section(
    title: str, transitions: Mapping[tuple[Any, Any], StrEnum], ends: tuple[StrEnum, StrEnum]
) -> str:
    lines = [f"    [*] --> {ends[0]}"]
    lines += [f"    {state} --> {then}: {event}" for (state, event), then in transitions.items()]
    lines.append(f"    {ends[1]} --> [*]")
    return f"\n## {title}\n\n```mermaid\nstateDiagram-v2\n" + "\n".join(lines) + "\n```\n"


def _meaning(*kinds: type[StrEnum]) -> str:
    rows = [
        (first_paragraph(kind.__doc__).rstrip("."), ", ".join(f"`{each}`" for each in kind))
        for kind in kinds
    ]
    return make_table(("", ""), rows)
