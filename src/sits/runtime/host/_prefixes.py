"""The constant beginnings of a tenant's prompts: where they are kept, and how they are computed.

Invariants: a file is named by a digest of everything that it depends on, so a wrong one is never
found; one that is broken is as good as none; a tenant's files lie in a directory of its own. No
directory holds more than `_MOST_FILES`: the ones used longest ago go.
"""

import contextlib
import hashlib
import logging
import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from sits._errors import SitsError
from sits._version import __version__
from sits.runtime.batch import constant_prefix
from sits.runtime.engine import AdapterSet, Engine, EngineError, Feed, Model
from sits.runtime.kv import ImageError, KvImage, KvPool, load_image, save_image
from sits.wire import UnitPrompt

_log = logging.getLogger(__name__)

# Shorter ones are computed as fast as they are found.
_LEAST_TOKENS = 32
_MOST_FILES = 64
_BLOCK_BYTES = 4096
_BLOCKS = 64
_NO_ADAPTERS = AdapterSet()


def file_digest(path: str) -> str:
    """Return what tells a model file from others: its size, and blocks from all over it."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        digest.update(str(size).encode())
        for block in range(_BLOCKS):
            stream.seek(max(0, size - _BLOCK_BYTES) * block // (_BLOCKS - 1))
            digest.update(stream.read(_BLOCK_BYTES))
    return digest.hexdigest()


@dataclass(frozen=True)
class PrefixFiles:
    """Where one tenant's prefixes for one model are.

    Attributes:
        directory: of this tenant alone.
        engine: that computes them.
        model: digest of the model file.
    """

    directory: Path
    engine: str
    model: str

    def path(self, prompt: UnitPrompt, adapter: str) -> Path:
        """Return the file of a prompt's beginning, computed with a set of adapters (its digest).

        Which tokens a prompt begins with depends on this version, too.
        """
        made_by = (__version__, self.engine, self.model, adapter)
        words = msgspec.json.encode((made_by, prompt))
        return self.directory / f"{hashlib.sha256(words).hexdigest()[:40]}.kv"

    def save(self, prompt: UnitPrompt, image: KvImage) -> None:
        """Keep a state. Raises `OSError` when that cannot be."""
        save_image(self.path(prompt, image.adapter), image)
        kept = sorted(self.directory.glob("*.kv"), key=lambda path: path.stat().st_mtime)
        for path in kept[:-_MOST_FILES]:
            path.unlink(missing_ok=True)

    def load(self, prompt: UnitPrompt, adapter: str) -> KvImage | None:
        """Return what was kept of a prompt's beginning; None: nothing that is right."""
        path = self.path(prompt, adapter)
        try:
            image = load_image(path, engine=self.engine, model=self.model, adapter=adapter)
            os.utime(path)
        except FileNotFoundError:
            return None
        except (ImageError, OSError) as error:
            _log.warning("prefix file %s is not used: %s", path, error)
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        return image


class Prefixes:
    """One template's prefixes.

    Args:
        files: None: they are kept in memory alone.
    """

    def __init__(
        self, model: Model, engine: Engine, pool: KvPool, files: PrefixFiles | None
    ) -> None:
        self._model = model
        self._engine = engine
        self._pool = pool
        self._files = files
        self._known: dict[UnitPrompt, list[int]] = {}

    def tokens(self, prompt: UnitPrompt) -> list[int]:
        """Return a unit's constant beginning; empty: there is none that is worth keeping."""
        found = self._known.get(prompt)
        if found is None:
            try:
                found = constant_prefix(self._model, prompt, self._engine.shape.sequence_tokens)
            except SitsError as error:
                _log.info("a unit's prompt has no constant beginning: %s", error)
                found = []
            if len(found) < _LEAST_TOKENS or not self._model.info.shares_prefixes:
                found = []
            self._known[prompt] = found
        return found

    def restore(self, prompt: UnitPrompt, adapter: str = "") -> bool:
        """Have a unit's beginning in the pool if it is kept; False: it is to be computed.

        Args:
            prompt: the unit's.
            adapter: digest of the set of adapters that it is computed with.
        """
        tokens = self._known.get(prompt)
        if tokens is not None and (not tokens or self._pool.holds(tokens, adapter)):
            return True
        image = self._files.load(prompt, adapter) if self._files else None
        if image is None:
            return not self.tokens(prompt)
        # Which they are need not be found out again, which takes as long as to read them.
        self._known.setdefault(prompt, list(image.tokens))
        return self.adopt(image)

    def adopt(self, image: KvImage) -> bool:
        """Put a state into the pool; return whether it is there."""
        try:
            return self._pool.adopt(image.tokens, image.adapter, image.state) is not None
        except EngineError as error:
            _log.warning("a prefix of %d tokens is not taken: %s", len(image.tokens), error)
            return False

    def compute(self, prompt: UnitPrompt, adapters: AdapterSet = _NO_ADAPTERS) -> KvImage:
        """Compute a unit's beginning and keep its file. For a process of its own: it takes long.

        Raises:
            EngineError: the engine failed, or the adapters cannot be loaded.
        """
        tokens = self.tokens(prompt)
        self._engine.load_adapters(adapters)
        entry = self._pool.begin(tokens, adapters.digest)
        if entry is None:
            raise EngineError("the pool has no room for a prefix")
        size = self._engine.shape.batch_tokens
        while len(entry.tokens) < len(tokens):
            start = len(entry.tokens)
            piece = tokens[start : start + size]
            self._engine.step([Feed(entry.sequence, start, piece)])
            self._pool.fed(entry, piece)
        state = self._pool.export(entry)
        files = self._files
        made_by = (files.engine, files.model) if files else ("", "")
        image = KvImage(*made_by, adapters.digest, tuple(tokens), state)
        if files:
            try:
                files.save(prompt, image)
            except OSError as error:
                _log.warning("a prefix could not be kept in %s: %s", files.directory, error)
        return image
