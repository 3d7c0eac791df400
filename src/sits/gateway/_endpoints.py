"""The routes: which path means what."""

import time
from collections.abc import Sequence
from functools import partial

import anyio
import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from sits.gateway._body import ClientGoneError, decode_object, read_body
from sits.gateway._chat import read_chat
from sits.gateway._deadline import Deadline, read_deadline
from sits.gateway._edge import App, Receive, Scope, Send
from sits.gateway._embeddings import read_embeddings
from sits.gateway._errors import ApiError
from sits.gateway._exchange import EXCHANGE, Exchange
from sits.gateway._job import AnyJob
from sits.gateway._metrics import Metrics
from sits.gateway._query import read_query
from sits.gateway._relay import Relay
from sits.gateway._settings import Settings
from sits.gateway._table import RoutingTable
from sits.wire import HOPS_HEADER, UnitRoute

_POINTER = (
    b'{"service":"sits","openai":"/v1","units":"/iu/NAME/v1/query","control":"/api/v1",'
    b'"metrics":"/metrics"}'
)


EMBEDDINGS_PATH = "/v1/embeddings"
# Through so many units whose model is elsewhere; more is a loop of them.
_MAX_HOPS = 4


class ModelCard(msgspec.Struct, frozen=True):
    """A unit, as OpenAI lists a model."""

    id: str
    created: int
    owned_by: str
    object: str = "model"


class ModelList(msgspec.Struct, frozen=True):
    """All of a tenant's units, also those at zero instances."""

    data: list[ModelCard]
    object: str = "list"


class Generation:
    """The endpoints that make answers: OpenAI's chat and embeddings, and a unit's own.

    Args:
        table: the units of now.
        relay: carries out what was read.
        settings: limits of the body.
    """

    def __init__(self, table: RoutingTable, relay: Relay, settings: Settings) -> None:
        self._table = table
        self._relay = relay
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange: Exchange = scope[EXCHANGE]
        deadline = read_deadline(scope["headers"], exchange.started_s)
        try:
            body = await self._read_body(scope, receive, deadline)
        except ClientGoneError:
            return
        job = self._read(scope, body)
        _refuse_loop(exchange, job.unit.name)
        await self._relay.answer(scope, receive, send, job, deadline)

    async def _read_body(self, scope: Scope, receive: Receive, deadline: Deadline) -> bytes:
        settings = self._settings
        with anyio.move_on_after(deadline.left_s(time.monotonic())):
            return await read_body(
                scope["headers"],
                receive,
                max_bytes=settings.max_body_bytes,
                within_s=settings.body_s,
            )
        raise deadline.error()

    def _read(self, scope: Scope, body: bytes) -> AnyJob:
        exchange: Exchange = scope[EXCHANGE]
        find = partial(self._find, exchange)
        settings = self._settings
        name: str | None = scope["path_params"].get("name")
        if name is not None:
            unit = find(name)
            return read_query(decode_object(body), unit, max_biases=settings.max_biases)
        value = decode_object(body)
        if scope["path"] == EMBEDDINGS_PATH:
            return read_embeddings(value, find, max_inputs=settings.max_inputs)
        return read_chat(
            value, find, max_messages=settings.max_messages, max_biases=settings.max_biases
        )

    def _find(self, exchange: Exchange, name: str) -> UnitRoute:
        unit = self._table.find(exchange.tenant, name)
        exchange.unit = unit.name
        return unit


class Listing:
    """The endpoints that answer from what the gateway itself knows.

    Args:
        table: the units of now.
        metrics: what has been asked of them.
    """

    def __init__(self, table: RoutingTable, metrics: Metrics) -> None:
        self._table = table
        self._metrics = metrics
        self.draining = False

    async def models(self, request: Request) -> Response:
        """List the caller's units."""
        tenant = request.scope[EXCHANGE].tenant
        cards = [_card(route) for route in self._table.units(tenant)]
        return _json(msgspec.json.encode(ModelList(cards)))

    async def model(self, request: Request) -> Response:
        """Describe one of them."""
        tenant = request.scope[EXCHANGE].tenant
        route = self._table.find(tenant, request.path_params["name"])
        return _json(msgspec.json.encode(_card(route)))

    async def metrics(self, request: Request) -> Response:
        """Tell the caller's units' figures, for Prometheus."""
        tenant = request.scope[EXCHANGE].tenant
        body, content_type = self._metrics.render(tenant, request.headers.get("accept", ""))
        return Response(body, headers={"content-type": content_type})

    async def livez(self, request: Request) -> Response:
        """Say that the process answers."""
        return PlainTextResponse("ok\n")

    async def readyz(self, request: Request) -> Response:
        """Say whether requests can be taken."""
        if self.draining:
            return PlainTextResponse("draining\n", 503)
        if not self._table.ready:
            return PlainTextResponse("no routing table yet\n", 503)
        return PlainTextResponse("ok\n")

    async def pointer(self, request: Request) -> Response:
        """Say what there is."""
        return _json(_POINTER)


def make_routes(listing: Listing, generation: Generation, control_api: App) -> Starlette:
    """Return the application inside the edge."""
    routes: Sequence[BaseRoute] = [
        Route("/v1/chat/completions", generation, methods=["POST"]),
        Route(EMBEDDINGS_PATH, generation, methods=["POST"]),
        Route("/iu/{name}/v1/query", generation, methods=["POST"]),
        Route("/v1/models", listing.models, methods=["GET"]),
        Route("/v1/models/{name:path}", listing.model, methods=["GET"]),
        Route("/api/v1/{path:path}", control_api),
        Route("/metrics", listing.metrics, methods=["GET"]),
        Route("/livez", listing.livez, methods=["GET"]),
        Route("/readyz", listing.readyz, methods=["GET"]),
        Route("/", listing.pointer, methods=["GET"]),
    ]
    app = Starlette(
        routes=routes,
        exception_handlers={
            ApiError: _on_api_error,
            HTTPException: _on_http_error,
            Exception: _on_bug,
        },
    )
    # A redirect answers before the body is read, and clients drop the key on the way.
    app.router.redirect_slashes = False
    return app


def _refuse_loop(exchange: Exchange, unit: str) -> None:
    if exchange.hops > _MAX_HOPS:
        raise ApiError(
            508,
            "loop_detected",
            f"the request was passed on more than {_MAX_HOPS} times from one unit to another "
            f"({HOPS_HEADER}), which is the limit: the endpoints of the unit {unit!r} lead back "
            "to it; give it, or a unit on the way, another `url` or `model` in `engine.endpoints`",
        )


def _card(route: UnitRoute) -> ModelCard:
    return ModelCard(route.name, route.created_s, route.tenant)


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json")


async def _on_api_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    request.scope[EXCHANGE].error = error.error_code
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in error.headers}
    return Response(error.body, error.status, headers)


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    where = f"{request.method} {request.scope[EXCHANGE].path}"
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        told = ApiError(
            405,
            "method_not_allowed",
            f"{where} is not there; this path takes: {allowed}",
            headers=[(b"allow", allowed.encode("latin-1"))],
        )
    else:
        told = ApiError(
            error.status_code,
            "not_found",
            f"{where} is not there; see /v1/models, /v1/chat/completions, /v1/embeddings, "
            "/iu/NAME/v1/query",
        )
    return await _on_api_error(request, told)


async def _on_bug(request: Request, error: Exception) -> Response:
    # The server logs the traceback; the caller gets the id under which it stands.
    request_id = request.scope[EXCHANGE].request_id
    told = ApiError(500, "internal_error", f"the gateway failed; its log has request {request_id}")
    return await _on_api_error(request, told)
