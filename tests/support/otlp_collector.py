"""A collector of OpenTelemetry on loopback: takes spans over OTLP/HTTP, reads them with its own types."""

import asyncio
import base64
import json
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from google.protobuf.json_format import ParseDict
from msgspec import Struct
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

TIMEOUT = 60.0  # seconds a test waits for what must come


class TakenSpan(Struct, frozen=True):
    """A span as it was received; ids in hex, times in nanoseconds."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    kind: int
    began: int
    ended: int
    attributes: dict[str, object]
    failed: bool
    links: tuple[tuple[str, str], ...]
    events: tuple[tuple[int, str, dict[str, object]], ...]
    service: object


class OtlpCollector:
    """The server; to be used as ``async with``.

    Attributes:
        status: what it answers; None to take the request and say nothing.
        requests: headers, and the spans of each request that was answered with 200.
    """

    def __init__(self) -> None:
        self.status: int | None = 200
        self.asked = 0
        self.requests: list[tuple[dict[str, str], tuple[TakenSpan, ...]]] = []
        self._arrived = asyncio.Condition()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def spans(self) -> list[TakenSpan]:
        """All that were taken, in order."""
        return [span for _, spans in self.requests for span in spans]

    async def until_asked(self, times: int = 1) -> None:
        """Wait for that many requests, taken or not."""
        async with asyncio.timeout(TIMEOUT), self._arrived:
            await self._arrived.wait_for(lambda: self.asked >= times)

    async def until_named(self, name: str, times: int = 1) -> list[TakenSpan]:
        """Wait for that many spans of a name; gives them."""

        def found() -> list[TakenSpan]:
            return [span for span in self.spans if span.name == name]

        async with asyncio.timeout(TIMEOUT), self._arrived:
            await self._arrived.wait_for(lambda: len(found()) >= times)
        return found()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Listen, where it listened before."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Be gone."""
        assert self._server is not None
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while await self._answer(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._connections.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head[1:] if line)
        }
        body = await reader.readexactly(int(headers["content-length"]))
        assert head[0].startswith("POST /v1/traces ")
        async with self._arrived:
            self.asked += 1
            if self.status == 200:
                self.requests.append((headers, read_protobuf(body)))
            self._arrived.notify_all()
        if self.status is None:
            await asyncio.Event().wait()
        answer = ExportTraceServiceResponse().SerializeToString() if self.status == 200 else b"no"
        writer.write(
            f"HTTP/1.1 {self.status} it\r\nContent-Type: application/x-protobuf\r\n"
            f"Content-Length: {len(answer)}\r\n\r\n".encode()
            + answer
        )
        await writer.drain()
        return True


def read_protobuf(body: bytes) -> tuple[TakenSpan, ...]:
    """The spans of an ExportTraceServiceRequest."""
    return _taken(ExportTraceServiceRequest.FromString(body))


def read_json(body: bytes) -> tuple[TakenSpan, ...]:
    """The spans of one in OTLP/JSON, read by its types: a field that they do not know is an error."""
    value = json.loads(body)
    for span in (s for r in value["resourceSpans"] for c in r["scopeSpans"] for s in c["spans"]):
        for holder in (span, *span.get("links", ())):
            for name in ("traceId", "spanId", "parentSpanId"):
                if name in holder:  # OTLP has hex where the mapping of protobuf has Base64
                    holder[name] = base64.b64encode(bytes.fromhex(holder[name])).decode()
    return _taken(ParseDict(value, ExportTraceServiceRequest()))


def _taken(request: ExportTraceServiceRequest) -> tuple[TakenSpan, ...]:
    return tuple(
        _span(span, _attributes(resource.resource.attributes).get("service.name"))
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    )


def _span(span: Span, service: object) -> TakenSpan:
    return TakenSpan(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        name=span.name,
        kind=span.kind,
        began=span.start_time_unix_nano,
        ended=span.end_time_unix_nano,
        attributes=_attributes(span.attributes),
        failed=span.status.code == Status.STATUS_CODE_ERROR,
        links=tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
        events=tuple((e.time_unix_nano, e.name, _attributes(e.attributes)) for e in span.events),
        service=service,
    )


def _attributes(attributes: Iterable[KeyValue]) -> dict[str, object]:
    return {one.key: _value(one.value) for one in attributes}


def _value(value: AnyValue) -> object:
    match value.WhichOneof("value"):
        case "array_value":
            return [_value(one) for one in value.array_value.values]
        case None:
            return None
        case kind:
            return getattr(value, kind)
