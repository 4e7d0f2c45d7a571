"""Which cut points are tried: one pass over all event types and places, and many by chance."""

from collections.abc import Mapping
from itertools import zip_longest
from random import Random

from navi.failpoints import PLACES
from tests.chaos.run import Cut
from tests.chaos.scenarios import SCENARIOS

# No code appends them yet.
NOT_APPENDED = frozenset({"file_uploaded", "file_expired"})

# First of all, each on a database of its own: what a start does to an empty one.
MIGRATION_CUTS = (
    Cut("everyday", ("migrate.before_step", "migrate.after_step@2", "migrate.before_step")),
    Cut("everyday", ("migrate.after_step",)),
)

# What each scenario is cut off at, behind events and at places: each of them once.
ONCE: Mapping[str, tuple[str, ...]] = {
    "everyday": (
        "committed.session_created",
        "committed.user_message_received",
        "committed.turn_started",
        "committed.model_called",
        "committed.model_replied",
        "committed.turn_completed",
        "committed.memory_saved",
        "log.after_append@6",
        "relay.before_publish@3",
        "relay.after_publish@2",
        "projection.before_commit@6",
        "projection.after_commit@6",
    ),
    "planned": (
        "committed.planning_phase_completed",
        "committed.plan_ready",
        "committed.todo_updated",
        "committed.thinking_delta",
    ),
    "steered": (
        "committed.profile_switched",
        "committed.tool_started",
        "committed.stop_requested",
        "committed.turn_stopped",
        "committed.message_delivered@2",
    ),
    "subagents": (
        "committed.subagent_started",
        "committed.subagent_finished",
        "committed.thinking_ended",
    ),
    "compressed": (
        "committed.guidance_given",
        "committed.context_compressed",
        "committed.compression_undone",
        "committed.compression_failed",
        "compression.before_call",
    ),
    "failing": (
        "committed.text_delta",
        "committed.turn_failed",
        "committed.model_call_failed",
    ),
    "managed": (
        "committed.session_pinned",
        "committed.tool_finished",
        "committed.message_withdrawn",
        "committed.session_deleted",
        "committed.session_renamed",
    ),
    "forgotten": (
        "committed.memory_recalled",
        "committed.memory_forgotten",
    ),
}

AGAIN = (  # processes that die over what the one before left
    Cut("everyday", ("tool.running@2", "committed.turn_resumed")),
    Cut("everyday", (*("model.before_call",) * 3, "committed.turn_failed")),
)


def once() -> list[Cut]:
    """One pass: every event type and every place."""
    columns = [[Cut(scenario, (place,)) for place in places] for scenario, places in ONCE.items()]
    rows = zip_longest(*columns)  # neighbours are of different scenarios: see `Matrix`
    return [*MIGRATION_CUTS, *AGAIN, *(cut for row in rows for cut in row if cut is not None)]


_TALK = (
    *("session_created", "user_message_received", "turn_started", "message_delivered"),
    *("model_called", "text_delta", "model_replied", "turn_completed", "session_renamed"),
)
_TOOLS = ("tool_started", "tool_finished")
_THINKING = ("thinking_delta", "thinking_ended")

# What each scenario brings about.
KINDS: Mapping[str, tuple[str, ...]] = {
    "everyday": (*_TALK, *_THINKING, *_TOOLS, "todo_updated", "memory_saved"),
    "planned": (
        *(*_TALK, *_THINKING, *_TOOLS),
        *("planning_phase_completed", "plan_ready", "todo_updated"),
    ),
    "steered": (
        *(*_TALK, *_TOOLS, "profile_switched", "planning_phase_completed"),
        *("stop_requested", "model_call_failed", "turn_stopped"),
    ),
    "subagents": (*_TALK, *_THINKING, *_TOOLS, "subagent_started", "subagent_finished"),
    "compressed": (
        *(*_TALK, *_TOOLS, "guidance_given", "context_compressed"),
        *("compression_undone", "compression_failed"),
    ),
    "failing": (*_TALK, "model_call_failed", "turn_failed"),
    "managed": (
        *("session_created", "session_renamed", "session_pinned", "user_message_received"),
        *("turn_started", "message_delivered", "model_called", "model_replied", *_TOOLS),
        *("turn_stopped", "message_withdrawn", "session_deleted"),
    ),
    "forgotten": (*_TALK, "memory_recalled", "memory_forgotten"),
}

# How often each scenario brings about what can be cut, so that the n-th can be cut as well.
MAX_HITS = {
    **dict.fromkeys(("text_delta", "model_called", "model_replied"), 6),
    **dict.fromkeys(("tool_started", "tool_finished", "message_delivered"), 4),
    **dict.fromkeys(("planning_phase_completed", "subagent_started", "subagent_finished"), 3),
    **dict.fromkeys(("thinking_delta", "guidance_given", "turn_completed"), 2),
}
PLACE_HITS = 6
RECOVERED_AT = (
    "committed.turn_resumed",
    "committed.model_call_failed",
    "committed.tool_finished",
    "committed.model_called",
    "committed.model_replied",
    "committed.turn_completed",
    "log.before_append@2",
    "relay.before_publish",
    "projection.before_commit@2",
)
POISON = ("model.before_call", "model.chunk", "model.before_reply", "committed.model_called")


def many(random: Random) -> list[Cut]:
    """Every event type of every scenario, several of each, and what only chance finds, in any order.

    What a scenario does not come by is not reached, and reported as that.
    """
    cuts = [
        Cut(scenario, (f"committed.{kind}@{hit}",))
        for scenario, kinds in KINDS.items()
        for kind in kinds
        for hit in range(1, MAX_HITS.get(kind, 1) + 1)
    ]
    places = [place for place in PLACES if not place.startswith("migrate.")]
    scenarios = list(SCENARIOS)
    for place in places:
        for _ in range(4):
            hit = random.randint(1, PLACE_HITS)
            cuts.append(Cut(random.choice(scenarios), (f"{place}@{hit}",)))
    for _ in range(40):
        twice = (f"{random.choice(places)}@{random.randint(1, 3)}", random.choice(RECOVERED_AT))
        cuts.append(Cut(random.choice(scenarios), twice))
        cuts.append(Cut(random.choice(scenarios), (_moment(random),)))
    cuts += [Cut("everyday", (*(place,) * 3, "committed.turn_failed")) for place in POISON]
    random.shuffle(cuts)
    return [*MIGRATION_CUTS, *cuts]


def embedded(random: Random) -> list[Cut]:
    """Cuts that take navi's own Postgres and NATS along."""
    places = [place for place in ONCE["everyday"] if random.random() < 0.3]
    cuts = [Cut("everyday", (place,)) for place in places]
    cuts += [Cut(random.choice(list(SCENARIOS)), (_moment(random),)) for _ in range(4)]
    random.shuffle(cuts)
    return [*MIGRATION_CUTS[:1], *cuts]


def _moment(random: Random) -> str:
    """Some time after the scenario began."""
    return f"{random.uniform(0.0, 1.5):.3f} s"
