"""Adapters: files that change a model. They are pinned and taken in as models are.

What is wrong with one is found when its unit is deployed, as far as that can be: its header says
that it is an adapter, and, where the model is here, whether its tensors fit to the model's.
"""

from collections.abc import Iterator
from pathlib import Path

from sits.models._errors import ModelError
from sits.models._gguf import GgufHeader, read_gguf_file
from sits.models._layout import Layout
from sits.models._sources import check_readable, digest_of
from sits.models._take import find_source
from sits.models._types import ModelKind, ModelPin
from sits.spec import AdapterReference, AdapterScheme

_KIND = "lora"
_A, _B = ".lora_a", ".lora_b"


def pin_adapter(layout: Layout, reference: AdapterReference, model: ModelPin) -> ModelPin:
    """Return what a reference to an adapter of a model means now.

    Raises:
        ModelError: no adapter that the model can have.
        ModelUnavailable: it cannot be found out now.
    """
    named = f"adapter '{reference}'"
    if reference.scheme is not AdapterScheme.FILE:
        raise ModelError(f"{named} cannot be had yet; expected a file, as file:///PATH.gguf")
    if model.kind is ModelKind.EMBEDDING:
        raise ModelError(
            f"{named} is for a model that generates text, and {model.named} makes vectors; take "
            "the adapter out of the unit"
        )
    path = check_readable(Path(reference.name), named)
    header = _read(path, named)
    if header.adapter != _KIND:
        what = f"an adapter of the kind '{header.adapter[:64]}'" if header.adapter else "no adapter"
        raise ModelError(
            f"{named} is {what}; expected a LoRA adapter as llama.cpp's convert_lora_to_gguf.py "
            "writes it"
        )
    source = find_source(layout, model.digest)
    if source is not None:
        problem = next(_misfits(header, _read(source, model.named)), None)
        if problem:
            raise ModelError(
                f"{named} does not fit to {model.named}: {problem}; expected an adapter that was "
                "trained on this model"
            )
    digest, size = digest_of(layout, path, named)
    return ModelPin(str(reference), digest, size, ModelKind.ADAPTER)


def _read(path: Path, named: str) -> GgufHeader:
    try:
        return read_gguf_file(path, named)
    except OSError as error:
        raise ModelError(f"{named} cannot be read: {error.strerror}") from error


def _misfits(adapter: GgufHeader, model: GgufHeader) -> Iterator[str]:
    """Yield what keeps an adapter from being this model's."""
    if adapter.architecture != model.architecture:
        yield (
            f"it is for the architecture '{adapter.architecture[:64]}', and the model is "
            f"'{model.architecture[:64]}'"
        )
    for name, a in adapter.shapes.items():
        tensor = name.removesuffix(_A)
        if tensor == name or tensor.startswith("token_embd"):
            continue  # embeddings are turned round; the engine sees to them
        b, whole = adapter.shapes.get(tensor + _B), model.shapes.get(tensor)
        if whole is None:
            yield f"it changes {tensor[:64]}, which the model has not"
        elif b is None:
            yield f"it has no {tensor[:64]}{_B}"
        elif (a[:1], b[1:2]) != (whole[:1], whole[1:2]):
            yield f"its {tensor[:64]} is {(*a[:1], *b[1:2])}, and the model's is {whole}"
