"""Two example tools. This file offers none: copy it to `example.py`, and the next message finds them.

Every public `async def` of a file here is a tool. What is edited counts from the next call on, without a
restart; `navi doctor` and `GET /tools` say what could not be loaded. All of it: docs/tools.md, "Your own tools".

Files whose name begins with `_`, like this one, offer nothing; the others can import them (`import _example`).
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

# These may be called again after navi was killed in the middle of a call, because twice does no harm. Without a
# name here the model is told that nobody knows what the call had done.
SAFE_TO_REPEAT = {"time_in_words", "word_count"}


async def time_in_words(style: Literal["short", "long"] = "short") -> str:
    """Say what time it is on the server.

    Args:
        style: `short` for the time alone, `long` with the date
    """
    # The docstring is what the model reads, `Args:` describes each parameter, annotations are the schema.
    now = datetime.now(UTC).astimezone()
    return now.strftime("%H:%M" if style == "short" else "%A, %d %B %Y, %H:%M")


async def word_count(context: Any, path: str, at_least: int = 1) -> dict[str, Any]:
    """Count the words of a text file of the session.

    Args:
        path: of the file, relative to the session's directory
        at_least: how often a word has to stand there to be listed
    """
    # `context` is filled in by navi and not shown to the model: session_id, call_id, user_id, user_role, user_info,
    # workspace (a Path: the session's directory, which is the working directory, too) and stop (an asyncio.Event).
    counts: dict[str, int] = {}
    for word in Path(context.workspace, path).read_text().split():
        if context.stop.is_set():
            break  # the user has stopped the turn: give what there is
        counts[word.casefold()] = counts.get(word.casefold(), 0) + 1
    # What is printed stands in navi's log with the tool's name; what is raised is an error that the model reads.
    print(f"counted {len(counts)} different words in {path}")
    # A str reaches the model as it is, anything else that JSON knows as JSON.
    return {word: count for word, count in counts.items() if count >= at_least}
