"""The errors of `store`.

Tree::

    SitsError
      +-- StoreError     the database cannot be opened, or refused what it was given
"""

from sits._errors import SitsError


class StoreError(SitsError):
    """The store cannot do what was asked; the message says what to do."""

    code = "store_error"
