"""Ask whoever sits at the terminal about a tool call."""

import sys
import termios
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Literal

import msgspec

from navi.cli.shared.printable import as_utf8
from navi.domain.agent.approvals import as_json
from navi.domain.vocabulary.events import ApprovalRequested, JsonObject
from navi.http.requests.decisions import DecisionBody

# Reads a line, with a text that stands there already; raises EOFError or KeyboardInterrupt.
ReadLine = Callable[[str, str], Awaitable[str]]
PersonsDecision = DecisionBody | Literal["later", "stop"]

QUESTION = "[y]es, [n]o, yes for this [s]ession, [e]dit: "
REASON = "reason, for the model (may be empty): "
ARGUMENTS = "arguments: "
NO_OBJECT = "(no JSON object) arguments: "


class Person:
    """Asks on the terminal: yes, no with a reason, yes for the session, other arguments."""

    def __init__(self, read: ReadLine, *, forget_typed: Callable[[], None]) -> None:
        """Ask by reading lines.

        Args:
            forget_typed: throws away what was typed so far: it was no answer to this question.
        """
        self._read = read
        self._forget_typed = forget_typed

    async def __call__(self, requested: ApprovalRequested) -> PersonsDecision:
        """The decision; ``later`` leaves it to another time or place, ``stop`` ends the turn."""
        self._forget_typed()
        try:
            while True:
                answer = (await self._line(f"{requested.name}? {QUESTION}", "")).strip().lower()
                match answer:
                    case "y" | "yes":
                        return DecisionBody(decision="allow")
                    case "s" | "session":
                        return DecisionBody(decision="allow", scope="session")
                    case "n" | "no":
                        note = (await self._line(REASON, "")).strip()
                        return DecisionBody(decision="deny", note=note or None)
                    case "e" | "edit":
                        return await self._edited(requested)
                    case _:
                        continue
        except EOFError:
            return "later"
        except KeyboardInterrupt:
            return "stop"

    async def _line(self, question: str, text: str) -> str:
        return as_utf8(await self._read(question, text))

    async def _edited(self, requested: ApprovalRequested) -> DecisionBody:
        text, question = as_json(requested.arguments), ARGUMENTS
        while True:
            text = await self._line(question, text)
            try:
                arguments = msgspec.json.decode(text, type=JsonObject)
            except (msgspec.MsgspecError, RecursionError):
                question = NO_OBJECT
            else:
                return DecisionBody(decision="allow", arguments=arguments)


def at_terminal() -> Person:
    """The person who sits at the terminal of this process."""
    return Person(read_line, forget_typed=forget_typed)


def forget_typed() -> None:
    """Throw away what was typed and not read yet."""
    # Only here, as below.
    from prompt_toolkit.application.current import get_app_session
    from prompt_toolkit.input.typeahead import clear_typeahead

    clear_typeahead(get_app_session().input)  # what an earlier question has read beyond its line
    with suppress(OSError, termios.error):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


async def read_line(question: str, text: str) -> str:
    """Read a line of the terminal, while other things may be printed above it."""
    # Only here: loading it takes longer than a short answer.
    from prompt_toolkit import PromptSession
    from prompt_toolkit.patch_stdout import patch_stdout

    lines: PromptSession[str] = PromptSession()
    with patch_stdout(raw=True):
        return await lines.prompt_async(question, default=text, handle_sigint=False)
