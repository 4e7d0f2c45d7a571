"""The turn of a message, followed by its events."""

from navi.client.events import Event
from navi.client.messages import Answer, Outcome


class FollowedTurn:
    """Takes the events behind a receipt; knows which are of its turn, and how that ended.

    Attributes:
        answer: None until the turn has ended.
    """

    def __init__(self, message_seq: int) -> None:
        self.answer: Answer | None = None
        self._message_seq = message_seq
        self._turn_id: str | None = None
        self._before: list[Event] = []  # of a turn that may turn out to be the one
        self._calls: set[str] = set()
        self._content = ""
        self._cut_off = False

    def see(self, event: Event) -> tuple[Event, ...]:
        """Take the next event of the session; gives those that are known now to be of the turn."""
        if event["type"] == "message_withdrawn":
            if event["data"]["message_seq"] == self._message_seq:
                self._end("stopped", event)
                return (event,)
        elif (
            event["type"] == "message_delivered"
            and event["data"]["message_seq"] == self._message_seq
        ):
            self._turn_id = event["turn_id"]
            before, self._before = self._before, []
            return (*before, event)
        if self._turn_id is None:
            # A message that steers comes into a turn that runs: that one is shown from here on.
            if event["type"] == "turn_started":
                self._before = [event]
            self._take(event)
            return ()
        if event["type"] == "session_deleted":
            self._end("stopped", event)
            return (event,)
        if event["turn_id"] != self._turn_id:
            return ()
        self._take(event)
        return (event,)

    def _take(self, event: Event) -> None:
        match event["type"]:
            case "turn_started":
                self._calls, self._content, self._cut_off = set(), "", False
            case "model_called":
                if event["data"]["purpose"] == "turn" and event["subagent_id"] is None:
                    self._calls.add(event["data"]["call_id"])
            case "model_replied":
                reply = event["data"]
                if reply["call_id"] in self._calls:
                    # What was cut off for length goes on in the next reply.
                    self._content = self._content * self._cut_off + reply["content"]
                    self._cut_off = reply["finish_reason"] == "length" and not reply["tool_calls"]
            case "model_call_failed":
                failed = event["data"]
                if failed["call_id"] in self._calls and (kept := failed.get("kept", 0)):
                    self._content = self._content * self._cut_off + failed["partial_text"][:kept]
                    self._cut_off = False
            case "turn_completed":
                self._end("completed", event)
            case "turn_stopped":
                self._end("stopped", event)
            case "turn_failed":
                self._content = self._content or event["data"]["error"]
                self._end("failed", event)
            case _:
                pass

    def _end(self, outcome: Outcome, event: Event) -> None:
        if self._turn_id is None and event["type"] != "message_withdrawn":
            return  # of the turn before, and so is the content
        content = "" if self._turn_id is None else self._content
        self.answer = Answer(
            outcome=outcome, content=content, turn_id=self._turn_id, seq=event["seq"]
        )
