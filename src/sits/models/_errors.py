"""The errors of `models`.

Tree::

    SitsError
      +-- ModelError     a reference names no model that can be run here
"""

from sits._errors import SitsError


class ModelError(SitsError):
    """A model cannot be used; the message says what can."""

    code = "model_unavailable"
    http_status = 422
