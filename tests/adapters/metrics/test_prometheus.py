"""What is counted of a node's turns, as Prometheus' own parser reads it."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.adapters.in_memory.read_models import InMemoryReadModels
from navi.adapters.metrics.labels import MAX_CHARACTERS, Bounded, seconds_since
from navi.adapters.metrics.names import METRICS
from navi.adapters.metrics.prometheus import PrometheusMetrics
from navi.adapters.system import RandomIds, SystemClock
from navi.application.session.record import Record, Records
from navi.domain.log.secrets import Secrets
from navi.domain.session.commands import CreateSession, RenameSession
from navi.domain.vocabulary.errors import LogUnavailable
from navi.domain.vocabulary.ids import LOCAL_OWNER, NodeId, SessionId, TurnId, uuid7
from navi.ports.event_log import Append, Recorded
from navi.ports.metrics import Gauges, Metrics
from tests.support.agent_node import World, agent_node
from tests.support.model_server import MODEL, ModelServer
from tests.support.model_wire import Done, ErrorLine, Say, Stall, calls

NOTHING = Gauges(turns_running=0, approvals_waiting=None, relay_lag=None, projection_lag=None)
NODE = NodeId("0199b0a0-0000-7000-8000-00000000000a")
SESSION = SessionId("0199b0a0-0000-7000-8000-000000000001")
WRITE = ("filesystem", {"action": "write", "path": "a.txt", "content": "hi"})

PARSE_OPENMETRICS = getattr(openmetrics, parse_text.__name__)  # it has no types

Labels = tuple[tuple[str, str], ...]
Samples = Mapping[str, Mapping[Labels, float]]


def samples(metrics: Metrics, gauges: Gauges = NOTHING) -> Samples:
    """Every sample by name and labels."""
    page = metrics.expose(gauges, accept="text/plain")
    found: dict[str, dict[Labels, float]] = {}
    for family in parse_text(page.body.decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[of(**sample.labels)] = sample.value
    return found


def of(**labels: str) -> Labels:
    return tuple(sorted(labels.items()))


async def test_turns_calls_tokens_and_tools_are_counted(tmp_path: Path) -> None:
    world = World()
    async with ModelServer() as models, agent_node(world, tmp_path, [models.url]) as node:
        models.answer(calls(WRITE, ("no_such_tool", {})), Done(prompt=100, completion=7))
        models.answer(Say("done"), Done(prompt=120, completion=3))
        models.answer(ErrorLine("out of memory"))
        models.answer(Say("again"), Done(prompt=130, completion=2))
        session_id = await node.session()

        await node.ask(session_id, "write it")
        await node.ask(session_id, "and again")

        found = samples(node.metrics)
        backend = f"ollama@{models.url}"
        assert found["navi_turns_total"] == {
            of(outcome="completed"): 2,
            of(outcome="stopped"): 0,
            of(outcome="failed"): 0,
        }
        assert found["navi_turn_seconds_count"][()] == 2
        assert found["navi_turn_seconds_sum"][()] > 0
        assert found["navi_model_calls_total"] == {
            of(purpose="turn", backend=backend, outcome="replied"): 3,
            of(purpose="turn", backend=backend, outcome="http"): 1,
        }
        assert found["navi_model_first_chunk_seconds_count"][()] == 3
        assert found["navi_model_tokens_total"] == {
            of(kind="prompt", model=MODEL): 350,
            of(kind="completion", model=MODEL): 12,
        }
        assert found["navi_tool_calls_total"] == {
            of(name="filesystem", outcome="ok"): 1,
            of(name="other", outcome="error"): 1,
        }
        assert found["navi_tool_seconds_count"][of(name="filesystem")] == 1
        assert found["navi_log_events_total"][()] == await world.log.head(session_id)
        assert 0 < found["navi_append_seconds_count"][()] <= found["navi_log_events_total"][()]


async def test_a_fork_inside_a_turn_is_no_turn_of_its_own(tmp_path: Path) -> None:
    world = World()
    async with ModelServer() as models, agent_node(world, tmp_path, [models.url]) as node:
        models.answer(calls(WRITE), Done())
        models.answer(Say("done"), Done())
        session_id = await node.session()
        await node.ask(session_id, "write it")
        before = samples(node.metrics)
        inside = await world.seen(session_id, "tool_finished")

        fork = (await node.fork_session(session_id, at=inside.seq)).session

        after = samples(node.metrics)
    assert (await world.events(fork.id))[-1].type == "turn_stopped"
    assert after["navi_turns_total"] == before["navi_turns_total"]
    assert after["navi_turn_seconds_count"] == before["navi_turn_seconds_count"]


async def test_each_event_is_counted_by_the_node_that_appended_it(tmp_path: Path) -> None:
    world = World()
    async with ModelServer() as models:
        async with agent_node(world, tmp_path, [models.url]) as first:
            never = asyncio.Event()
            models.answer(Say("half"), Stall(never))
            models.answer(Say("whole"), Done())
            session_id = await first.session()
            receipt = await first.say(session_id, "begin")
            await world.seen(session_id, "text_delta")
        await world.project()
        async with agent_node(world, tmp_path, [models.url]) as second:
            await second.take_over.poll()
            await second.outcome(session_id, receipt)

            one, two = samples(first.metrics), samples(second.metrics)

    events = one["navi_log_events_total"][()] + two["navi_log_events_total"][()]
    assert events == await world.log.head(session_id)
    assert one["navi_turns_total"][of(outcome="completed")] == 0
    assert two["navi_turns_total"][of(outcome="completed")] == 1
    assert "navi_model_calls_total" not in one
    # Which server was asked the other node's log says, not this one's memory.
    assert two["navi_model_calls_total"] == {
        of(purpose="turn", backend=f"ollama@{models.url}", outcome=outcome): 1
        for outcome in ("interrupted", "replied")
    }


class DoubtfulLog(InMemoryEventLog):
    """Stores what it is told to, or not, and then does not answer."""

    def __init__(self) -> None:
        super().__init__()
        self.stores: bool | None = None  # None: and answers

    async def append(self, batch: Append) -> tuple[Recorded, ...]:
        if self.stores is None:
            return await super().append(batch)
        if self.stores:
            await super().append(batch)
        raise LogUnavailable("no answer")


@pytest.mark.parametrize("stored", [True, False])
async def test_an_append_without_an_answer_counts_where_it_is_in_the_log(stored: bool) -> None:
    log, metrics = DoubtfulLog(), PrometheusMetrics(lambda _: True, node=NODE)
    record = await _record(log, metrics)
    await record.execute(CreateSession(profile_id="assistant", owner=LOCAL_OWNER))
    log.stores = stored
    with pytest.raises(LogUnavailable):
        await record.execute(RenameSession(name="in doubt", by="user"))
    assert samples(metrics)["navi_log_events_total"][()] == 1
    log.stores = None

    await record.execute(RenameSession(name="surely", by="user"))

    assert samples(metrics)["navi_log_events_total"][()] == await log.head(SESSION)


async def test_what_others_appended_is_not_counted() -> None:
    log = InMemoryEventLog()
    metrics, theirs = (PrometheusMetrics(lambda _: True, node=NODE) for _ in range(2))
    record = await _record(log, metrics)
    await record.execute(CreateSession(profile_id="assistant", owner=LOCAL_OWNER))
    other = await _record(log, theirs)
    await other.execute(RenameSession(name="theirs", by="user"))

    await record.refresh()

    assert samples(metrics)["navi_log_events_total"][()] == 1
    assert samples(theirs)["navi_log_events_total"][()] == 1


async def _record(log: InMemoryEventLog, metrics: Metrics) -> Record:
    ids = RandomIds()
    records = Records(
        log,
        InMemoryReadModels(),
        SystemClock(),
        ids,
        NodeId(ids.uuid()),
        Secrets(),
        metrics=metrics,
    )
    return await records.open(SESSION)


def test_the_names_and_labels_are_those_of_the_contract() -> None:
    found = {metric.name: metric.labels for metric in METRICS}

    assert found == {
        "navi_turns_total": ("outcome",),
        "navi_turn_seconds": (),
        "navi_turns_running": (),
        "navi_approvals_waiting": (),
        "navi_model_calls_total": ("purpose", "backend", "outcome"),
        "navi_model_first_chunk_seconds": (),
        "navi_model_tokens_total": ("kind", "model"),
        "navi_tool_calls_total": ("name", "outcome"),
        "navi_tool_seconds": ("name",),
        "navi_append_seconds": (),
        "navi_log_events_total": (),
        "navi_relay_lag_events": (),
        "navi_projection_lag_events": ("name",),
        "navi_sockets": (),
        "navi_node_info": ("node",),
    }


@pytest.mark.parametrize(
    "accept", ["text/plain;version=0.0.4", "application/openmetrics-text;version=1.0.0"]
)
def test_both_forms_have_exactly_these_metrics(accept: str) -> None:
    parse: Any = parse_text if accept.startswith("text/") else PARSE_OPENMETRICS
    page = PrometheusMetrics(lambda _: True, node=NODE).expose(NOTHING, accept=accept)

    families = {family.name for family in parse(page.body.decode())}
    assert page.content_type.startswith(accept.partition(";")[0])
    assert families == {metric.name.removesuffix("_total") for metric in METRICS}


def test_what_nobody_can_tell_has_no_sample() -> None:
    metrics = PrometheusMetrics(lambda _: True, node=NODE)
    metrics.hold_sockets(3)
    known = Gauges(
        turns_running=2, approvals_waiting=1, relay_lag=0, projection_lag={"sessions": 4}
    )

    before, after = samples(metrics, known), samples(metrics)

    gauges = ("navi_approvals_waiting", "navi_relay_lag_events", "navi_projection_lag_events")
    assert [before[name] for name in gauges] == [{(): 1}, {(): 0}, {of(name="sessions"): 4}]
    assert not any(name in after for name in gauges)
    assert (before["navi_turns_running"], after["navi_sockets"]) == ({(): 2}, {(): 3})


def test_of_several_processes_each_sample_says_which() -> None:
    metrics = PrometheusMetrics(lambda _: True, node=NODE, process=2)

    found = samples(metrics)

    assert found["navi_node_info"] == {of(node=NODE, process="2"): 1}
    assert all(("process", "2") in labels for values in found.values() for labels in values)


def test_a_label_has_only_so_many_values() -> None:
    bounded = Bounded(2)

    assert [bounded(name) for name in ("a", "b", "c", "a")] == ["a", "b", "other", "a"]
    assert len(Bounded(1)("x" * 1000)) == MAX_CHARACTERS


def test_a_turns_id_tells_when_it_began() -> None:
    clock = SystemClock()
    at = clock.now()
    began = TurnId(uuid7(milliseconds=int(at.timestamp() * 1000) - 1500, random=bytes(10)))

    assert seconds_since(began, at) == pytest.approx(1.5, abs=0.01)
    assert seconds_since(TurnId("f1"), at) is None
