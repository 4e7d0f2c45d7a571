"""Spans as a collector of OpenTelemetry reads them, sent by the SDK or printed as JSON."""

import asyncio
import time
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta

import pytest

from navi.adapters.traces.otlp_exporter import OtlpExporter
from navi.adapters.traces.otlp_json import otlp_json, resource_of
from navi.domain.reading.spans import Span, SpanEvent, SpanLink
from navi.projections.turn_spans import spans_of_turn
from tests.support.otlp_collector import OtlpCollector, read_json
from tests.support.spans import recorded_turns

AT = datetime(2026, 11, 20, 10, 0, 0, 123456, tzinfo=UTC)
SPAN = Span(
    trace_id="5b8efff798038103d269b633813fc60c",
    span_id="eee19b7ec3c1b174",
    parent_id="eee19b7ec3c1b173",
    name="chat qwen3",
    kind="client",
    began=AT,
    ended=AT + timedelta(microseconds=1500),
    attributes={
        "gen_ai.usage.input_tokens": 2**40,
        "gen_ai.response.time_to_first_chunk": 0.25,
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.request.stream": True,
        "error.type": "connection",
    },
    failed=True,
    events=(SpanEvent(name="turn_resumed", at=AT, attributes={"navi.attempt": 2}),),
    links=(SpanLink(trace_id="6b8efff798038103d269b633813fc60c", span_id="aee19b7ec3c1b174"),),
)


@pytest.fixture
async def collector(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[OtlpCollector, None]:
    async with OtlpCollector() as running:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", running.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "5")
        yield running


async def test_a_span_arrives_as_it_was_made(
    collector: OtlpCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=opensesame,x-tenant=home%20lab")

    assert await OtlpExporter({"OTEL_SERVICE_NAME": "navi at home"}).export([SPAN]) == "taken"

    [(headers, [span])] = collector.requests
    assert (headers["api-key"], headers["x-tenant"]) == ("opensesame", "home lab")
    assert headers["content-type"] == "application/x-protobuf"
    assert (span.trace_id, span.span_id, span.parent_id) == (
        SPAN.trace_id,
        SPAN.span_id,
        SPAN.parent_id,
    )
    assert (span.name, span.kind, span.failed) == ("chat qwen3", 3, True)
    assert (span.began, span.ended - span.began) == (1_795_168_800_123_456_000, 1_500_000)
    assert span.attributes == {**SPAN.attributes, "gen_ai.response.finish_reasons": ["stop"]}
    assert span.events == ((span.began, "turn_resumed", {"navi.attempt": 2}),)
    assert span.links == (("6b8efff798038103d269b633813fc60c", "aee19b7ec3c1b174"),)
    assert span.service == "navi at home"


async def test_what_is_printed_is_what_is_sent(collector: OtlpCollector) -> None:
    turns = await asyncio.to_thread(recorded_turns)
    spans = [s for turn in turns for s in spans_of_turn(turn, profile_id="assistant")]
    environment = {"OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=home"}

    await OtlpExporter(environment).export(spans)

    printed = read_json(otlp_json(spans, resource=resource_of(environment)))
    assert list(printed) == collector.spans
    assert printed[0].service == "navi"


@pytest.mark.parametrize(
    ("status", "delivery"), [(400, "refused"), (401, "refused"), (413, "refused"), (503, "away")]
)
async def test_an_endpoint_that_refuses_is_told_from_one_in_trouble(
    collector: OtlpCollector, status: int, delivery: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if delivery == "away":  # until then the SDK tries again
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.5")
    collector.status = status

    assert await OtlpExporter({}).export([SPAN]) == delivery


async def test_an_endpoint_that_is_gone_is_away(
    collector: OtlpCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.5")
    await collector.close()

    assert await OtlpExporter({}).export([SPAN]) == "away"


async def test_an_endpoint_that_hangs_holds_up_nothing_else(
    collector: OtlpCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.5")
    collector.status = None
    began = time.monotonic()
    export = asyncio.create_task(OtlpExporter({}).export([SPAN]))

    await collector.until_asked()  # the loop is free, or this would not come

    assert await export == "away"
    assert time.monotonic() - began < 30
