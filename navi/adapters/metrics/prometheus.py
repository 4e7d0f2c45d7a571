"""The metrics of a process, kept and written by prometheus-client in a registry of its own."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric as PrometheusFamily
from prometheus_client.registry import Collector

from navi.adapters.metrics import names
from navi.adapters.metrics.labels import OTHER, Bounded, seconds_since
from navi.adapters.metrics.names import Metric
from navi.domain.session.fork import is_cut_by_fork
from navi.domain.session.session import Session
from navi.domain.vocabulary.events import (
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    ToolFinished,
    TurnCompleted,
    TurnFailed,
    TurnStopped,
    Usage,
)
from navi.domain.vocabulary.ids import CallId, NodeId, SubagentId
from navi.ports.event_log import Recorded
from navi.ports.metrics import Exposition, Gauges

OUTCOMES: Mapping[str, str] = {
    TurnCompleted.TYPE: "completed",
    TurnStopped.TYPE: "stopped",
    TurnFailed.TYPE: "failed",
}
COUNTED = frozenset(
    (*OUTCOMES, ModelCalled.TYPE, ModelReplied.TYPE, ModelCallFailed.TYPE, ToolFinished.TYPE)
)
RAN = ("ok", "error", "unknown")  # outcomes of tools that were run
MAX_MODELS = MAX_BACKENDS = 50
MAX_TOOLS = 200
MAX_OPEN_CALLS = 10_000  # an answer that another node gave is not seen here
UNKNOWN = "unknown"  # server or model of a call whose beginning this process has not seen

Family = TypeVar("Family", bound=MetricWrapperBase)

# Each counter would have a companion with the moment of its creation, which nobody queries.
prometheus_client.disable_created_metrics()


class PrometheusMetrics:
    """``Metrics``; several may live in one process.

    Args:
        is_offered: whether there is a tool of that name.
        node: whose metrics they are.
        process: its number where it shares a port with others: then a label of all samples, since any
            of them may answer a scrape.
    """

    def __init__(
        self, is_offered: Callable[[str], bool], *, node: NodeId, process: int | None = None
    ) -> None:
        self._is_offered = is_offered
        self._registry = CollectorRegistry(auto_describe=False)
        self._shown = self._registry if process is None else _Labelled(self._registry, process)
        self._gauges = _Gauges(node)
        self._registry.register(self._gauges)
        self._turns = self._made(Counter, names.TURNS)
        self._turn_seconds = self._histogram(names.TURN_SECONDS)
        self._model_calls = self._made(Counter, names.MODEL_CALLS)
        self._first_chunk = self._histogram(names.FIRST_CHUNK_SECONDS)
        self._tokens = self._made(Counter, names.MODEL_TOKENS)
        self._tool_calls = self._made(Counter, names.TOOL_CALLS)
        self._tool_seconds = self._histogram(names.TOOL_SECONDS)
        self._append_seconds = self._histogram(names.APPEND_SECONDS)
        self._events = self._made(Counter, names.LOG_EVENTS)
        self._models, self._backends = Bounded(MAX_MODELS), Bounded(MAX_BACKENDS)
        self._tools = Bounded(MAX_TOOLS)
        self._open: dict[CallId, tuple[str, str, str]] = {}  # purpose, backend and model
        for outcome in OUTCOMES.values():
            self._turns.labels(outcome)  # there before the first, so that the first is an increase

    # --- what is told ---

    def appended(self, *, seconds: float) -> None:
        self._append_seconds.observe(seconds)

    @property
    def sockets(self) -> int:
        return self._gauges.sockets

    def hold_sockets(self, count: int) -> None:
        self._gauges.sockets = count

    def folded(self, row: Recorded, before: Session, *, own: bool) -> None:
        if own:
            self._events.inc()
        if row.type not in COUNTED:
            return
        match row.readable:
            case ModelCalled() as event:
                self._begin(event)
            case ModelReplied() as event:
                purpose, backend, model = self._begun(row.subagent_id, event.call_id, before)
                if own:
                    self._model_calls.labels(purpose, self._backends(backend), "replied").inc()
                    self._count_tokens(self._models(model), event.usage)
                    if event.first_chunk_ms is not None:
                        self._first_chunk.observe(event.first_chunk_ms / 1000)
            case ModelCallFailed() as event:
                purpose, backend, _ = self._begun(row.subagent_id, event.call_id, before)
                if own:
                    self._model_calls.labels(purpose, self._backends(backend), event.kind).inc()
            case ToolFinished() as event if own:
                self._count_tool(event)
            case TurnStopped() as event if is_cut_by_fork(event):
                pass  # counted in the origin
            case TurnCompleted() | TurnStopped() | TurnFailed() if own and row.turn_id is not None:
                self._turns.labels(OUTCOMES[row.type]).inc()
                seconds = seconds_since(row.turn_id, row.at)
                if seconds is not None:
                    self._turn_seconds.observe(seconds)
            case _:
                pass

    # --- what is asked ---

    def expose(self, gauges: Gauges, *, accept: str) -> Exposition:
        self._gauges.present = gauges
        encode, content_type = choose_encoder(accept)
        return Exposition(content_type=content_type, body=encode(self._shown))

    # --- inside ---

    def _begin(self, event: ModelCalled) -> None:
        self._open[event.call_id] = (event.purpose, event.backend, event.model)
        if len(self._open) > MAX_OPEN_CALLS:
            del self._open[next(iter(self._open))]

    def _begun(
        self, subagent_id: SubagentId | None, call_id: CallId, before: Session
    ) -> tuple[str, str, str]:
        """Purpose, server and model of a call: as it began, or as the session's state knows it."""
        found = self._open.pop(call_id, None)
        if found is not None:
            return found
        call = None if before.turn is None else before.turn.actor(subagent_id).call
        if call is not None and call.id == call_id:
            return call.purpose, call.backend, call.model
        purposes = {aside.id: aside.purpose for aside in before.asides}
        return purposes.get(call_id, UNKNOWN), UNKNOWN, UNKNOWN

    def _count_tokens(self, model: str, usage: Usage) -> None:
        cached = usage.cached_tokens
        counts = {
            "prompt": usage.prompt_tokens,
            "completion": usage.completion_tokens,
            "cached": cached if isinstance(cached, int) else None,
        }
        for kind, count in counts.items():
            if count:
                self._tokens.labels(kind, model).inc(max(0, count))

    def _count_tool(self, event: ToolFinished) -> None:
        # A model may ask for any name at all.
        name = self._tools(event.name) if self._is_offered(event.name) else OTHER
        self._tool_calls.labels(name, event.outcome).inc()
        if event.outcome in RAN:
            self._tool_seconds.labels(name).observe(event.duration_ms / 1000)

    def _made(self, family: type[Family], metric: Metric) -> Family:
        return family(metric.name, metric.help, metric.labels, registry=self._registry)

    def _histogram(self, metric: Metric) -> Histogram:
        return Histogram(
            metric.name,
            metric.help,
            metric.labels,
            buckets=metric.buckets,
            registry=self._registry,
        )


class _Gauges(Collector):
    """What is so at the moment; what nobody can tell has no sample."""

    def __init__(self, node: NodeId) -> None:
        self._node = node
        self.sockets = 0
        self.present = Gauges(
            turns_running=0, approvals_waiting=None, relay_lag=None, projection_lag=None
        )

    def collect(self) -> Iterable[GaugeMetricFamily]:
        yield _gauge(names.TURNS_RUNNING, self.present.turns_running)
        yield _gauge(names.APPROVALS_WAITING, self.present.approvals_waiting)
        yield _gauge(names.RELAY_LAG, self.present.relay_lag)
        yield _gauge(names.SOCKETS, self.sockets)
        node = GaugeMetricFamily(names.NODE.name, names.NODE.help, labels=names.NODE.labels)
        node.add_metric([self._node], 1)
        yield node
        metric = names.PROJECTION_LAG
        lags = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
        for name, lag in (self.present.projection_lag or {}).items():
            lags.add_metric([name], lag)
        yield lags


class _Labelled(CollectorRegistry):
    """A registry whose samples all say which process they are of."""

    def __init__(self, registry: CollectorRegistry, process: int) -> None:
        super().__init__(auto_describe=False)
        self._registry = registry
        self._label = {"process": str(process)}

    def collect(self) -> Iterable[PrometheusFamily]:
        for family in self._registry.collect():
            family.samples = [
                sample._replace(labels={**sample.labels, **self._label})
                for sample in family.samples
            ]
            yield family


def _gauge(metric: Metric, value: int | None) -> GaugeMetricFamily:
    family = GaugeMetricFamily(metric.name, metric.help)
    if value is not None:
        family.add_metric([], value)
    return family
