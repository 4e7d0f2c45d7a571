"""What a tool may do to its agent: spawn a subagent, switch the profile, show a picture."""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from navi.application.agent.model_calls.call_bounds import NoRoom
from navi.application.agent.model_calls.recorders import InTurn
from navi.application.agent.run_tool import WaitsForApproval
from navi.application.agent.running_turn import RunningTurn
from navi.domain.session.commands import Completed, EndSubagent, Failed, Stopped, SwitchProfile
from navi.domain.session.turn import Finish, WaitForApproval, why_not_spawn
from navi.domain.vocabulary.errors import ModelFailure
from navi.domain.vocabulary.events import SubagentFinished, SubagentStarted
from navi.domain.vocabulary.ids import CallId, SubagentId
from navi.ports.pictures import NotShown
from navi.ports.tools import ToolResult

# What subagents come to stands in logs, where reruns read it: to change it parts them from old ones.
WITHOUT_MODEL = "It had no model to ask: "
WITHOUT_ROOM = "It had no room to go on: "
_NOT_DONE = re.compile(r"\AIt was not done after ([0-9.e+]+) s\.\Z")

RunActor = Callable[
    [RunningTurn, SubagentId, asyncio.Event], Awaitable[Finish | WaitForApproval | None]
]


def not_done_after(seconds: float) -> str:
    """What a subagent comes to whose time was up."""
    return f"It was not done after {seconds:g} s."


def seconds_it_had(result: str) -> float | None:
    """The seconds of a subagent whose time was up, by what it came to; None where it ended otherwise."""
    found = _NOT_DONE.match(result)
    return None if found is None else float(found[1])


class Actions:
    """The port ``AgentActions`` for one tool call."""

    def __init__(
        self,
        run: RunningTurn,
        recorder: InTurn,
        call_id: CallId,
        run_actor: RunActor,
        models: tuple[str, ...],
    ) -> None:
        """Actions of the actor that made the call.

        Args:
            models: the actor's, in order of preference.
        """
        self._models = models
        self._run = run
        self._recorder = recorder
        self._call_id = call_id
        self._run_actor = run_actor

    async def spawn(self, task: str, profile_id: str | None) -> ToolResult:
        """Run a subagent on a task, or resume the one that this call has spawned before a crash."""
        turn = self._run.record.session.turn
        assert turn is not None  # noqa: S101 - a tool runs in a turn
        returned = turn.returned.get(self._call_id)
        if returned is not None:
            return _answer(returned)
        subagent_id = turn.subagent_of(self._call_id)
        if subagent_id is None:
            parent = self._recorder.subagent_id
            refusal = why_not_spawn(turn, parent) or await self._unknown(profile_id)
            if refusal is not None:
                return ToolResult(outcome="denied", output=refusal)
            own = turn.actor(parent).profile_id or self._run.record.session.profile_id
            subagent_id = SubagentId(f"subagent_{self._run.agent.ids.hex12()}")
            started = SubagentStarted(
                call_id=self._call_id, profile_id=profile_id or own, task=task
            )
            await self._as(subagent_id)(started)
        return await self._work(subagent_id)

    async def switch_profile(self, profile_id: str, reason: str) -> ToolResult:
        """Switch the profile from the next model call on."""
        if self._recorder.subagent_id is not None:
            return ToolResult(outcome="denied", output="A subagent keeps its profile.")
        refusal = await self._unknown(profile_id)
        if refusal is not None:
            return ToolResult(outcome="error", output=refusal)
        command = SwitchProfile(to_profile=profile_id, by="tool", reason=reason)
        await self._run.record.execute(command, retry=True)
        return ToolResult(outcome="ok", output=f"From the next step on you are {profile_id!r}.")

    async def show_picture(self, path: str) -> ToolResult:
        """Put a picture of the session's directory before the model, from its next call on."""
        if not await self._run.agent.ask_model.sees(self._models):
            return ToolResult(outcome="error", output="You are a model that does not see pictures.")
        try:
            shown = await self._run.agent.show_picture(self._recorder, path, call_id=self._call_id)
        except NotShown as error:
            return ToolResult(outcome="denied" if error.forbidden else "error", output=str(error))
        if shown is None:
            return ToolResult(outcome="unknown", output="The turn was stopped.")
        size = f"{shown.width} x {shown.height} pixels"
        return ToolResult(outcome="ok", output=f"{path} follows ({size}, {shown.media_type}).")

    def _as(self, subagent_id: SubagentId) -> InTurn:
        return InTurn(self._run.record, self._run.runner, subagent_id)

    async def _work(self, subagent_id: SubagentId) -> ToolResult:
        """Run the subagent until it ends or its time is up.

        Raises:
            WaitsForApproval: it can do nothing until a person decides; the call stays open.
        """
        stopped = self._recorder.halt
        try:
            async with _halting(stopped, seconds=self._seconds_left(subagent_id)) as halt:
                step = await self._run_actor(self._run, subagent_id, halt)
        except NoRoom as error:
            return await self._end(subagent_id, f"{WITHOUT_ROOM}{error.error}")
        except ModelFailure as error:
            return await self._end(subagent_id, f"{WITHOUT_MODEL}{error.error}")
        if step is None and halt.is_set() and not stopped.is_set():
            seconds = self._run.agent.subagent_seconds
            return await self._end(subagent_id, not_done_after(seconds))
        if isinstance(step, WaitForApproval):
            raise WaitsForApproval
        match None if step is None else step.ending:
            case None | Stopped():
                return ToolResult(outcome="unknown", output="The subagent was stopped.")
            case Completed(limit_reached=limit_reached):
                return await self._end(subagent_id, "", completed=not limit_reached)
            case Failed(error=error):
                return await self._end(subagent_id, error)

    def _seconds_left(self, subagent_id: SubagentId) -> float:
        """Seconds until its deadline, which does not wait while no process runs it."""
        turn, whole = self._run.record.session.turn, self._run.agent.subagent_seconds
        began = turn.actor(subagent_id).began if turn is not None else None
        if began is None:
            return whole
        # `began` may be of another machine, whose clock is ahead.
        return min(whole, whole - (self._run.agent.clock.now() - began).total_seconds())

    async def _end(
        self, subagent_id: SubagentId, error: str, *, completed: bool = False
    ) -> ToolResult:
        turn = self._run.record.session.turn
        answer = turn.actor(subagent_id).answer if turn is not None else ""
        command = EndSubagent(
            runner=self._run.runner,
            subagent_id=subagent_id,
            result=answer or error,
            completed_normally=completed,
            partial_replies=self._run.partial_replies,
        )
        rows = await self._run.record.execute(command, retry=True)
        finished = rows[-1].envelope.event
        assert isinstance(finished, SubagentFinished)  # noqa: S101 - what the command ends with
        return _answer(finished)

    async def _unknown(self, profile_id: str | None) -> str | None:
        if profile_id is None or await self._run.agent.profiles.files.get(profile_id) is not None:
            return None
        ids = ", ".join(entry.id for entry in await self._run.agent.profiles.files.all())
        return f"There is no profile {profile_id!r}. There are: {ids}."


@asynccontextmanager
async def _halting(parent: asyncio.Event, *, seconds: float) -> AsyncGenerator[asyncio.Event, None]:
    """An event that is set after ``seconds``, or as soon as ``parent`` is."""
    halt = asyncio.Event()
    if seconds <= 0:
        halt.set()
    timer = asyncio.get_running_loop().call_later(max(0.0, seconds), halt.set)
    following = asyncio.create_task(_follow(parent, halt))
    try:
        yield halt
    finally:
        timer.cancel()
        following.cancel()
        await asyncio.wait({following})


async def _follow(parent: asyncio.Event, halt: asyncio.Event) -> None:
    await parent.wait()
    halt.set()


def _answer(finished: SubagentFinished) -> ToolResult:
    if finished.completed_normally:
        return ToolResult(outcome="ok", output=finished.result)
    remark = "The subagent did not come to its end; this is what it has:"
    return ToolResult(outcome="ok", output=f"{remark}\n\n{finished.result}")
