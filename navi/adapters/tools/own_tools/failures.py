"""What a tool of the user raised: in one line, in short, and in full."""

import traceback
from collections.abc import Collection
from pathlib import Path

from navi.domain.tools.tool_output import clean_text

MAX_ERROR_CHARACTERS = 4_000
MAX_TRACEBACK_CHARACTERS = 16_000
SHOWN_FRAMES = 5  # in what the model reads


def in_one_line(error: BaseException, own_files: Collection[str]) -> str:
    """An exception with the line of the user's files that it came through last."""
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001 - __str__ is the user's code as well
        text = "(its message cannot be shown)"
    message = f"{type(error).__name__}: {text}" if text else type(error).__name__
    own = [
        frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in own_files
    ]
    where = f" (line {own[-1].lineno} of {Path(own[-1].filename).name})" if own else ""
    return clean_text(message[:MAX_ERROR_CHARACTERS]) + where


def short_traceback(error: BaseException, path: str) -> str:
    """Where it was raised, a line a call; empty where it was raised in the tool itself.

    Args:
        path: of the tool's file: what stands above it in the traceback is navi's.
    """
    frames = _from(path, traceback.extract_tb(error.__traceback__))
    if len(frames) < 2:  # the line of the tool stands in the message
        return ""
    lines = [
        f"  line {frame.lineno} of {'/'.join(Path(frame.filename).parts[-2:])}, in {frame.name}: {frame.line}"
        for frame in frames[-SHOWN_FRAMES:]
    ]
    return clean_text("\n\nIt was raised at:\n" + "\n".join(lines))


def long_traceback(error: BaseException, path: str) -> str:
    """The whole traceback as Python prints it, from the tool's own file on."""
    try:
        told = traceback.TracebackException.from_exception(error)
        told.stack = traceback.StackSummary.from_list(_from(path, told.stack))
        text = "".join(told.format())
    except BaseException:  # noqa: BLE001 - __str__ and __repr__ are the user's code as well
        text = "".join(traceback.format_tb(error.__traceback__))
    return clean_text(text[-MAX_TRACEBACK_CHARACTERS:])


def _from(path: str, frames: list[traceback.FrameSummary]) -> list[traceback.FrameSummary]:
    first = next((n for n, frame in enumerate(frames) if frame.filename == path), 0)
    return frames[first:]
