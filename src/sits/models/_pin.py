"""From a reference to a pin: what it means today, without bringing it here.

A file's header is read (from the hub, its first kilobytes), so that what the engine cannot run is
refused when its unit is deployed.
"""

import hashlib
import time
from pathlib import Path

from sits.models._architectures import kind_of
from sits.models._builtins import BUILTIN_MODELS, builtin_path, usable
from sits.models._choose import HubFile, choose_file
from sits.models._errors import ModelError, ModelUnavailable
from sits.models._gguf import read_gguf_file, read_gguf_start
from sits.models._hub import Hub, HubSettings, Repository, StartReader
from sits.models._layout import Layout
from sits.models._sources import check_readable, digest_of
from sits.models._types import ModelPin
from sits.spec import ModelReference, ModelScheme

# A file that the hub keeps in git itself has no digest there, and is small.
_MAX_IN_GIT_BYTES = 64 << 20
# The hub gives no larger file over plain HTTP.
_MAX_HTTP_BYTES = 50_000_000_000


def pin_reference(layout: Layout, hub: HubSettings, reference: ModelReference) -> ModelPin:
    """Return what a reference means now.

    Raises:
        ModelError: no model that can be run.
        ModelUnavailable: it cannot be found out now.
    """
    match reference.scheme:
        case ModelScheme.BUILTIN:
            return _pin_builtin(layout, reference)
        case ModelScheme.FILE:
            return _pin_file(layout, reference)
        case ModelScheme.HUGGINGFACE:
            return _pin_hub(hub, reference)
        case ModelScheme.OPENAI:
            raise ModelError(
                f"model '{reference}' is served elsewhere and has no file; it needs `engine: "
                "openai` with endpoints"
            )


def model_name(reference: ModelReference) -> str:
    """Return what people call a model."""
    if reference.scheme is ModelScheme.FILE:
        return Path(reference.name).stem
    return Path(reference.file).stem if reference.file else reference.name


def _pin_builtin(layout: Layout, reference: ModelReference) -> ModelPin:
    path = builtin_path(reference.name)
    digest, size = digest_of(layout, path, f"model '{reference}'")
    return ModelPin(str(reference), digest, size, BUILTIN_MODELS[reference.name].kind)


def _pin_file(layout: Layout, reference: ModelReference) -> ModelPin:
    named = f"model '{reference}'"
    path = check_readable(Path(reference.name), named)
    try:
        kind = kind_of(read_gguf_file(path, named), str(reference))
    except OSError as error:
        raise ModelError(f"{named} cannot be read: {error.strerror}") from error
    digest, size = digest_of(layout, path, named)
    return ModelPin(str(reference), digest, size, kind)


def _pin_hub(settings: HubSettings, reference: ModelReference) -> ModelPin:
    deadline_s = time.monotonic() + settings.pin_s
    hub = Hub(settings)
    repository = hub.repository(reference)
    file = choose_file(repository.files, reference.file, str(reference))
    if file.size_bytes > _MAX_HTTP_BYTES:
        raise ModelError(
            f"model '{reference}': {file.name} has {file.size_bytes / 1e9:.0f} GB, and the hub "
            f"gives at most 50 GB over HTTP; use a smaller file, or {usable()}"
        )
    reader = StartReader(hub, repository, file, deadline_s)
    kind = kind_of(read_gguf_start(reader, f"{repository.id}/{file.name}"), str(reference))
    sha256 = file.sha256 or _hash_small(hub, repository, file, deadline_s)
    return ModelPin(
        str(reference), f"sha256:{sha256}", file.size_bytes, kind, repository.commit, file.name
    )


def _hash_small(hub: Hub, repository: Repository, file: HubFile, deadline_s: float) -> str:
    """Return the digest of a file that the hub names by git's id alone."""
    if file.size_bytes > _MAX_IN_GIT_BYTES:
        raise ModelError(
            f"{repository.id}/{file.name}: the hub gives no sha256 of it; expected a file that it "
            "keeps with LFS"
        )
    read = StartReader(hub, repository, file, deadline_s)
    data = read(file.size_bytes)
    # git's own digest, to see that what came is what the hub has; sha256 is what we keep.
    git = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    if file.blob_id and git != file.blob_id:
        raise ModelUnavailable(f"{repository.id}/{file.name} came with other bytes; try again")
    return hashlib.sha256(data).hexdigest()
