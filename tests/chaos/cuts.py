"""Which cut points are tried: one pass over all event types and places, and many by chance."""

from collections.abc import Mapping
from itertools import zip_longest
from random import Random

from navi.failpoints import PLACES
from tests.chaos.run import Cut
from tests.chaos.scenarios import SCENARIOS

# What is cut around them is on disk: tests/e2e/test_uploads.py.
ON_DISK = frozenset({"file_uploaded", "file_expired", "model_waiting"})
# One append by itself in a stream of its own, with no turn around it that would have to go on.
AUDITED = frozenset(
    {
        "login_succeeded",
        "login_failed",
        "logged_out",
        "token_created",
        "token_revoked",
        "user_created",
        "user_changed",
        "session_read",
        "session_exported",
        "session_erased",
        "log_restored",
    }
)
CUT_ELSEWHERE = ON_DISK | AUDITED

# A command appends it, which is killed in the server's place.
BY_COMMAND = frozenset({"content_erased"})
ERASING = (
    *(place for place in PLACES if place.startswith("erase.")),
    *(f"committed.{kind}" for kind in sorted(BY_COMMAND)),
)

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
        "tool.before_finish",
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
    "approved": (
        "committed.approval_requested",
        "committed.approval_decided",
        "committed.approval_decided@2",
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
    "metered": ("committed.budget_reached",),
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
    "served": (
        "committed.tool_allowed",
        "committed.tool_output_delta@2",
    ),
    "seen": ("committed.image_shown",),
    "through_a_door": ("committed.conversation_taken_in", "committed.conversation_taken_in@2"),
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


# How often each scenario brings about what, at the least: so that the n-th can be cut as well.
TIMES: Mapping[str, str] = {
    "everyday": """session_created user_message_received turn_started message_delivered
        model_called*4 thinking_delta*2 thinking_ended text_delta*3 model_replied*4 tool_started*4
        tool_finished*4 todo_updated turn_completed session_renamed memory_saved""",
    "planned": """session_created user_message_received turn_started message_delivered
        model_called*6 model_replied*6 planning_phase_completed*3 plan_ready todo_updated
        thinking_delta thinking_ended tool_started tool_finished text_delta*2 turn_completed
        session_renamed""",
    "steered": """session_created user_message_received*3 turn_started*2 message_delivered*3
        model_called*5 model_replied*4 tool_started*3 tool_finished*3 profile_switched*2 text_delta
        turn_completed planning_phase_completed stop_requested model_call_failed turn_stopped""",
    "subagents": """session_created user_message_received turn_started message_delivered
        model_called*8 model_replied*8 tool_started*5 tool_finished*5 subagent_started*3
        subagent_finished*3 thinking_delta thinking_ended text_delta*4 turn_completed""",
    "approved": """session_created user_message_received turn_started message_delivered
        model_called*2 model_replied*2 approval_requested*2 approval_decided*2 tool_started
        tool_finished*2 text_delta turn_completed""",
    "compressed": """session_created user_message_received*7 turn_started*7 message_delivered*7
        model_called*9 model_replied*9 text_delta*7 turn_completed*7 tool_started*5 tool_finished*5
        guidance_given*4 context_compressed*2 compression_undone compression_failed*2""",
    "failing": """session_created user_message_received*2 turn_started*2 message_delivered*2
        model_called*3 text_delta*2 model_replied model_call_failed*2 turn_completed turn_failed""",
    "metered": """session_created user_message_received turn_started message_delivered
        model_called model_replied tool_started tool_finished budget_reached turn_failed""",
    "managed": """session_created session_renamed session_pinned*2 user_message_received*2
        turn_started message_delivered model_called model_replied tool_started tool_finished
        turn_stopped message_withdrawn session_deleted""",
    "forgotten": """session_created user_message_received turn_started message_delivered
        memory_recalled model_called*2 text_delta model_replied*2 turn_completed
        memory_forgotten""",
    "served": """session_created user_message_received turn_started message_delivered model_called*2
        model_replied*2 tool_started tool_allowed tool_output_delta*2 tool_finished text_delta
        turn_completed""",
    "seen": """session_created user_message_received turn_started message_delivered model_called*2
        model_replied*2 tool_started image_shown tool_finished text_delta turn_completed""",
    "through_a_door": """session_created conversation_taken_in*2 user_message_received*2
        turn_started*2 message_delivered*2 model_called*2 text_delta*2 model_replied*2
        turn_completed*2""",
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
        for scenario, kinds in TIMES.items()
        for kind, _, times in (word.partition("*") for word in kinds.split())
        for hit in range(1, int(times or 1) + 1)
    ]
    places = [place for place in PLACES if not place.startswith(("migrate.", "erase."))]
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
