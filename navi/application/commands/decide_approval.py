"""Decide on tool calls that wait for a person; any node may."""

import asyncio

from msgspec.structs import replace

from navi.application.agent.find_tool import find_tool
from navi.application.agent.policy import Policy
from navi.application.agent.session_runs import SessionRuns
from navi.application.session.find_session import conversation
from navi.application.session.record import Record, Records
from navi.domain.agent.approvals import Deny
from navi.domain.session.commands import DecideApproval
from navi.domain.session.turn import ToolRun
from navi.domain.vocabulary.errors import AlreadyDecided, BadInput, NothingToDecide
from navi.domain.vocabulary.events import ApprovalDecided, ApprovalRequested
from navi.domain.vocabulary.ids import CallId, SessionId, SubagentId
from navi.ports.event_log import FACTS, EventLog, Recorded
from navi.ports.tools import ToolBox


class ApprovalDecider:
    """Decides on tool calls, and lets this process go on with the turn that waited."""

    def __init__(
        self,
        event_log: EventLog,
        records: Records,
        runs: SessionRuns,
        tools: ToolBox,
        policy: Policy,
    ) -> None:
        self._log = event_log
        self._records = records
        self._runs = runs
        self._tools = tools
        self._policy = policy

    async def __call__(self, session_id: SessionId, command: DecideApproval) -> int:
        """The seq of the decision.

        Raises:
            NotFound: no such session, or no such call was asked about.
            AlreadyDecided: somebody else was first.
            BadInput: the arguments in place of the model's do not fit, or a rule forbids them.
        """
        record = await conversation(self._records, session_id)
        if command.arguments is not None:
            await self._check(record, command)
        try:
            rows = await record.execute(command)
        except NothingToDecide:
            await self._refuse_twice(record, command.call_id)
            raise
        self._runs.wake(session_id)
        return next(row.seq for row in rows if _names(row, ApprovalDecided, command.call_id))

    async def _check(self, record: Record, command: DecideApproval) -> None:
        """Refuse arguments that the model could not have called the tool with."""
        turn, arguments = record.session.turn, command.arguments or {}
        name, run = turn.undecided(command.call_id) if turn is not None else ("", None)
        if run is None:
            return  # as any decision on it is refused
        await self._tools.look()  # nobody else may have since it was asked about
        tool = await find_tool(self._tools, run.call.name, asyncio.Event())
        if tool is None:
            raise BadInput("arguments", f"there is no tool {run.call.name!r} any more")
        if (complaint := tool.check(arguments)) is not None:
            raise BadInput("arguments", complaint)
        edited = ToolRun(call=replace(run.call, arguments=arguments))
        verdict = await self._policy.verdict(
            record, SubagentId(name) if name else None, tool, edited
        )
        if isinstance(verdict, Deny):
            raise BadInput("arguments", verdict.reason)

    async def _refuse_twice(self, record: Record, call_id: CallId) -> None:
        async for rows in self._log.read(record.id, until=record.seq, types=FACTS):
            for row in rows:
                if _names(row, ApprovalRequested, call_id):
                    raise AlreadyDecided(f"tool call {call_id} has been decided on already")


def _names(row: Recorded, kind: type[ApprovalRequested | ApprovalDecided], call_id: CallId) -> bool:
    event = row.readable if row.type == kind.TYPE else None
    return isinstance(event, kind) and event.call_id == call_id
