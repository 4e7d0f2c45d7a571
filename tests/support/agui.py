"""Checks of AG-UI: each event by the official models, and a run as a whole by the order they may come in."""

from collections.abc import Sequence
from typing import Any

from ag_ui.core import Event as OfficialEvent
from pydantic import BaseModel, TypeAdapter

Json = dict[str, Any]

_OFFICIAL: TypeAdapter[Any] = TypeAdapter(OfficialEvent)
_ENDS = ("RUN_FINISHED", "RUN_ERROR")


class CheckedRun:
    """A run that is as AG-UI has it.

    Attributes:
        texts, thoughts, arguments: what was said, thought and asked of tools, by id.
        results: what tools gave, by the id of the call.
        roles: of the messages, by id.
        end: the last event.
    """

    def __init__(self, events: Sequence[Json]) -> None:
        """Check it.

        Raises:
            AssertionError: what is wrong.
        """
        self.events = list(events)
        self.texts: dict[str, str] = {}
        self.thoughts: dict[str, str] = {}
        self.arguments: dict[str, str] = {}
        self.results: dict[str, str] = {}
        self.roles: dict[str, str] = {}
        self._open: dict[tuple[str, str], str | None] = {}  # kind and id, and whose it is
        self._finished: set[str] = set()
        for event in self.events:
            _fits(event)
        types = self.types
        assert types[0] == "RUN_STARTED", types
        assert types[-1] in _ENDS, types
        assert not {"RUN_STARTED", *_ENDS} & set(types[1:-1]), types
        for event in self.events[1:-1]:
            self._take(event)
        self.end = self.events[-1]
        assert not self._open, (self._open, types)
        for event in (self.events[0], self.end):
            if event["type"] != "RUN_ERROR":
                assert event["runId"] == self.events[0]["runId"]

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    def all(self, type_: str) -> list[Json]:
        """The events of a type."""
        return [event for event in self.events if event["type"] == type_]

    def _take(self, event: Json) -> None:
        match event["type"]:
            case "TEXT_MESSAGE_START":
                self._begin("text", event["messageId"], event)
                self.texts[event["messageId"]] = ""
                self.roles[event["messageId"]] = event["role"]
            case "TEXT_MESSAGE_CONTENT":
                self._is_open("text", event["messageId"], event)
                self.texts[event["messageId"]] += event["delta"]
            case "TEXT_MESSAGE_END":
                self._finish("text", event["messageId"], event)
            case "REASONING_START":
                self._begin("span", event["messageId"], event)
            case "REASONING_MESSAGE_START":
                self._is_open("span", event["messageId"], event)
                self._begin("thought", event["messageId"], event)
                self.thoughts[event["messageId"]] = ""
            case "REASONING_MESSAGE_CONTENT":
                self._is_open("thought", event["messageId"], event)
                self.thoughts[event["messageId"]] += event["delta"]
            case "REASONING_MESSAGE_END":
                self._finish("thought", event["messageId"], event)
            case "REASONING_END":
                assert ("thought", event["messageId"]) not in self._open
                self._finish("span", event["messageId"], event)
            case "TOOL_CALL_START":
                assert event["toolCallId"] not in self.arguments
                self._begin("call", event["toolCallId"], event)
                self.arguments[event["toolCallId"]] = ""
            case "TOOL_CALL_ARGS":
                self._is_open("call", event["toolCallId"], event)
                self.arguments[event["toolCallId"]] += event["delta"]
            case "TOOL_CALL_END":
                self._finish("call", event["toolCallId"], event)
            case "TOOL_CALL_RESULT":
                assert event["toolCallId"] not in self.results
                self.results[event["toolCallId"]] = event["content"]
            case "SUBAGENT_STARTED":
                subagent = event["subagentRunId"]
                assert subagent not in self._finished
                self._begin("subagent", subagent, {})
            case "SUBAGENT_FINISHED" | "SUBAGENT_ERROR":
                assert event["subagentRunId"] not in self._open.values()
                self._finish("subagent", event["subagentRunId"], {})
                self._finished.add(event["subagentRunId"])
            case _:
                pass

    def _begin(self, kind: str, name: str, event: Json) -> None:
        assert (kind, name) not in self._open, (kind, name)
        whose = event.get("subagentRunId")
        assert whose is None or ("subagent", whose) in self._open
        self._open[kind, name] = whose

    def _is_open(self, kind: str, name: str, event: Json) -> None:
        assert self._open[kind, name] == event.get("subagentRunId")

    def _finish(self, kind: str, name: str, event: Json) -> None:
        self._is_open(kind, name, event)
        del self._open[kind, name]


def _fits(event: Json) -> None:
    """Check an event with the official models, that it has nothing they do not know, and no null."""
    assert None not in event.values(), event
    _knows_all(_OFFICIAL.validate_python(event))


def _knows_all(value: object) -> None:
    if isinstance(value, BaseModel):
        assert not value.model_extra, value
        for name in type(value).model_fields:
            _knows_all(getattr(value, name))
    elif isinstance(value, list):
        for item in value:  # pyright: ignore[reportUnknownVariableType] - of a model
            _knows_all(item)  # pyright: ignore[reportUnknownArgumentType]
