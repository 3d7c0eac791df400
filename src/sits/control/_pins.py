"""What a revision is bound to, for ever, and how the store keeps that."""

from dataclasses import dataclass

import msgspec

from sits.models import ModelPin


@dataclass(frozen=True)
class Pins:
    """The files of one revision.

    Attributes:
        adapters: those that are served, in the unit's order.
    """

    model: ModelPin
    adapters: tuple[ModelPin, ...] = ()

    @property
    def digests(self) -> tuple[str, ...]:
        """Of all of them, the model's first."""
        return (self.model.digest, *(pin.digest for pin in self.adapters))


class _Adapters(msgspec.Struct, frozen=True):
    adapters: tuple[ModelPin, ...] = ()


def encode_pins(pins: Pins) -> str:
    """Return pins as the store keeps them: the model's, with its adapters' in it if it has any."""
    kept = msgspec.to_builtins(pins.model)
    if pins.adapters:
        kept["adapters"] = pins.adapters
    return msgspec.json.encode(kept).decode()


def decode_pins(text: str) -> Pins:
    """Return what `encode_pins` wrote."""
    adapters = msgspec.json.decode(text, type=_Adapters).adapters
    return Pins(msgspec.json.decode(text, type=ModelPin), adapters)
