"""What a person answers on the terminal when a tool call waits."""

import pytest

from navi.cli.chat.person import ARGUMENTS, NO_OBJECT, Person, PersonsDecision
from navi.domain.vocabulary.events import ApprovalRequested
from navi.domain.vocabulary.ids import CallId
from navi.http.requests.decisions import DecisionBody

REQUESTED = ApprovalRequested(
    call_id=CallId("call_0123456789ab"),
    name="ssh",
    arguments={"command": "ls"},
    reason="ssh asks.",
    preview="$ ls",
)


class Typing:
    """Types one line after the other; an exception is a key that ends the question."""

    def __init__(self, *lines: str | type[BaseException]) -> None:
        self._lines = list(lines)
        self.person = Person(self, forget_typed=self._forget)
        self.asked: list[tuple[str, str]] = []

    def _forget(self) -> None:
        """Only before the first question: what follows belongs to its answer."""
        assert self.asked == []

    async def __call__(self, question: str, text: str) -> str:
        self.asked.append((question, text))
        line = self._lines.pop(0)
        if isinstance(line, str):
            return line
        raise line


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["y"], DecisionBody(decision="allow")),
        (["what?", "", " YES "], DecisionBody(decision="allow")),
        (["s"], DecisionBody(decision="allow", scope="session")),
        (["n", ""], DecisionBody(decision="deny")),
        (["no", " not now "], DecisionBody(decision="deny", note="not now")),
        (["e", "{", '{"a": 1}'], DecisionBody(decision="allow", arguments={"a": 1})),
        # Bytes that are no UTF-8, as Python reads them.
        (["n", "caf\udce9"], DecisionBody(decision="deny", note="caf\ufffd")),
        (["e", '{"a": "\udce9"}'], DecisionBody(decision="allow", arguments={"a": "\ufffd"})),
        ([EOFError], "later"),
        (["n", EOFError], "later"),
        (["e", KeyboardInterrupt], "stop"),
    ],
)
async def test_a_person_decides(
    lines: list[str | type[BaseException]], said: PersonsDecision
) -> None:
    assert await Typing(*lines).person(REQUESTED) == said


async def test_arguments_are_edited_from_what_the_model_wrote() -> None:
    typing = Typing("e", "[]", "{}")

    await typing.person(REQUESTED)

    assert typing.asked[1:] == [(ARGUMENTS, '{"command":"ls"}'), (NO_OBJECT, "[]")]
