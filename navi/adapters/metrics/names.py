"""The metrics: names, labels, help texts, buckets. What is counted is counted by the node that did it.

Gauges of the whole service are the same on every node, so take their maximum and not their sum.
"""

from msgspec import Struct


class Metric(Struct, frozen=True):
    """A metric by the name under which it is queried, but for a histogram's suffixes."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


# A turn lasts from a second to an hour, a model's first chunk from 50 ms to the longest prefill.
TURN_BUCKETS = (0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
FIRST_CHUNK_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
TOOL_BUCKETS = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900)
APPEND_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)

TURNS = Metric("navi_turns_total", "Turns that ended, by how.", ("outcome",))
TURN_SECONDS = Metric(
    "navi_turn_seconds", "From the start of a turn to its end, waits included.", (), TURN_BUCKETS
)
TURNS_RUNNING = Metric("navi_turns_running", "Sessions that this node is running a turn of.")
APPROVALS_WAITING = Metric(
    "navi_approvals_waiting",
    "Tool calls of the whole service that wait for a person; absent while Postgres is away.",
)
MODEL_CALLS = Metric(
    "navi_model_calls_total",
    "Model calls that were answered or failed: 'replied', or the kind of failure.",
    ("purpose", "backend", "outcome"),
)
FIRST_CHUNK_SECONDS = Metric(
    "navi_model_first_chunk_seconds",
    "From the sending of a request to the first chunk of its answer.",
    (),
    FIRST_CHUNK_BUCKETS,
)
MODEL_TOKENS = Metric(
    "navi_model_tokens_total",
    "Tokens as model servers counted them; cached ones are among the prompt's.",
    ("kind", "model"),
)
TOOL_CALLS = Metric(
    "navi_tool_calls_total",
    "Tool calls by outcome; 'other' stands for tools that are not offered.",
    ("name", "outcome"),
)
TOOL_SECONDS = Metric("navi_tool_seconds", "How long tools ran.", ("name",), TOOL_BUCKETS)
APPEND_SECONDS = Metric(
    "navi_append_seconds",
    "From asking for an append to its commit, tries while Postgres was away included.",
    (),
    APPEND_BUCKETS,
)
LOG_EVENTS = Metric("navi_log_events_total", "Events that this node appended to the log.")
RELAY_LAG = Metric(
    "navi_relay_lag_events",
    "Events of the log that NATS does not have yet; absent while Postgres is away, or before"
    " NATS has said where its streams end.",
)
PROJECTION_LAG = Metric(
    "navi_projection_lag_events",
    "Events of the log that a read model does not have yet; absent while Postgres is away.",
    ("name",),
)
SOCKETS = Metric("navi_sockets", "WebSockets that this node holds.")
NODE = Metric("navi_node_info", "The node that answers; its id is that in events.", ("node",))

METRICS = (
    TURNS,
    TURN_SECONDS,
    TURNS_RUNNING,
    APPROVALS_WAITING,
    MODEL_CALLS,
    FIRST_CHUNK_SECONDS,
    MODEL_TOKENS,
    TOOL_CALLS,
    TOOL_SECONDS,
    APPEND_SECONDS,
    LOG_EVENTS,
    RELAY_LAG,
    PROJECTION_LAG,
    SOCKETS,
    NODE,
)
