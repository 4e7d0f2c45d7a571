"""Spans as OTLP/JSON: the body that ``POST /v1/traces`` of a collector takes.

https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding: names in camelCase, ids in hex, enums as
numbers, and 64-bit integers as text.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from urllib.parse import unquote

import msgspec

from navi import __version__
from navi.domain.reading.spans import Attributes, AttributeValue, Span
from navi.domain.vocabulary.events import JsonObject

SERVICE = "navi"  # service.name, where OTEL_SERVICE_NAME says no other
SCOPE = "navi"
KINDS = {"internal": 1, "client": 3}
FAILED = 2  # status code "error"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def otlp_json(spans: Sequence[Span], *, resource: Mapping[str, str]) -> bytes:
    """An ExportTraceServiceRequest.

    Args:
        resource: attributes of the program that made the spans.
    """
    scope = {"name": SCOPE, "version": __version__}
    scoped = {"scope": scope, "spans": [_span(span) for span in spans]}
    return msgspec.json.encode(
        {
            "resourceSpans": [
                {"resource": {"attributes": _attributes(resource)}, "scopeSpans": [scoped]}
            ]
        }
    )


def resource_of(environment: Mapping[str, str]) -> Mapping[str, str]:
    """What made the spans, as the standard variables of OpenTelemetry have it."""
    listed = (
        entry.partition("=")
        for entry in environment.get("OTEL_RESOURCE_ATTRIBUTES", "").split(",")
        if "=" in entry
    )
    named = environment.get("OTEL_SERVICE_NAME", "").strip()
    return {
        "service.name": SERVICE,
        "service.version": __version__,
        **{key.strip(): unquote(value.strip()) for key, _, value in listed},
        **({"service.name": named} if named else {}),
    }


def nanoseconds(at: datetime) -> int:
    """Since 1970-01-01 UTC, exact."""
    return (at - _EPOCH) // _MICROSECOND * 1000


def _span(span: Span) -> JsonObject:
    found: JsonObject = {"traceId": span.trace_id, "spanId": span.span_id}
    if span.parent_id is not None:
        found["parentSpanId"] = span.parent_id
    found |= {
        "name": span.name,
        "kind": KINDS[span.kind],
        "startTimeUnixNano": str(nanoseconds(span.began)),
        "endTimeUnixNano": str(nanoseconds(span.ended)),
        "attributes": _attributes(span.attributes),
    }
    if span.events:
        found["events"] = [
            {
                "timeUnixNano": str(nanoseconds(event.at)),
                "name": event.name,
                "attributes": _attributes(event.attributes),
            }
            for event in span.events
        ]
    if span.links:
        found["links"] = [{"traceId": link.trace_id, "spanId": link.span_id} for link in span.links]
    found["status"] = {"code": FAILED} if span.failed else {}
    return found


def _attributes(attributes: Attributes) -> list[JsonObject]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: AttributeValue) -> JsonObject:
    match value:
        case bool():  # before int, which it is too
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case str():
            return {"stringValue": value}
        case tuple():
            return {"arrayValue": {"values": [_value(one) for one in value]}}
