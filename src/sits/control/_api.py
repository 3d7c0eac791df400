"""The control API under `/api/v1`, on a unix socket behind the gateway.

The gateway has checked the key and says whose request it is in `x-sits-tenant` (it strips what
a client sent under that name); without one nothing is answered. Errors have the form
`{"error": {"message", "type", "param", "code"}}`.
"""

import logging
import math
import re
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any

import anyio
import anyio.to_thread
import msgspec
from fastapi import APIRouter, Depends, FastAPI, Header, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sits._errors import SitsError
from sits._version import __version__
from sits.control._catalog import unit_not_found
from sits.control._errors import BodyTooLarge, RequestError, TenantMissing
from sits.control._logs import MAX_LINES, read_unit_log
from sits.control._units import Units
from sits.models import ModelError, ModelUnavailable
from sits.spec import DNS_LABEL, MAX_UNIT_BYTES, Loaded, SpecError, load_unit, load_unit_json
from sits.store import StoreError, StoreFull

_NAME = re.compile(DNS_LABEL)  # of tenants and of units
_BODY_S = 30.0
_MAX_SEQ = 2**31 - 1  # what every database has for a whole number
# JSON may escape what YAML writes plainly.
_MAX_BODY_BYTES = 2 * MAX_UNIT_BYTES

log = logging.getLogger(__name__)


# Gives the state of the platform as JSON's types, with a tenant's own units and no other's.
PlatformStatus = Callable[[str], dict[str, object]]
# Returns when a change that was just made is true at every gateway (or will not be soon).
Settle = Callable[[], Awaitable[None]]


def make_app(
    units: Units, platform_status: PlatformStatus, settle: Settle, *, log_dir: Path
) -> FastAPI:
    """Return the API over these units, with the directory of the platform's logs."""
    app = FastAPI(
        title="SITS control API",
        version=__version__,
        docs_url=None,  # the page loads its scripts from elsewhere
        redoc_url=None,
        openapi_url="/api/v1/openapi.json",
        redirect_slashes=False,  # it would name this socket's host, which no client can reach
    )
    app.include_router(_unit_routes(units, settle))
    app.include_router(_past_routes(units, log_dir))
    app.include_router(_status_routes(units, platform_status))
    app.add_exception_handler(SitsError, _on_sits_error)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(RequestValidationError, _on_invalid_request)
    app.add_middleware(_Shield)
    return app


def _tenant(
    x_sits_tenant: Annotated[str | None, Header(include_in_schema=False)] = None,
) -> str:
    if x_sits_tenant is None:
        raise TenantMissing(
            "the request does not say whose it is; send it to the gateway, with a key, which "
            "says that in x-sits-tenant"
        )
    if not _NAME.fullmatch(x_sits_tenant):
        raise RequestError(
            f"x-sits-tenant is {x_sits_tenant!r}; expected lower-case letters, digits and '-'"
        )
    return x_sits_tenant


Tenant = Annotated[str, Depends(_tenant)]


def _unit_name(name: str) -> str:
    if not _NAME.fullmatch(name):  # a name of that form is no unit's, and not every store takes it
        raise unit_not_found(name[:80])
    return name


UnitName = Annotated[str, Depends(_unit_name)]


def _unit_routes(units: Units, settle: Settle) -> APIRouter:
    router = APIRouter(prefix="/api/v1/units", tags=["units"])

    @router.post("", status_code=201, openapi_extra=_UNIT_BODY)
    async def deploy(request: Request, tenant: Tenant, dry_run: bool = False) -> JSONResponse:
        """Deploy a unit: 201 where it is new, 200 where it was there; gateways know it then."""
        if len(request.query_params.getlist("dry_run")) > 1:
            raise RequestError("dry_run is given twice; give it once")
        loaded = _load(await _read_body(request), request.headers.get("content-type", ""))
        done = await units.deploy(tenant, loaded, dry_run=dry_run)
        if not dry_run:
            await settle()
            log.info("deployed tenant=%s unit=%s", tenant, done.unit.name)
        answer = {**_summary(units.describe(done.unit)), "notes": list(done.notes)}
        if dry_run:  # what it would be in is not known before it is there
            answer["phase"] = None
            answer["would"] = "create" if done.created else "update"
        return JSONResponse(answer, 201 if done.created and not dry_run else 200)

    @router.get("")
    async def list_units(tenant: Tenant, brief: bool = False) -> Response:
        """List the tenant's units, by name; `brief`: only what one line says of each."""
        show = units.outline if brief else units.whole
        own = (unit for unit in units.catalog.wanted() if unit.tenant == tenant)
        listed = {"units": [show(unit) for unit in own]}
        # Encoded here: FastAPI looks at each value of a thousand units first.
        return Response(msgspec.json.encode(listed), media_type="application/json")

    @router.get("/{name}")
    async def get(name: UnitName, tenant: Tenant) -> dict[str, Any]:
        """Show one unit: what is wanted (`spec`) and what is (`status`)."""
        return units.describe(units.catalog.find(tenant, name))

    @router.delete("/{name}")
    async def delete(name: UnitName, tenant: Tenant) -> dict[str, Any]:
        """Delete a unit: no request reaches it any more, and those that run may finish."""
        described = units.describe(units.delete(tenant, name))
        await settle()
        log.info("deleting tenant=%s unit=%s", tenant, name)
        return {"name": described["name"], "phase": described["status"]["phase"]}

    @router.post("/{name}/rollback")
    async def rollback(
        name: UnitName, tenant: Tenant, to: Annotated[str | None, Query(min_length=1)] = None
    ) -> dict[str, Any]:
        """Make an earlier revision the wanted one: `to`, or what served before."""
        unit = units.rollback(tenant, name, to)
        await settle()
        log.info("rolled back tenant=%s unit=%s revision=%s", tenant, name, unit.target.revision)
        return _summary(units.describe(unit))

    return router


def _past_routes(units: Units, log_dir: Path) -> APIRouter:
    """Return the routes of what was and of what happened."""
    router = APIRouter(prefix="/api/v1/units/{name}", tags=["units"])

    @router.get("/history")
    async def history(name: UnitName, tenant: Tenant) -> dict[str, Any]:
        """Show where a unit's traffic went, and which revisions it had; oldest first."""
        unit = units.catalog.find(tenant, name)
        routes, revisions = units.history(unit)
        return {
            "wanted": unit.target.revision,
            "serving": unit.serving.revision if unit.serving else None,
            "routes": [asdict(route) for route in routes],
            "revisions": [
                {"revision": each.revision, "created_s": each.created_s} for each in revisions
            ],
        }

    @router.get("/revisions/{revision}")
    async def revision(name: UnitName, revision: str, tenant: Tenant) -> dict[str, Any]:
        """Show what was deployed as a revision; its head is enough."""
        return units.revision(units.catalog.find(tenant, name), revision)

    @router.get("/events")
    async def events(
        name: UnitName, tenant: Tenant, after: Annotated[int, Query(ge=0, le=_MAX_SEQ)] = 0
    ) -> dict[str, Any]:
        """Show what happened to a unit, oldest first, also to one that is gone."""
        return {"events": [asdict(event) for event in units.events(tenant, name, after)]}

    @router.get("/logs")
    async def logs(
        name: UnitName,
        tenant: Tenant,
        tail: Annotated[int, Query(ge=0, le=MAX_LINES)] = 100,
        cursor: str = "",
    ) -> dict[str, Any]:
        """Show what the platform's logs say of a unit; give `cursor` back to go on."""
        units.events(tenant, name, 0)
        page = await anyio.to_thread.run_sync(
            partial(read_unit_log, log_dir, (tenant, name), tail=tail, cursor=cursor)
        )
        return {"lines": page.lines, "cursor": page.cursor}

    return router


def _summary(described: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": described["name"],
        "revision": described["revision"],
        "endpoint": described["endpoint"],
        "phase": described["status"]["phase"],
    }


def _status_routes(units: Units, platform_status: PlatformStatus) -> APIRouter:
    router = APIRouter(prefix="/api/v1", tags=["platform"])

    @router.get("/status")
    async def status(tenant: Tenant) -> dict[str, Any]:
        """Show the platform: version, gateways, and the tenant's own units' hosts and instances."""
        count = sum(unit.tenant == tenant for unit in units.catalog.wanted())
        return {"version": __version__, "units": count, **platform_status(tenant)}

    return router


_UNIT_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/yaml": {"schema": {"type": "string"}},
            "application/json": {"schema": {"type": "object"}},
        },
    }
}


async def _read_body(request: Request) -> bytes:
    body = bytearray()
    try:
        with anyio.fail_after(_BODY_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > _MAX_BODY_BYTES:
                    raise BodyTooLarge(
                        f"the body is over {_MAX_BODY_BYTES} bytes; send one unit, without data"
                    )
    except TimeoutError as error:
        raise RequestError(f"the body did not arrive within {_BODY_S:.0f} s") from error
    return bytes(body)


def _load(body: bytes, content_type: str) -> Loaded:
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SpecError(
            f"is not UTF-8 (at byte {error.start}); save the file as UTF-8", source="the unit"
        ) from error
    if content_type.partition(";")[0].strip().lower() == "application/json":
        return load_unit_json(text, "the unit")
    return load_unit(text, "the unit")


# errors


def _error(
    status: int, message: str, code: str, param: str | None = None, retry_after_s: float = 0.0
) -> JSONResponse:
    kind = "invalid_request_error" if status < 500 else "server_error"
    body = {"error": {"message": message, "type": kind, "param": param, "code": code}}
    headers = {"retry-after": str(math.ceil(retry_after_s))} if retry_after_s else None
    return JSONResponse(body, status, headers)


async def _on_sits_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, SitsError)
    param = _param(error)
    if error.http_status == HTTPStatus.INTERNAL_SERVER_ERROR:  # the others say what is the matter
        log.error("request failed", exc_info=error)
    return _error(error.http_status, _public(error), error.code, param, _retry_after_s(error))


def _public(error: SitsError) -> str:
    """Return what a caller is told: where the records are is the operator's to know."""
    if not isinstance(error, StoreError):
        return str(error)
    log.warning("the store refuses problem=%s", error)
    full = "it has no room" if isinstance(error, StoreFull) else "it cannot be used now"
    return (
        f"nothing was changed: the platform's store fails ({full}); its operator finds more in "
        "control's log"
    )


def _retry_after_s(error: SitsError) -> float:
    told = error.retry_after_s if isinstance(error, ModelUnavailable) else None
    return told or (1.0 if error.retryable else 0.0)


def _param(error: SitsError) -> str | None:
    match error:
        case SpecError():
            return error.field or None
        case ModelError():
            return "model"
        case _:
            return None


async def _on_http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    code = HTTPStatus(error.status_code).phrase.lower().replace(" ", "_")
    message = f"{request.method} {request.url.path}: {error.detail}; see /api/v1/openapi.json"
    return _error(error.status_code, message, code)


async def _on_invalid_request(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    param = str(first["loc"][-1])
    message = f"{param} is {first['input']!r}: {first['msg']}"
    return _error(400, message, "invalid_request", param)


class _Shield:
    """Answers what nobody foresaw.

    Starlette's own answer raises again, and the connection, which the gateway may be about to use
    for another request, is closed.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def note(message: Message) -> None:
            nonlocal begun
            begun = begun or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, note)
        except Exception:
            log.exception("request failed unexpectedly")
            if begun:
                raise
            bug = _error(500, "control failed; its log says why", "internal_error")
            await bug(scope, receive, send)
