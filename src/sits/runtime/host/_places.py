"""Where a host and what is forked from it keep things, and how much they may take."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from sits.runtime.engine import ModelInfo
from sits.runtime.host._prefixes import PrefixFiles

WORKER_BYTES = 1 << 30


@dataclass(frozen=True)
class Places:
    """Directories of one host.

    Attributes:
        run_dir: for workers' sockets and the board, open to this user alone.
        kv_dir: for prefixes that outlive their template; empty: they are kept in memory alone.
        model_digest: digest of the model file, by which prefixes are found.
        worker_bytes: how much memory a worker may take beyond what it has of its template.
    """

    run_dir: str
    kv_dir: str = ""
    model_digest: str = ""
    worker_bytes: int = WORKER_BYTES

    @property
    def board(self) -> str:
        """The file of the machine's board."""
        return os.path.join(self.run_dir, "board")

    def socket(self, instance: str) -> str:
        """Return an instance's socket."""
        return os.path.join(self.run_dir, f"{instance}.sock")

    def prefixes(self, tenant: str, info: ModelInfo) -> PrefixFiles | None:
        """Return where a tenant's prefixes are. By a digest: a name is no path."""
        if not self.kv_dir:
            return None
        name = hashlib.sha256(tenant.encode()).hexdigest()[:32]
        return PrefixFiles(Path(self.kv_dir, name), info.engine, self.model_digest)
