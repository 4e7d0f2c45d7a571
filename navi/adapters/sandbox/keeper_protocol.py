"""What navi and the keeper of a call tell each other, as ``marshal`` writes it."""

from typing import Literal, TypedDict

EndedBy = Literal["memory", "workspace", "time", "stop"]


class Task(TypedDict):
    """What is to be run, and within which bounds.

    Attributes:
        uid: the user to become, where navi is root; None to stay who it is.
        bwrap: the program, and the directories that it needs.
        arguments: of bubblewrap; ``{name}`` stands for the descriptor of a file or directory.
        read_only: directories by the name that stands for them.
        files: contents by the name that stands for them.
        own: directories of the workspace that are there, by name.
        memory: bytes of the call as a whole.
        workspace_bytes: room of the workspace, in bytes on disk.
        seconds: after which the call is ended.
    """

    uid: int | None
    bwrap: tuple[str, tuple[str, ...]]
    arguments: tuple[str, ...]
    command: tuple[str, ...]
    workspace: str
    own: tuple[str, ...]
    read_only: dict[str, str]
    files: dict[str, bytes]
    memory: int
    processes: int
    open_files: int
    file_bytes: int
    workspace_bytes: int
    seconds: float


class Ended(TypedDict):
    """How it went.

    Attributes:
        status: the exit status of the code; None where it was ended, or never began.
        ended_by: ``memory``, ``workspace``, ``time``, ``stop``, or None where it ended itself.
        fault: why it could not be run at all, in words.
        memory: the most bytes that were seen in use.
        workspace_bytes: what the workspace takes on disk.
        full: the workspace had no room left when the call began.
    """

    status: int | None
    ended_by: EndedBy | None
    fault: str | None
    memory: int
    workspace_bytes: int
    full: bool
