"""Errors of the sandbox.

Tree::

    SitsError
      +-- SandboxError    a template that is wrong, or asks for what it may not have
"""

from sits._errors import SitsError


class SandboxError(SitsError):
    """A template did not render. Trying again gives the same."""

    code = "invalid_prompt"
    http_status = 400
