"""Routes of the descriptions that programs read: OpenAPI, AsyncAPI, JSON Schema of the events."""

from collections.abc import Iterable
from functools import cache

import msgspec
from litestar import MediaType, Response, get
from litestar.handlers import BaseRouteHandler
from litestar.routes import BaseRoute, HTTPRoute

from navi.http.api.tools_and_profiles import require_log
from navi.http.requests.errors import Edge
from navi.http.requests.operation import operation
from navi.http.requests.services import Given
from navi.http.schemas.asyncapi import asyncapi
from navi.http.schemas.event_schema import event_schema
from navi.http.schemas.openapi import openapi


@get("/schema", opt=operation(access="open", answers={200: None}))
async def get_openapi(request: Edge, services: Given) -> Response[bytes]:
    """OpenAPI of the HTTP routes."""
    await require_log(services)
    handlers = (handler for route in request.app.routes for handler in _handlers_of(route))
    return _json(msgspec.json.encode(openapi(services.version, handlers)))


@get("/schema/asyncapi.json", opt=operation(access="open", answers={200: None}))
async def get_asyncapi(services: Given) -> Response[bytes]:
    """AsyncAPI of the WebSocket and of NATS."""
    await require_log(services)
    return _json(_asyncapi(services.version))


@get("/schema/events.json", opt=operation(access="open", answers={200: None}))
async def get_event_schema(services: Given) -> Response[bytes]:
    """JSON Schema of the envelope, by type."""
    await require_log(services)
    return _json(_event_schema())


def _json(body: bytes) -> Response[bytes]:
    return Response(body, media_type=MediaType.JSON)


def _handlers_of(route: BaseRoute) -> Iterable[BaseRouteHandler]:
    return route.route_handlers if isinstance(route, HTTPRoute) else ()


@cache
def _asyncapi(version: str) -> bytes:
    return msgspec.json.encode(asyncapi(version))


@cache
def _event_schema() -> bytes:
    return msgspec.json.encode(event_schema())
