"""The errors of `control`.

Tree::

    SitsError
      +-- ControlError
            +-- LifecycleError      (in _lifecycle) an illegal step: a bug, or a foreign peer
            +-- KeyFileError        the local key's file is not usable
            +-- UnitNotFound        404
            +-- PlatformFull        507: gateways could not be told of one more unit
            +-- TenantMissing       403: nobody said whose request it is
            +-- RequestError        400: a request of the API is malformed
                  +-- BodyTooLarge  413
"""

from sits._errors import SitsError


class ControlError(SitsError):
    """The control plane cannot do what was asked."""

    code = "control_error"


class KeyFileError(ControlError):
    """The file of the local key is not usable; the message says what to do."""

    code = "key_file_unusable"


class UnitNotFound(ControlError):
    """There is no unit of this name for this tenant."""

    code = "unit_not_found"
    http_status = 404


class RevisionNotFound(ControlError):
    """A unit has no such revision, or none to go back to."""

    code = "revision_not_found"
    http_status = 404


class PlatformFull(ControlError):
    """All units together would be more than gateways can be told."""

    code = "platform_full"
    http_status = 507


class TenantMissing(ControlError):
    """A request does not say whose it is: it did not come through a gateway."""

    code = "tenant_missing"
    http_status = 403


class RequestError(ControlError):
    """A request of the API is malformed."""

    code = "invalid_request"
    http_status = 400


class BodyTooLarge(RequestError):
    """A request's body is over the limit."""

    code = "body_too_large"
    http_status = 413
