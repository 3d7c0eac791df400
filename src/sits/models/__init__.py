"""Models: what a reference means, and the files that engines are given.

`ModelStore` is all that others need. A reference is pinned once, when a unit is deployed: its
`ModelPin` has the digest of the source file, so that a revision means the same bytes for ever.
What is pinned is pulled, by a process of its own, and prepared for the engine on this machine:

    pin      reference -> ModelPin     what it means today; refuses what cannot be run  (_pin)
    pin_adapter                        the same for an adapter of a model          (_adapters)
    find     ModelPin -> ModelFile     is it here? quick, local
    pull     ModelPin -> ModelFile     bring it here (_take, _download), prepare it (_prepare)
    keep     owner, digests            what a platform needs: never collected           (_inventory)

Where things lie and how a crash leaves no half: `_layout`. Which file of a repository is meant:
`_choose`. Which form of the weights is fastest here: `_representation`, pure;
`sits.runtime.prepare` carries it out. Builtins are packages (`_builtins`); one that is no GGUF
file is converted (`_convert`). The hub's client is in `_hub` alone, and imported only when the
hub is asked.
"""

from sits.models._architectures import kind_of
from sits.models._builtins import BUILTIN_MODELS, builtin_path
from sits.models._errors import ModelError, ModelStoreFull, ModelUnavailable
from sits.models._gguf import GgufHeader, read_gguf_file
from sits.models._hub import HubSettings
from sits.models._inventory import Collected, StoredModel
from sits.models._machine import read_machine
from sits.models._prepare import DEFAULT_PREPARE, Failure, prepare_command
from sits.models._records import Measured, PreparedRecord
from sits.models._representation import (
    Action,
    Machine,
    Plan,
    choose_measured,
    decide_representation,
)
from sits.models._store import ModelStore
from sits.models._types import ModelFile, ModelKind, ModelPin, PullProgress

__all__ = [
    "BUILTIN_MODELS",
    "DEFAULT_PREPARE",
    "Action",
    "Collected",
    "Failure",
    "GgufHeader",
    "HubSettings",
    "Machine",
    "Measured",
    "ModelError",
    "ModelFile",
    "ModelKind",
    "ModelPin",
    "ModelStore",
    "ModelStoreFull",
    "ModelUnavailable",
    "Plan",
    "PreparedRecord",
    "PullProgress",
    "StoredModel",
    "builtin_path",
    "choose_measured",
    "decide_representation",
    "kind_of",
    "prepare_command",
    "read_gguf_file",
    "read_machine",
]
