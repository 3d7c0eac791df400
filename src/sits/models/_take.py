"""Brings the source file of a pin into the store; the digest's lock has to be held."""

import os
import secrets
from collections.abc import Callable
from pathlib import Path

from sits.models._builtins import builtin_path
from sits.models._convert import VERSION, convert_encoder
from sits.models._download import Wanted, download
from sits.models._errors import ModelError
from sits.models._hub import Hub, HubSettings
from sits.models._layout import Layout, hex_of, sync_directory
from sits.models._sources import (
    check_readable,
    digest_of,
    find_blob,
    forget_blob,
    record_blob,
    take_in,
)
from sits.models._types import ModelPin, PullProgress
from sits.spec import ModelReference, ModelScheme

Report = Callable[[PullProgress], None]


def find_source(layout: Layout, digest: str) -> Path | None:
    """Return the GGUF file that a pin's source is here as; None: it is not here."""
    converted = layout.converted(digest, VERSION)
    return converted if converted.exists() else find_blob(layout, digest)


def take_source(
    layout: Layout, settings: HubSettings, pin: ModelPin, reference: ModelReference, report: Report
) -> Path:
    """Bring the source of a pin here, as a GGUF file.

    Raises:
        ModelError: it is not what it was when it was pinned, or not there any more.
        ModelUnavailable: it cannot be had now.
        ModelStoreFull: there is no room for it.
        OSError: the store cannot be written.
    """
    match reference.scheme:
        case ModelScheme.HUGGINGFACE:
            return _from_hub(layout, settings, pin, report)
        case ModelScheme.BUILTIN:
            path = builtin_path(reference.name)
        case _:
            path = check_readable(Path(reference.name), pin.named)
    digest, _ = digest_of(layout, path, pin.named)
    if digest != pin.digest:
        raise ModelError(
            f"{pin.named} is another file than when it was deployed: its digest is "
            f"{digest[:19]}…, expected {pin.digest[:19]}…; deploy again to use the new one"
        )
    if reference.scheme is ModelScheme.FILE or path.suffix == ".gguf":
        return take_in(layout, path, digest)
    return _convert(layout, path, digest, report)


def _convert(layout: Layout, path: Path, digest: str, report: Report) -> Path:
    report(PullProgress("preparing", message=f"converting {path.name} to GGUF"))
    target = layout.converted(digest, VERSION)
    for left in target.parent.glob(f".{hex_of(digest)}.*"):  # of a process that was killed
        left.unlink(missing_ok=True)
    beside = target.with_name(f".{hex_of(digest)}.{secrets.token_hex(4)}")
    try:
        convert_encoder(path, beside)
        with beside.open("rb") as written:
            os.fsync(written.fileno())
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
    sync_directory(target.parent)
    return target


def _from_hub(layout: Layout, settings: HubSettings, pin: ModelPin, report: Report) -> Path:
    if pin.commit is None or pin.file is None:
        raise ModelError(f"the pin of '{pin.reference}' names no commit and file; deploy again")
    report(PullProgress("downloading", 0, pin.size_bytes, f"asking the hub for {pin.file}"))
    blob, partial = layout.blob(pin.digest), layout.partial(pin.digest)
    wanted = Wanted(_repository(pin), pin.commit, pin.file, pin.size_bytes, hex_of(pin.digest))
    download(Hub(settings), settings, wanted, partial, report)
    forget_blob(layout, pin.digest)
    partial.replace(blob)
    record_blob(layout, pin.digest, blob, in_place=False)
    return blob


def _repository(pin: ModelPin) -> str:
    name = pin.reference.partition("://")[2]
    return name.partition("#")[0].partition("@")[0]
