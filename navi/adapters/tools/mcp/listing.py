"""Tools as a server lists them, in the form in which they are offered; what cannot be is said."""

from collections.abc import Sequence

import msgspec
from mcp_types import Tool
from msgspec import Struct

from navi.adapters.tools.mcp.config import Problem
from navi.adapters.tools.mcp.schemas import NotASchema, usable_schema
from navi.adapters.tools.mcp.wire import ListedTool
from navi.domain.tools.tool_output import clean_text
from navi.domain.vocabulary.events import JsonObject

MAX_TOOLS = 128  # of a server
MAX_DESCRIPTION = 4_000  # characters: about 1,000 tokens, paid for at every call
MAX_LISTING_BYTES = 1024 * 1024  # of all schemas together
MAX_TOOL_NAME = 128  # characters; the protocol has no more


class Listing(Struct, frozen=True, kw_only=True):
    """What a server has.

    Attributes:
        schemas: the input schemas as the server sent them, by the tools' own names.
    """

    tools: tuple[ListedTool, ...]
    problems: tuple[Problem, ...]
    schemas: dict[str, JsonObject]


def listing_of(
    listed: Sequence[Tool], *, wanted: Sequence[str] | None, sifted: Sequence[Problem]
) -> Listing:
    """The tools of a server that are wanted and can be offered.

    Args:
        sifted: those that were left out already.
        wanted: their own names; None for all.
    """
    tools: dict[str, ListedTool] = {}
    schemas: dict[str, JsonObject] = {}
    problems = list(sifted)
    size = 0
    if wanted is not None:
        there = {tool.name for tool in listed} | {problem.name for problem in sifted}
        problems += [
            Problem(name=name, reason="the server has no tool of this name")
            for name in wanted
            if name not in there
        ]
    for tool in listed:
        if wanted is not None and tool.name not in wanted:
            continue
        name = clean_text(tool.name[:MAX_TOOL_NAME])
        if not tool.name or name != tool.name:
            problems.append(Problem(name=name, reason="its name is none"))
        elif tool.name in tools:
            problems.append(Problem(name=name, reason="the server lists two of this name"))
        elif len(tools) >= MAX_TOOLS:
            problems.append(
                Problem(name=name, reason=f"the server has more than {MAX_TOOLS} tools")
            )
        else:
            try:
                schema = usable_schema(tool.input_schema)
            except NotASchema as error:
                problems.append(Problem(name=name, reason=str(error)))
                continue
            size += len(msgspec.json.encode(schema.parameters))
            if size > MAX_LISTING_BYTES:
                problems.append(Problem(name=name, reason="the server's tools are too large"))
                continue
            hints = tool.annotations
            tools[name] = ListedTool(
                name=name,
                description=_bounded(tool.description or tool.title or ""),
                parameters=schema.parameters,
                rules=schema.rules,
                repeatable=hints is not None
                and bool(hints.read_only_hint or hints.idempotent_hint),
            )
            schemas[name] = schema.whole
    return Listing(
        tools=tuple(tools.values()), problems=tuple(problems[:MAX_TOOLS]), schemas=schemas
    )


def _bounded(description: str) -> str:
    text = clean_text(description).strip()
    return text if len(text) <= MAX_DESCRIPTION else f"{text[: MAX_DESCRIPTION - 1]}…"
