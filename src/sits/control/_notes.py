"""What a person should know who deploys a unit, and need not act on: beyond its file. Pure."""

from sits.control._wanted import Wanted
from sits.wire import UnitKind

_CALLED = {UnitKind.CHAT: "/v1/chat/completions", UnitKind.EMBEDDING: "/v1/embeddings"}


def deploy_notes(planned: Wanted, former: Wanted | None) -> tuple[str, ...]:
    """Return the notes of a deploy.

    Args:
        planned: the unit as it is to be.
        former: the unit as it was; None where there was none.
    """
    notes = []
    new, unit = planned.target.kind, planned.target.unit
    if unit is not None and unit.prompt is not None and new is UnitKind.EMBEDDING:
        notes.append(
            f"prompt: is not used: {unit.model} makes embeddings, of the texts of a request as "
            "they are; leave it out"
        )
    old = former.current.kind if former is not None and not former.deleted else new
    if old is not new:
        notes.append(
            f"model: makes this {old} unit one for {new}: what calls {_CALLED[old]} for it is "
            f"refused as soon as the new revision takes traffic, and {_CALLED[new]} answers"
        )
    return tuple(notes)
