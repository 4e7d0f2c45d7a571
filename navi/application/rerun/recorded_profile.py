"""Profiles of a recording: as its calls have logged them, by hash.

Logs of before do not: there they are inferred from their effects.
"""

import re
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from navi.application.rerun.gate import Gate
from navi.application.rerun.recorded_tools import (
    FOLLOWS,
    TOOL_CALL,
    actor_here,
    offered,
    planned_with,
)
from navi.domain.agent.guidance import Progress, evolve_progress
from navi.domain.agent.profile import Profile, logged_profile
from navi.domain.context.prompt import PERSONA, SEPARATOR
from navi.domain.reading.recording import RecordedCall, Recording
from navi.domain.vocabulary.events import (
    BudgetReached,
    CompressionFailed,
    ContextCompressed,
    Envelope,
    GuidanceGiven,
    MemoryRecalled,
    MessageDelivered,
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    PlanningPhaseCompleted,
    PlanReady,
    SubagentFinished,
    SubagentStarted,
    TextDelta,
    ThinkingDelta,
    ThinkingEnded,
    TodoUpdated,
    ToolFinished,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    TurnStopped,
)
from navi.domain.vocabulary.ids import SubagentId, TurnId
from navi.ports.profiles import ProfileEntry

NO_LIMIT = 1_000  # iterations: the most that a profile may allow
NO_PROFILE = "There is no profile"

_BUDGET = re.compile(r"\AAll (\d+) iterations|iterations? remains? of (\d+)|: \d+ of (\d+) remain")
_BY_THE_LOOP = (
    ModelCalled
    | ModelReplied
    | ModelCallFailed
    | ThinkingDelta
    | ThinkingEnded
    | TextDelta
    | ToolStarted
    | ToolFinished
    | TodoUpdated
    | SubagentStarted
    | SubagentFinished
    | PlanningPhaseCompleted
    | PlanReady
    | GuidanceGiven
    | BudgetReached
    | ContextCompressed
    | CompressionFailed
    | MemoryRecalled
    | MessageDelivered
    | TurnStarted
    | TurnCompleted
    | TurnStopped
    | TurnFailed
)


def next_event(recording: Recording, after: int, subagent_id: SubagentId | None) -> Envelope | None:
    """The next event that an actor's loop decided."""
    for envelope in recording.after(after):
        own = envelope.subagent_id == subagent_id and isinstance(envelope.event, _BY_THE_LOOP)
        if own and not recording.is_beside(envelope.seq):
            return envelope
    return None


def profile_in(recording: Recording, call: RecordedCall | None) -> Profile | None:
    """The profile that a call was made with; None where the log does not say."""
    if call is None:
        return None
    text = recording.texts.get(call.called.profile_sha256 or "")
    return None if text is None else logged_profile(text)


class BesideProfiles:
    """The port ``Profiles`` for what follows a turn: what the next call beside the turns was made by."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def get(self, profile_id: str) -> Profile | None:
        del profile_id
        recording = self._gate.recording
        call = recording.next_aside(self._gate.seq, FOLLOWS)
        logged = profile_in(recording, call)
        if logged is not None:
            return logged
        return Profile(
            system_prompt=_instructions_in(_system_of(recording, call)),
            enabled_tools=tuple(tool.name for tool in offered(recording, call)),
        )

    async def all(self) -> Sequence[ProfileEntry]:
        return ()


class OutsideProfiles:
    """The port ``Profiles`` for what people do: there is a profile of every name."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def get(self, profile_id: str) -> Profile | None:
        del profile_id
        return Profile(planning_enabled=_plans(self._gate.recording, self._gate.seq))

    async def all(self) -> Sequence[ProfileEntry]:
        return ()


class RecordedProfiles:
    """The port ``Profiles`` for the agent's loop.

    A step of the loop begins with reading the profile: that is held until the recording is at the
    moment at which the step was decided.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def get(self, profile_id: str) -> Profile | None:
        """The profile that explains what the actor of this task does next."""
        recording, current = self._gate.recording, TOOL_CALL.get()
        actor = actor_here(recording)
        if current is not None and actor is None:  # a tool asks whether there is such a profile
            answer = recording.answer(current.id)
            known = answer is None or not answer.output.startswith(f"{NO_PROFILE} {profile_id!r}")
            return Profile() if known else None
        await self._until_decided(actor)
        return self._profile(actor)

    async def all(self) -> Sequence[ProfileEntry]:
        """The profiles that a planning request or a tool names."""
        recording, current = self._gate.recording, TOOL_CALL.get()
        actor = actor_here(recording)
        if current is not None and actor is None:
            answer = recording.answer(current.id)
            _, _, named = ("" if answer is None else answer.output).partition("There are: ")
            ids = named.rstrip(".").split(", ")
            return [_entry(profile_id, "") for profile_id in ids if profile_id]
        call = recording.next_call(self._gate.seq, actor)
        told = {} if call is None else planned_with(recording, call)
        return [_entry(profile_id, text) for profile_id, text in told.items()]

    async def _until_decided(self, actor: SubagentId | None) -> None:
        gate, recording = self._gate, self._gate.recording
        coming = next_event(recording, gate.seq, actor)
        if coming is None:
            await gate.hold(recording.last + 1)
            return
        at = recording.batch_start(coming.seq) - 1
        if isinstance(coming.event, ModelCalled) and coming.event.context_seq:
            at = coming.event.context_seq
        await gate.hold(at)

    def _made_by(self, coming: Envelope | None, actor: SubagentId | None) -> RecordedCall | None:
        """The call whose profile was in force when a step was decided.

        Before a call it is that of the call; what follows from a reply was decided by the profile as
        it was then read, of which the reply's own is the nearest that is logged.
        """
        recording, seq = self._gate.recording, self._gate.seq
        own = [c for c in recording.calls if not c.aside and c.subagent_id == actor]
        ahead = next((c for c in own if c.seq > seq), None)
        behind = next((c for c in reversed(own) if c.seq <= seq), None)
        answers = isinstance(
            None if coming is None else coming.event,
            ToolStarted
            | ToolFinished
            | TurnCompleted
            | TurnFailed
            | TurnStopped
            | SubagentFinished,
        )
        return (behind or ahead) if answers else (ahead or behind)

    def _profile(self, actor: SubagentId | None) -> Profile:
        gate, recording = self._gate, self._gate.recording
        coming = next_event(recording, gate.seq, actor)
        turn_id = None if coming is None else coming.turn_id
        asks = coming is not None and isinstance(coming.event, ModelCalled)
        opens = coming is not None and isinstance(coming.event, TurnStarted)
        ahead, behind = recording.next_call(gate.seq, actor), recording.last_call(gate.seq, actor)
        call = ahead if asks else behind or ahead
        logged = profile_in(recording, self._made_by(coming, actor))
        if logged is not None:
            plans = _plans(recording, gate.seq) if opens else logged.planning_enabled
            return replace(logged, planning_enabled=plans)
        tools = offered(recording, call)
        turn = _turn_call(recording, gate.seq, actor) or behind
        options = {} if turn is None else turn.called.options
        purposes = {c.called.purpose for c in _calls_of(recording, turn_id, actor)}
        return replace(
            _guided(recording, turn_id, actor),
            temperature=options.get("temperature"),
            num_ctx=options.get("num_ctx"),
            system_prompt=_instructions(recording, gate.seq, actor),
            enabled_tools=tuple(tool.name for tool in tools),
            planning_enabled=_plans(recording, gate.seq),
            planning_phase2_enabled="review" in purposes,
            subagent_planning_enabled="planning" in purposes,
        )


def _entry(profile_id: str, description: str) -> ProfileEntry:
    return ProfileEntry(id=profile_id, profile=Profile(description=description), source="recording")


def _plans(recording: Recording, after: int) -> bool:
    """Whether the next turn plans."""
    for envelope in recording.after(after):
        if isinstance(envelope.event, TurnStarted):
            return envelope.event.planning
    return False


def _calls_of(
    recording: Recording, turn_id: TurnId | None, actor: SubagentId | None
) -> Iterable[RecordedCall]:
    for call in recording.calls:
        own = not call.aside and call.subagent_id == actor
        if own and recording.at(call.seq).turn_id == turn_id:
            yield call


def _turn_call(recording: Recording, after: int, actor: SubagentId | None) -> RecordedCall | None:
    """The next call of an actor for a turn, which shows its profile's options."""
    for call in recording.calls:
        own = not call.aside and call.subagent_id == actor and call.called.purpose == "turn"
        if call.seq > after and own:
            return call
    return None


def _instructions(recording: Recording, after: int, actor: SubagentId | None) -> str:
    """The profile's part of the system message of an actor's next call."""
    call = next(
        (
            c
            for c in recording.calls
            if c.seq > after and not c.aside and c.subagent_id == actor and c.called.system_sha256
        ),
        None,
    )
    return _instructions_in(_system_of(recording, call))


def _system_of(recording: Recording, call: RecordedCall | None) -> str:
    return "" if call is None else recording.texts.get(call.called.system_sha256 or "", "")


def _instructions_in(system: str) -> str:
    """The profile's part of a system message."""
    if system.startswith(PERSONA):
        return system.removeprefix(PERSONA).removeprefix(SEPARATOR)
    return system.partition(SEPARATOR)[2]


def _guided(recording: Recording, turn_id: TurnId | None, actor: SubagentId | None) -> Profile:
    """A profile that gives the recorded guidance and the recorded number of iterations.

    What was never said may as well have been switched off.
    """
    said: dict[str, tuple[int, str]] = {}
    limit, iterations, stalled_for, progress = None, 0, None, Progress()
    begun = False
    for envelope in recording.envelopes:
        begun = begun or envelope.turn_id == turn_id
        if not begun and isinstance(envelope.event, TodoUpdated):  # what an earlier turn has left
            progress = evolve_progress(progress, envelope.event, iterations=0)
        if envelope.turn_id != turn_id:
            continue
        own = envelope.subagent_id == actor
        match envelope.event:
            case GuidanceGiven(kind=kind, content=content) if own:
                if kind == "anti_stall" and stalled_for is None:
                    stalled_for = iterations - progress.progressed_at
                said.setdefault(kind, (iterations, content))
            case ModelCalled(purpose="turn", iteration=iteration, tools_sha256=tools) if own:
                if tools is None and iteration > 1 and limit is None and iterations:
                    limit = iteration - 1
                iterations = iteration
            case event:
                progress = evolve_progress(progress, event, iterations=iterations)
    budget = said.get("iteration_budget")
    if budget is not None and (found := _BUDGET.search(budget[1])) is not None:
        limit = int(next(filter(None, found.groups())))
    return Profile(
        max_iterations=limit or NO_LIMIT,
        iteration_budget_enabled=budget is not None,
        goal_anchoring_enabled="goal_anchor" in said,
        goal_anchoring_interval=max(1, said.get("goal_anchor", (1, ""))[0]),
        anti_stall_enabled="anti_stall" in said,
        anti_stall_threshold=max(2, stalled_for or 2),
        adaptive_replan_enabled="replan" in said,
    )
