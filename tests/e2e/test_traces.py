"""Traces of a running navi, taken by a real reader of OTLP, and its metrics: also after a crash."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
import pytest_asyncio

from tests.support.mind import data_of, events_of, session, with_profiles
from tests.support.model_server import ModelServer, Received, demo_parts, purpose_of
from tests.support.model_wire import Done, Part, Say, Stall, calls
from tests.support.navi_process import NaviProcess, running_navi
from tests.support.otlp_collector import OtlpCollector, TakenSpan, read_json

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("forget_requests"),
]

PROFILES: dict[str, dict[str, Any]] = {
    "planner": {
        "planning_enabled": True,
        "planning_phase2_enabled": True,
        "subagent_system_prompt": "CHILD",
    }
}
PHASES = {1: "Goal: it\nREFLECT: yes", 2: "### Critic\n- none", 3: "1. do it (SELF)"}
WRITE = ("filesystem", {"action": "write", "path": "a.txt", "content": "a private thing"})
KEY = "trace-collector-key-4711"


def working(request: Received) -> Sequence[Part]:
    """Plans in three phases, writes a file, spawns a subagent that writes one too, and is done."""
    purpose = purpose_of(request)
    messages = request.json["messages"]
    if purpose == "review":
        return (Say(PHASES[2]), Done())
    if purpose == "planning":
        return (Say(PHASES[1 if "DIRECT" in messages[-1]["content"] else 3]), Done())
    if purpose != "turn":
        return demo_parts(request)
    answered = sum(message["role"] == "tool" for message in messages)
    is_child = messages[0]["content"].endswith("CHILD")
    if is_child:
        return (Say("done"), Done()) if answered else (calls(WRITE), Done())
    if answered == 0:
        return (calls(WRITE, ("spawn_agent", {"task": "another"})), Done())
    return (Say("all done"), Done())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def collector() -> AsyncGenerator[OtlpCollector, None]:
    async with OtlpCollector() as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def navi(
    models: ModelServer, collector: OtlpCollector, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[NaviProcess, None]:
    async with running_navi(
        with_profiles(tmp_path_factory.mktemp("navi"), PROFILES),
        NAVI_LLM="ollama",
        OLLAMA_HOST=models.url,
        OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
        OTEL_EXPORTER_OTLP_HEADERS=f"api-key={KEY}",
        OTEL_EXPORTER_OTLP_TIMEOUT="30",
        OTEL_SERVICE_NAME="navi under test",
    ) as running:
        yield running


async def until_sent(collector: OtlpCollector, turn_id: str) -> TakenSpan:
    """The root of a turn's trace, waited for."""
    times = 1
    while True:
        roots = await collector.until_named("invoke_agent planner", times)
        for root in roots:
            if root.attributes.get("navi.turn_id") == turn_id:
                return root
        times = len(roots) + 1


async def turn(navi: NaviProcess, session_id: str, words: str) -> str:
    """The id of a turn that has ended."""
    receipt = await navi.drop(session_id, words)
    return (await navi.until(session_id, "turn_completed", after=receipt["seq"]))["turn_id"]


def tree(spans: Sequence[TakenSpan]) -> list[tuple[str, str]]:
    """Each span's name with its parent's, in order of time."""
    names = {span.span_id: span.name for span in spans}
    return [(one.name, names.get(one.parent_id, one.parent_id)) for one in spans]


async def test_a_turn_with_all_there_is_is_one_trace(
    navi: NaviProcess, models: ModelServer, collector: OtlpCollector
) -> None:
    models.otherwise = working
    session_id = await session(navi, "planner")

    turn_id = await turn(navi, session_id, "have it done")

    root = await until_sent(collector, turn_id)
    spans = [span for span in collector.spans if span.trace_id == root.trace_id]
    agent, child = "invoke_agent planner", "execute_tool spawn_agent"
    chat = "chat scripted:latest"
    assert tree(spans) == [
        (agent, ""),
        ("plan planner", agent),
        (chat, "plan planner"),
        ("plan planner", agent),
        (chat, "plan planner"),
        ("plan planner", agent),
        (chat, "plan planner"),
        (chat, agent),
        ("execute_tool filesystem", agent),
        (child, agent),
        (agent, child),
        (chat, agent),
        ("execute_tool filesystem", agent),
        (chat, agent),
        (chat, agent),
    ]
    [nested] = [span for span in spans if span.name == agent and span.parent_id]
    assert [span.name for span in spans if span.parent_id == nested.span_id] == [
        chat,
        "execute_tool filesystem",
        chat,
    ]
    ids = {span.span_id: span for span in spans}
    for span in spans[1:]:
        above = ids[span.parent_id]
        assert above.began <= span.began <= span.ended <= above.ended
    assert root.service == "navi under test"
    assert root.attributes["gen_ai.conversation.id"] == session_id
    assert collector.requests[0][0]["api-key"] == KEY
    said = json.dumps([[span.name, span.attributes] for span in collector.spans])
    assert not [text for text in ("private", "have it done", "all done") if text in said]


async def test_navi_trace_prints_what_was_sent(
    navi: NaviProcess, models: ModelServer, collector: OtlpCollector
) -> None:
    models.otherwise = working
    session_id = await session(navi, "planner")
    turn_id = await turn(navi, session_id, "have it done")
    root = await until_sent(collector, turn_id)
    sent = [span for span in collector.spans if span.trace_id == root.trace_id]

    printed, one, chrome, unknown = await asyncio.gather(
        navi.command("trace", session_id),
        navi.command("trace", session_id, "--turn", turn_id, "--format", "otlp"),
        navi.command("trace", session_id, "--format", "chrome"),
        navi.command("trace", session_id, "--turn", "01990000-0000-7000-8000-0000000000f1"),
    )

    assert list(read_json(one.stdout.encode())) == sent
    assert sent == [s for s in read_json(printed.stdout.encode()) if s.trace_id == root.trace_id]
    events = json.loads(chrome.stdout)["traceEvents"]
    assert {span.name for span in sent} <= {event["name"] for event in events}
    assert (unknown.status, unknown.stdout) == (1, "")
    assert "has no turn" in unknown.stderr


async def test_each_turn_that_is_noted_as_sent_is_sent_once_although_navi_is_killed(
    navi: NaviProcess, models: ModelServer, collector: OtlpCollector
) -> None:
    models.otherwise = working
    session_id = await session(navi, "planner")
    turns = [await turn(navi, session_id, words) for words in ("have it done", "once more")]
    # It is noted that the first one was sent, which comes before the second is.
    await until_sent(collector, turns[1])
    never = asyncio.Event()
    models.otherwise = lambda _: (Say("half"), Stall(never))
    receipt = await navi.drop(session_id, "again")
    began = await navi.until(session_id, "turn_started", after=receipt["seq"])
    await navi.until(session_id, "model_called", after=began["seq"])

    await navi.kill()
    models.otherwise = working
    await navi.start()

    ended = await navi.until(session_id, "turn_completed", after=began["seq"])
    turns += [ended["turn_id"], await turn(navi, session_id, "and again")]
    for turn_id in turns:
        await until_sent(collector, turn_id)
    roots = [span.attributes.get("navi.turn_id") for span in collector.spans]
    noted, unnoted, *later = (roots.count(turn_id) for turn_id in turns)
    assert (noted, later) == (1, [1, 1])
    assert unnoted in (1, 2)  # the process was killed before it may have noted that one
    taken_over = await until_sent(collector, ended["turn_id"])
    assert [name for _, name, _ in taken_over.events] == ["turn_resumed"]


async def test_metrics_are_those_of_the_turns(navi: NaviProcess, models: ModelServer) -> None:
    models.otherwise = working
    before = await metrics(navi)
    session_id = await session(navi, "planner")
    await turn(navi, session_id, "have it done")
    after = await metrics(navi)

    tools = data_of(await events_of(navi, session_id), "tool_finished")
    grown = {name: after.get(name, 0) - before.get(name, 0) for name in after}
    assert grown['navi_turns_total{outcome="completed"}'] == 1
    assert grown['navi_tool_calls_total{name="filesystem",outcome="ok"}'] == len(tools) - 1
    assert grown["navi_log_events_total"] > len(tools)
    assert after["navi_turns_running"] <= 1
    assert after["navi_approvals_waiting"] == 0


async def metrics(navi: NaviProcess) -> dict[str, float]:
    async with navi.client() as client:
        page = (await client.get("/metrics")).text
    samples = (line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in samples}


async def test_a_collector_that_is_gone_holds_up_no_turn_and_is_told_of_once(
    navi: NaviProcess, models: ModelServer, collector: OtlpCollector
) -> None:
    models.otherwise = working
    session_id = await session(navi, "planner")
    await collector.close()
    turns = [await turn(navi, session_id, "have it done")]
    await navi.has_logged("traces_not_sent")
    turns.append(await turn(navi, session_id, "and again"))
    await collector.open()

    for turn_id in turns:
        await until_sent(collector, turn_id)

    assert navi.log.count('"event": "traces_not_sent"') == 1
    assert KEY not in navi.log


async def test_a_collector_that_hangs_holds_up_neither_turns_nor_the_end(
    navi: NaviProcess, models: ModelServer, collector: OtlpCollector
) -> None:
    models.otherwise = working
    session_id = await session(navi, "planner")
    await navi.stop()
    await navi.start(OTEL_EXPORTER_OTLP_TIMEOUT="600")  # far beyond what the test waits for
    collector.status = None
    asked = collector.asked
    turns = [await turn(navi, session_id, "have it done")]
    await collector.until_asked(asked + 1)
    turns.append(await turn(navi, session_id, "and again"))

    assert await navi.stop() == 0

    collector.status = 200
    await navi.start()
    for turn_id in turns:
        await until_sent(collector, turn_id)
