"""Keep long tool output as a file of the session."""

import asyncio
from pathlib import Path

from navi.adapters.tools.workspace import (
    OWN_DIRECTORY,
    PathForbidden,
    Workspace,
    WorkspaceFull,
    WorkspaceLimits,
)
from navi.domain.tools.tool_output import bound_output, with_remark
from navi.domain.vocabulary.ids import CallId
from navi.ports.tools import BoundOutput

# One output may be much longer than a file the model writes; 100 MB of them is a tool gone wild.
LIMITS = WorkspaceLimits(file=256 * 1024 * 1024, workspace=1024 * 1024 * 1024)


class KeptOutputs:
    """The port ``Outputs``, in the workspace itself: ``.navi/outputs/<call id>.txt``."""

    async def bound(self, output: str, *, call_id: CallId, workspace: Path) -> BoundOutput:
        """The output, clean and within the limits of an event."""
        if len(output) < 4_096:  # certainly short, however it is encoded: not worth a thread
            return bound_and_keep(output, call_id=call_id, workspace=workspace)
        return await asyncio.to_thread(bound_and_keep, output, call_id=call_id, workspace=workspace)


def kept_path(call_id: str) -> str:
    """Where the whole output of a call is kept, in the session's directory."""
    return f"{OWN_DIRECTORY}/outputs/{call_id}.txt"


def bound_and_keep(output: str, *, call_id: str, workspace: Path) -> BoundOutput:
    """The output within its limits; the whole of a longer one is written to a file."""
    bounded = bound_output(output)
    if bounded.whole is None:
        return BoundOutput(text=bounded.text, truncated=False)
    path = kept_path(call_id)
    try:
        with Workspace(workspace) as session:
            session.write(path, bounded.whole.encode(), limits=LIMITS)
    except (PathForbidden, WorkspaceFull, OSError):
        # A call that ended well must not fail because a disk is full; the remark says what is lost.
        return BoundOutput(text=with_remark(bounded, kept_as=None), truncated=True)
    return BoundOutput(text=with_remark(bounded, kept_as=path), truncated=True)
