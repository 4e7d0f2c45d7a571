"""What the model answers in the scenarios: scripts of the demo model, and what those cannot say."""

from collections.abc import Sequence
from typing import Any

from navi.domain.context.prompt import GO_ON
from tests.support.model_server import Received, demo_parts, purpose_of
from tests.support.model_wire import Cut, Done, Part, Raw, Say, calls

FLAKY = "FLAKY"  # in a message: the first try of each call is cut off in mid-stream
DOOMED = "DOOMED"  # in a message: the call breaks for good, once tool calls came
DOOM = "protocol"  # how the turn fails then
METERED = 100_000  # tokens of a turn: more than any number of tries takes by chance
VERBOSE = "VERBOSE"  # in a message: its summary is longer than what it replaces


class Mind:
    """Answers by what stands in the request; it only remembers which calls it cut off already."""

    def __init__(self) -> None:
        self._cut: set[bytes] = set()

    def answer(self, request: Received) -> Sequence[Part]:
        """The parts of the answer."""
        said = _last_said(request.json["messages"])
        match purpose_of(request):
            case "planning" if "DIRECT" in request.json["messages"][-1]["content"]:
                return (Say("Goal: to count\nREFLECT: yes"), Done())
            case "review":
                return (Say("### Critic\n- none"), Done())
            case "compression" if VERBOSE in request.body.decode():
                return (Say("far too much " * 3_000), Done())
            case "turn" if DOOMED in said:
                return (calls(("count", {"label": "never"})), Raw(b"{not JSON\n\n"))
            case "turn" if FLAKY in said and request.body not in self._cut:
                self._cut.add(request.body)
                return (Say("half of"), Cut(reset=True))
            case _:
                return demo_parts(request)


def _last_said(messages: Sequence[Any]) -> str:
    """What the user said last, or what navi did on the user's behalf."""
    said = (m["content"] for m in reversed(messages) if m["role"] == "user")
    return next((content for content in said if content != GO_ON.content), "")
