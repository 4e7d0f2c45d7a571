"""Routes of the descriptions that programs read: OpenAPI, AsyncAPI, JSON Schema of the events."""

from functools import cache

import msgspec
from litestar import MediaType, Response, get

from navi.http.asyncapi import asyncapi
from navi.http.event_schema import event_schema
from navi.http.openapi import openapi
from navi.http.services import Given
from navi.http.tools_and_profiles import require_log


@get("/schema")
async def get_openapi(services: Given) -> Response[bytes]:
    """OpenAPI of the HTTP routes."""
    await require_log(services)
    return _json(_openapi(services.version))


@get("/schema/asyncapi.json")
async def get_asyncapi(services: Given) -> Response[bytes]:
    """AsyncAPI of the WebSocket and of NATS."""
    await require_log(services)
    return _json(_asyncapi(services.version))


@get("/schema/events.json")
async def get_event_schema(services: Given) -> Response[bytes]:
    """JSON Schema of the envelope, by type."""
    await require_log(services)
    return _json(_event_schema())


def _json(body: bytes) -> Response[bytes]:
    return Response(body, media_type=MediaType.JSON)


@cache
def _openapi(version: str) -> bytes:
    return msgspec.json.encode(openapi(version))


@cache
def _asyncapi(version: str) -> bytes:
    return msgspec.json.encode(asyncapi(version))


@cache
def _event_schema() -> bytes:
    return msgspec.json.encode(event_schema())
