"""Metrics for Prometheus."""

import asyncio
from typing import Any

from litestar import Request, Response, get

from navi.http.requests.operation import operation
from navi.http.requests.services import Given

TEXT = {"text/plain": {"schema": {"type": "string"}}}


@get("/metrics", opt=operation(access="admin_read", answers={200: None}, answer_content=TEXT))
async def get_metrics(request: Request[Any, Any, Any], services: Given) -> Response[bytes]:
    """The metrics of this node, as Prometheus text or OpenMetrics."""
    gauges, accept = await services.take_gauges(), request.headers.get("accept", "")
    # With as many tools and models as there may be, writing takes longer than a stream should stand still.
    page = await asyncio.to_thread(services.metrics.expose, gauges, accept=accept)
    # Where processes share the port, a connection that is kept would show one of them for ever.
    return Response(page.body, headers={"Content-Type": page.content_type, "Connection": "close"})
