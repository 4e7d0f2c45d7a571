"""Judge tool calls by the rules of the profiles, and show people what a call would do."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import structlog
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from navi.application.agent.actor_profile import ServedProfiles, profile_of, profile_of_actor
from navi.application.session.record import Record
from navi.domain.agent.approvals import (
    CHANGED,
    DENIED_FOR_SESSION,
    Allow,
    Ask,
    Deny,
    Search,
    Verdict,
    as_readable_json,
    is_of_profile,
    judge,
    shown_preview,
    strictest,
)
from navi.domain.agent.profile import Profile
from navi.domain.session.session import Session
from navi.domain.session.turn import ToolRun
from navi.domain.vocabulary.events import JsonObject
from navi.domain.vocabulary.ids import Owner, SubagentId
from navi.ports.tools import AsksByItself, Previewed, Tool

log = structlog.get_logger()


class Policy(Protocol):
    """Which tool calls are run, and what a person is shown of those that are asked about."""

    async def verdict(
        self, record: Record, subagent_id: SubagentId | None, tool: Tool, run: ToolRun
    ) -> Verdict:
        """What becomes of a call of the agent, or of a subagent."""
        ...

    async def preview(self, tool: Tool, arguments: JsonObject, workspace: Path) -> str:
        """What a call would do, as a person reads it."""
        ...


class ProfilePolicy:
    """The policy of the profiles in force.

    A subagent is judged by its own profile and by those of all that it works for, and the strictest
    of them counts: otherwise a model would spawn what its own profile forbids.

    Args:
        search: looks for the expressions of rules.
    """

    def __init__(self, profiles: ServedProfiles, search: Search) -> None:
        self._profiles = profiles
        self._search = search

    async def verdict(
        self, record: Record, subagent_id: SubagentId | None, tool: Tool, run: ToolRun
    ) -> Verdict:
        """What becomes of a call: by the rules, by the tool itself, by what a person has decided."""
        profiles, owner = await self._profiles_of(record, subagent_id), record.session.owner
        verdicts = await self._judge(profiles, tool, run.call.arguments, owner)
        verdict = strictest([_as_decided(record.session, verdict) for verdict in verdicts])
        decided = isinstance(verdict, Ask) and run.decided is not None
        if decided and await self._has_changed(tool, run, owner):
            return Deny(reason=CHANGED)
        return verdict

    async def preview(self, tool: Tool, arguments: JsonObject, workspace: Path) -> str:
        """What the tool says of the call, else its arguments."""
        if isinstance(tool, Previewed):
            try:
                return shown_preview(await tool.preview(arguments, workspace), arguments)
            except Exception as error:  # noqa: BLE001 - a border: a tool may raise anything
                log.warning("no_preview", tool=tool.description.name, error=type(error).__name__)
        return shown_preview(as_readable_json(arguments), arguments)

    async def _has_changed(self, tool: Tool, run: ToolRun, owner: Owner) -> bool:
        """Whether a tool that has asked by itself would not ask the same by now.

        It may be another one since, or a host have another address. What the person has changed
        themselves does not count: of such a call, what it was before is looked at. Nor does the rule of
        a profile: where one has asked, what counts is by what the tool would have.
        """
        asked = run.asked
        if asked is None or not asked.rule:
            return False
        asked_by = asked.tool_rule if is_of_profile(asked.rule) else asked.rule
        told = asked.replaced if run.edited else run.call.arguments
        if asked_by is UNSET or told is None:
            return False
        if tool.check(told) is not None:
            return True
        asks = await tool.asks(told, owner) if isinstance(tool, AsksByItself) else None
        return asks is not None and asks.rule != asked_by

    async def _judge(
        self, profiles: Sequence[Profile], tool: Tool, arguments: JsonObject, owner: Owner
    ) -> list[Verdict]:
        """What the rules of each profile say of a call, and the tool itself where none fits."""
        default: Ask | None = None
        tool_rule: str | UnsetType = UNSET
        if isinstance(tool, AsksByItself):
            default = await tool.asks(arguments, owner)
            tool_rule = "" if default is None else default.rule
        name = tool.description.name
        # In a thread: to look for an expression may take its time.
        verdicts = await asyncio.to_thread(
            lambda: [
                judge(profile.approvals, name, arguments, default=default, search=self._search)
                for profile in profiles
            ]
        )
        return [
            replace(verdict, tool_rule=tool_rule)
            if isinstance(verdict, Ask) and is_of_profile(verdict.rule)
            else verdict
            for verdict in verdicts
        ]

    async def _profiles_of(
        self, record: Record, subagent_id: SubagentId | None
    ) -> tuple[Profile, ...]:
        found = [await profile_of(record, self._profiles)]
        turn = record.session.turn
        while subagent_id is not None and turn is not None:
            found.append(await profile_of_actor(record, self._profiles, subagent_id))
            parent = turn.actor(subagent_id).parent
            subagent_id = SubagentId(parent) if parent else None
        return tuple(found)


def _as_decided(session: Session, verdict: Verdict) -> Verdict:
    """The verdict; what a person has decided for the whole session is not asked again."""
    if not isinstance(verdict, Ask):
        return verdict
    match session.decided.get(verdict.rule):
        case None:
            return verdict
        case "allow":
            return Allow()
        case "deny":
            return Deny(reason=DENIED_FOR_SESSION)
