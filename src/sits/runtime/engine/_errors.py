"""What an engine raises.

Error tree::

    SitsError
      +-- EngineError        a call that the engine must not be given, or one that it failed
            +-- ModelLoadError     a file that this engine cannot run
            +-- AdapterLoadError   a file that is no adapter for the model
"""

from sits._errors import SitsError


class EngineError(SitsError):
    """An engine was called wrongly, or failed; the message says which."""

    code = "engine_error"


class ModelLoadError(EngineError):
    """The model file cannot be run by this engine."""

    code = "model_load_failed"
    http_status = 422


class AdapterLoadError(EngineError):
    """The file cannot be used as an adapter of this model."""

    code = "adapter_load_failed"
    http_status = 422
