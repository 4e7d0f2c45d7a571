"""Compose a trial of a person's own tools and rules on a recorded session."""

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from navi.adapters.files.export_file import lines_of
from navi.adapters.patterns import search_in_time
from navi.adapters.profiles.folder import FolderProfiles
from navi.adapters.tools.toolbox import ToolPorts, Tools
from navi.adapters.tools.typed_tool import BUILT_IN
from navi.application.rerun.load import load_export
from navi.application.rerun.try_mine import Trial, trial_lines, try_mine
from navi.domain.vocabulary.errors import BadInput
from navi.domain.vocabulary.events import Envelope, JsonObject, TodoItem
from navi.domain.vocabulary.ids import LOCAL_OWNER, CallId
from navi.ports.tools import TodoChange, ToolContext, ToolResult

ALSO_RUN = (
    "filesystem",
)  # what they read may have been written by it; its results are not compared


async def try_session(
    envelopes: Sequence[Envelope],
    *,
    tools: Path,
    profiles: Path,
    profile_id: str | None,
    environment: Mapping[str, str],
    variables: Sequence[str] = (),
) -> Trial:
    """Run own tools on the calls of a session, in a directory that is thrown away.

    Args:
        profile_id: by whose tools and rules the calls are judged; None for nobody's.

    Raises:
        BadInput: a tool file cannot be loaded, or there is no such profile.
    """
    profile = None
    if profile_id is not None:
        profile = await FolderProfiles(profiles).get(profile_id)
        if profile is None:
            raise BadInput("profile", f"there is no profile {profile_id!r}")
    place = await asyncio.to_thread(tempfile.TemporaryDirectory, prefix="navi-try-")
    workspace = Path(place.name, envelopes[0].session_id)
    try:
        await asyncio.to_thread(workspace.mkdir)
        async with Tools(
            ToolPorts(), own_tools=tools, environment=environment, variables=variables
        ) as box:
            if broken := [f"{one.file}: {one.error}" for one in box.problems if one.whole]:
                raise BadInput("tools", "; ".join(broken))

            async def run(call_id: CallId, name: str, arguments: JsonObject) -> ToolResult | None:
                tool = box.find(name)
                own = tool is not None and tool.description.source != BUILT_IN
                if tool is None or not (own or name in ALSO_RUN):
                    return None
                context = _context(envelopes[0], call_id, workspace)
                result = await tool.run(arguments, context)
                return result if own else None

            trial = await try_mine(envelopes, run, profile, search_in_time)
            return replace(
                trial, left_out=tuple(f"{one.file}: {one.error}" for one in box.problems)
            )
    finally:
        await asyncio.to_thread(place.cleanup)


def try_file(
    recording: Path,
    *,
    tools: Path,
    profiles: Path | None = None,
    profile_id: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run own tools on the calls of an export, for tests.

    Args:
        tools: the directory of own tools; `profiles` that of own profiles.
        profile_id: the profile whose ``enabled_tools`` and ``approvals`` judge the calls.
        environment: variables that the tools see.

    Raises:
        AssertionError: something comes out another way than it was recorded; the message says what.
        BadInput: a tool cannot be offered, there is no such profile, or it is not the export of one session.
    """
    given = dict(environment or {})
    trial = asyncio.run(
        try_session(
            load_export(lines_of(recording)).envelopes,
            tools=tools,
            profiles=profiles or tools.parent / "profiles",
            profile_id=profile_id,
            environment=given,
            variables=tuple(given),
        )
    )
    if trial.left_out:  # a call of it would not have been tried
        raise BadInput("tools", "; ".join(trial.left_out))
    if trial.differences:
        raise AssertionError("\n".join(trial_lines(trial)))


def _context(first: Envelope, call_id: CallId, workspace: Path) -> ToolContext:
    return ToolContext(
        session_id=first.session_id,
        user_id=LOCAL_OWNER,
        user_role="admin",
        user_info={"id": LOCAL_OWNER, "name": LOCAL_OWNER},
        call_id=call_id,
        workspace=workspace,
        stop=asyncio.Event(),
        todo=_Nothing(),
        agent=_Nobody(),
        show=lambda _: None,
    )


class _Nothing:
    """A todo list that is empty and stays so."""

    async def change(self, changed: TodoChange) -> tuple[TodoItem, ...]:
        """Nothing is kept: own tools have no part in it."""
        del changed
        return ()


class _Nobody:
    """An agent that can do nothing: own tools have no part in it."""

    async def spawn(self, task: str, profile_id: str | None) -> ToolResult:
        return ToolResult(outcome="denied", output="no subagents here")

    async def switch_profile(self, profile_id: str, reason: str) -> ToolResult:
        return ToolResult(outcome="denied", output="no other profiles here")

    async def show_picture(self, path: str) -> ToolResult:
        return ToolResult(outcome="denied", output="nobody sees it here")
