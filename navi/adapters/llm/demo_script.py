"""Parse the script language of the demo model."""

import json
from collections.abc import Sequence
from typing import Literal, get_args

from msgspec import Struct

from navi.domain.vocabulary.errors import BadInput

GRAMMAR = """\
# Scripts for the demo model

The demo model is no language model: it answers offline, always in the same way. A message with
lines that begin with `!` is a script; its other lines are passed over. The tools it calls are real.

| line                   | what the model does                                                    |
|------------------------|------------------------------------------------------------------------|
| `!think TEXT`          | thinks                                                                 |
| `!say TEXT`            | says the text                                                          |
| `!repeat N TEXT`       | says the text N times (up to 100000), with spaces between              |
| `!results`             | says what the tools called last gave back                              |
| `!tool NAME {JSON}`    | calls a tool; several of these in one reply are several calls          |
| `!then`                | ends the reply; what follows is the next one, after the tools' results |
| `!sleep SECONDS`       | is silent for a while                                                  |
| `!pace SECONDS`        | waits that long between pieces of text from here on (0: none)          |
| `!usage PROMPT ANSWER` | reports these numbers of tokens                                        |
| `!finish REASON`       | reports this reason for the end, such as `length`                      |
| `!fail KIND [STATUS]`  | fails as `connection`, `http`, `protocol` or, for length, `overflow`   |
| `!plan STEP`           | where planning is on: a step of the plan, such as `look (TOOL: name)`  |
| `!remember FACT`       | after the turn: a fact worth remembering                               |

Lines of text in one reply are parted by a line break. `NAME` need not be a tool that exists, and
`{JSON}` need not be JSON: that is how mistakes of models are shown. `!then` only matters after a
`!tool`: a reply without calls ends the turn. When the script is over and the last reply called
tools, the model says what they gave back.

Two calls in one reply, then an answer:

    !think Two files will do.
    !tool filesystem {"action": "write", "path": "a.txt", "content": "one"}
    !tool filesystem {"action": "write", "path": "b.txt", "content": "two"}
    !then
    !say Both are written:
    !results
"""

MAX_REPEAT = 100_000
MAX_SLEEP = 3600.0  # seconds

Failing = Literal["connection", "http", "protocol", "overflow"]


class Think(Struct, frozen=True):
    """Think this."""

    text: str


class Say(Struct, frozen=True):
    """Say this, ``times`` times."""

    text: str
    times: int = 1


class Results(Struct, frozen=True):
    """Say what the tools called last gave back."""


class CallTool(Struct, frozen=True):
    """Call a tool; the arguments are as they stand in the script."""

    name: str
    arguments: str


class Sleep(Struct, frozen=True):
    """Send nothing for some seconds."""

    seconds: float


class SetPace(Struct, frozen=True):
    """Change the pause between two pieces of text."""

    seconds: float


class Count(Struct, frozen=True):
    """Report numbers of tokens."""

    prompt: int
    answer: int


class ReportFinish(Struct, frozen=True):
    """Report a reason for the end."""

    reason: str


class Fail(Struct, frozen=True):
    """Fail like a broken server."""

    kind: Failing
    status: int | None


Action = Think | Say | Results | CallTool | Sleep | SetPace | Count | ReportFinish | Fail


class Script(Struct, frozen=True, kw_only=True):
    """What a message asks of the demo model; ``replies`` in order, the first one may be empty."""

    replies: tuple[tuple[Action, ...], ...]
    plan: tuple[str, ...]
    facts: tuple[str, ...]


def is_script(text: str) -> bool:
    """Whether a message has lines for the demo model."""
    return any(line.lstrip().startswith("!") for line in text.split("\n"))


def parse_script(text: str) -> Script:
    """The script in a message.

    Raises:
        BadInput: a line is not understood; ``field`` is the line.
    """
    replies: list[list[Action]] = [[]]
    plan: list[str] = []
    facts: list[str] = []
    for line in text.split("\n"):
        if not line.lstrip().startswith("!"):
            continue
        word, _, rest = line.strip()[1:].partition(" ")
        rest = rest.strip()
        match word:
            case "then":
                replies.append([])
            case "plan":
                plan.append(rest)
            case "remember":
                facts.append(rest)
            case _:
                try:
                    replies[-1].append(_action(word, rest))
                except ValueError as error:
                    raise BadInput(line.strip(), str(error)) from error
    return Script(
        replies=tuple(tuple(actions) for actions in replies), plan=tuple(plan), facts=tuple(facts)
    )


def _action(word: str, rest: str) -> Action:
    match word:
        case "think":
            return Think(rest)
        case "say":
            return Say(rest)
        case "repeat":
            times, _, text = rest.partition(" ")
            return Say(text, _whole(times, MAX_REPEAT))
        case "results":
            return Results()
        case "tool":
            name, _, arguments = rest.partition(" ")
            if not name:
                raise ValueError("names no tool")
            return CallTool(name, arguments.strip())
        case "sleep":
            return Sleep(_seconds(rest))
        case "pace":
            return SetPace(_seconds(rest))
        case "usage":
            return Count(*_two_numbers(rest.split()))
        case "finish":
            return ReportFinish(rest or "stop")
        case "fail":
            return _failure(rest.split())
        case _:
            raise ValueError("is not in the grammar (see `navi demo-script`)")


def _two_numbers(words: Sequence[str]) -> tuple[int, int]:
    if len(words) != 2:
        raise ValueError("needs two numbers")
    return _whole(words[0], 2**31), _whole(words[1], 2**31)


def _failure(words: Sequence[str]) -> Fail:
    for kind in get_args(Failing):
        if words and words[0] == kind:
            status = _whole(words[1], 599) if len(words) > 1 else None
            return Fail(kind, 500 if status is None and kind == "http" else status)
    raise ValueError(f"needs one of {', '.join(get_args(Failing))}")


def _whole(text: str, most: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= most):
        raise ValueError(f"needs a whole number up to {most}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(json.loads(text))
    except (ValueError, TypeError) as error:
        raise ValueError("needs a number of seconds") from error
    if not 0 <= seconds <= MAX_SLEEP:
        raise ValueError(f"needs 0 to {MAX_SLEEP:g} seconds")
    return seconds
