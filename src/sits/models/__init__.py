"""From a reference to a file that an engine can map.

`resolve` gives the `ModelFile` that a reference names, or a `ModelError` that says what can be
used instead. References to the same file resolve to the same path, so that it is loaded once.
Nothing is downloaded yet.
"""

from sits.models._errors import ModelError
from sits.models._resolve import BUILTIN_MODELS, ModelFile, resolve

__all__ = ["BUILTIN_MODELS", "ModelError", "ModelFile", "resolve"]
