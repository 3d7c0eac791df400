"""What is in the store, who needs it, and how it leaves.

Invariants: what a platform needs is never removed, also when it says so at that moment; what is
being taken in is left alone; a file that somebody has mapped lives on for them until they let go
of it.
"""

import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sits.models._errors import ModelError, ModelUnavailable
from sits.models._layout import Layout, write_json
from sits.models._locks import hold, hold_nowait
from sits.models._machine import preparation_key
from sits.models._prepare import find_prepared
from sits.models._records import BlobRecord, OwnerRecord, SeenRecord, read_record
from sits.models._sources import find_blob, forget_blob
from sits.models._types import ModelKind, ModelPin

_OLD_S = 86_400.0
_SHORTEST_PREFIX = 4


@dataclass(frozen=True)
class StoredModel:
    """One model in the store.

    Attributes:
        references: what named it last, at the last pin of each.
        size_bytes: of the source file.
        stored_bytes: of all that the store has of it.
        representation: what the engine is given; empty: it is not prepared for this machine.
        state: `ready`, `partial` (a download that is not complete) or `source` (not prepared).
        needed_by: homes of the platforms that need it.
    """

    digest: str
    references: tuple[str, ...]
    size_bytes: int
    stored_bytes: int
    representation: str
    state: str
    needed_by: tuple[str, ...]


@dataclass(frozen=True)
class Collected:
    """What a collection removed, or would.

    Attributes:
        models: those that nobody needs.
        freed_bytes: all that it freed, forms for other machines and leftovers included.
    """

    models: tuple[StoredModel, ...]
    freed_bytes: int


def list_models(layout: Layout, prepare: Sequence[str]) -> list[StoredModel]:
    """Return what is in the store, by reference."""
    references = _references(layout)
    needed = _needed(layout)
    found = [
        _describe(layout, prepare, digest, references.get(digest, []), needed.get(digest, []))
        for digest in _digests(layout)
    ]
    return sorted(found, key=lambda model: (model.references, model.digest))


def remove(layout: Layout, prepare: Sequence[str], name: str) -> StoredModel:
    """Remove the model of that reference or beginning of a digest. See `ModelStore.remove`."""
    prefix = name.removeprefix("sha256:")
    found = [
        model
        for model in list_models(layout, prepare)
        if name in model.references
        or (len(prefix) >= _SHORTEST_PREFIX and model.digest[7:].startswith(prefix))
    ]
    if len(found) != 1:
        how_many = "more than one model" if found else "no model here"
        raise ModelError(
            f"'{name}' names {how_many}; expected a reference or at least {_SHORTEST_PREFIX} "
            "digits of a digest that `sits models list` shows"
        )
    [model] = found
    if not _discard(layout, model):
        if needed_by := _needed(layout).get(model.digest):
            homes = ", ".join(sorted(needed_by))
            raise ModelError(f"'{name}' is needed by the units of {homes}; delete them first")
        raise ModelUnavailable(
            f"'{name}' is being taken in by a process; try again when it is done"
        )
    return model


def collect(layout: Layout, prepare: Sequence[str], *, dry_run: bool) -> Collected:
    """Remove what nobody needs. See `ModelStore.collect`."""
    gone: list[StoredModel] = []
    freed = 0
    for model in list_models(layout, prepare):
        is_young = model.state == "partial" and not _is_old(layout.partial(model.digest))
        if not model.needed_by and not is_young:
            if dry_run or _discard(layout, model):
                gone.append(model)
                freed += model.stored_bytes
            continue
        with hold_nowait(layout.lock(model.digest)) as held:
            if held:
                freed += _sweep(list(_spare_files(layout, prepare, model)), dry_run=dry_run)
    freed += _sweep(list(_leftovers(layout)), dry_run=dry_run)
    return Collected(tuple(gone), freed)


def _digests(layout: Layout) -> set[str]:
    root = layout.root
    names = {path.stem for path in root.glob("blobs/*.json")}
    names |= {path.stem for path in root.glob("partial/*.part")}
    names |= {path.stem.partition("-")[0] for path in root.glob("converted/*.gguf")}
    names |= {path.name for path in root.glob("prepared/*")}
    return {f"sha256:{name}" for name in names if len(name) == 64}


def _describe(
    layout: Layout,
    prepare: Sequence[str],
    digest: str,
    pins: Sequence[ModelPin],
    needed_by: Iterable[str],
) -> StoredModel:
    prepared = find_prepared(layout, digest, prepare) if prepare else None
    blob = read_record(layout.blob_record(digest), BlobRecord)
    sizes = [pin.size_bytes for pin in pins] + ([blob.size_bytes] if blob else [])
    own = _files(layout, digest)
    has_source = find_blob(layout, digest) is not None or any(
        path.parent.name == "converted" for path in own
    )
    is_adapter = any(pin.kind is ModelKind.ADAPTER for pin in pins)
    representation = "LoRA" if is_adapter else prepared[0].representation if prepared else ""
    is_ready = prepared or (is_adapter and has_source)
    state = "ready" if is_ready else "source" if has_source else "partial"
    return StoredModel(
        digest=digest,
        references=tuple(sorted(pin.reference for pin in pins)),
        size_bytes=max(sizes, default=0),
        stored_bytes=sum(map(_size, own)),
        representation=representation,
        state=state,
        needed_by=tuple(sorted(needed_by)),
    )


def _files(layout: Layout, digest: str) -> list[Path]:
    converted = layout.converted(digest, 0)
    found = [layout.blob(digest), layout.partial(digest)]
    found += converted.parent.glob(f"{converted.stem.partition('-')[0]}-*.gguf")
    found += layout.prepared(digest).glob("*/*")
    return [path for path in found if path.exists()]


def _references(layout: Layout) -> dict[str, list[ModelPin]]:
    found: dict[str, list[ModelPin]] = {}
    for path in layout.root.glob("pins/*.json"):
        if pin := read_record(path, ModelPin):
            found.setdefault(pin.digest, []).append(pin)
    return found


def _needed(layout: Layout) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path in layout.root.glob("owners/*.json"):
        owner = read_record(path, OwnerRecord)
        if owner is None:
            raise ModelError(
                f"{path} cannot be read, so it is not known what its platform needs; start that "
                "platform, which writes it anew, or remove the file if it is gone"
            )
        if Path(owner.home).is_dir():
            for digest in owner.digests:
                found.setdefault(digest, set()).add(owner.home)
    return found


def keep(layout: Layout, owner: OwnerRecord) -> None:
    """Write down what a platform needs. See `ModelStore.keep`."""
    path = layout.owner(Path(owner.home))
    if read_record(path, OwnerRecord) == owner:
        return
    # When this returns, a model is either kept, or gone for every look that comes after.
    with hold(layout.owners_lock(), lambda: None):
        write_json(path, owner)


def _discard(layout: Layout, model: StoredModel) -> bool:
    """Remove a model unless it is being taken in, or needed; return whether it was removed."""
    digest, lock = model.digest, layout.lock(model.digest)
    with hold_nowait(lock) as held:
        if not held:
            return False
        with hold(layout.owners_lock(), lambda: None):
            if digest in _needed(layout):
                return False
            _unlink(layout, model)
        lock.unlink(missing_ok=True)
    return True


def _unlink(layout: Layout, model: StoredModel) -> None:
    digest = model.digest
    shutil.rmtree(layout.prepared(digest), ignore_errors=True)
    for path in _files(layout, digest):
        path.unlink(missing_ok=True)
    forget_blob(layout, digest)
    for reference in model.references:
        layout.pin(reference).unlink(missing_ok=True)


def _spare_files(layout: Layout, prepare: Sequence[str], model: StoredModel) -> Iterator[Path]:
    """Yield what a model needs no more: forms for another engine or CPU, an old download."""
    if prepare and model.state == "ready":
        current = layout.prepared(model.digest, preparation_key(prepare))
        yield from (path for path in layout.prepared(model.digest).glob("*") if path != current)
    partial = layout.partial(model.digest)
    if _is_old(partial):
        yield partial


def _leftovers(layout: Layout) -> Iterator[Path]:
    """Yield what processes that were killed left, and records of what is not there any more."""
    for pattern in ("*/.*", "prepared/*/tmp-*"):
        yield from (path for path in layout.root.glob(pattern) if _is_old(path))
    for path in layout.root.glob("seen/*.json"):
        record = read_record(path, SeenRecord)
        if record is None or not Path(record.path).exists():
            yield path


def _sweep(paths: Sequence[Path], *, dry_run: bool) -> int:
    freed = 0
    for path in paths:
        freed += _size(path)
        if dry_run:
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return freed


def _size(path: Path) -> int:
    if path.is_dir():
        return sum(map(_size, path.iterdir()))
    with suppress(OSError):
        return path.stat().st_size
    return 0


def _is_old(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime > _OLD_S
    except OSError:
        return False
