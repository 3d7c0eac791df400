"""What all hosts of a node have in common."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class HostPlan:
    """What all hosts of a node have in common.

    Attributes:
        run_dir: of sockets, open to this user alone.
        log_dir: of logs.
        secrets_dir: of all tenants' secrets.
        engine: the engine's factory, `package.module:function`.
        sequences: requests that one instance runs at once.
        sequence_tokens: the longest prompt and answer together.
        pool_tokens: room of an instance's pool; 0: for half of its sequences at their longest.
        kv_dir: of what was computed of prompts and outlives a host; empty: nothing does.
    """

    run_dir: str
    log_dir: Path
    secrets_dir: Path
    engine: str
    sequences: int
    sequence_tokens: int
    pool_tokens: int = 0
    kv_dir: str = ""

    def endpoint(self, name: str) -> str:
        """Return where a host listens for control."""
        return os.path.join(self.run_dir, f"{name}.sock")

    @property
    def instances_dir(self) -> str:
        """Where instances listen for gateways."""
        return os.path.join(self.run_dir, "i")

    @property
    def model_settings(self) -> dict[str, Any]:
        """The settings that are the same for every host of a model."""
        return {
            "run_dir": self.instances_dir,
            "kv_dir": self.kv_dir,
            "sequences": self.sequences,
            "sequence_tokens": self.sequence_tokens,
            "pool_tokens": self.pool_tokens,
        }
