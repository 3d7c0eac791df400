"""Finding an engine by the name of its factory."""

import importlib
from collections.abc import Callable
from typing import cast

from sits.runtime.engine._errors import EngineError
from sits.runtime.engine._interface import Model

LLAMACPP = "sits.runtime.engine.llamacpp:load"


def load_model(factory: str, path: str) -> Model:
    """Load a model file with the engine that `factory` names.

    Args:
        factory: `package.module:function`, a function of a path that returns a `Model`.
        path: the model file.

    Raises:
        EngineError: there is no such factory, or its library is not installed.
        ModelLoadError: the engine cannot run that file.
    """
    module_name, _, function_name = factory.partition(":")
    try:
        module = importlib.import_module(module_name)
        function = cast(Callable[[str], Model], getattr(module, function_name))
    except (ImportError, AttributeError) as error:
        raise EngineError(
            f"engine {factory!r} cannot be imported ({error}); expected package.module:function "
            "of an installed package"
        ) from error
    return function(path)
