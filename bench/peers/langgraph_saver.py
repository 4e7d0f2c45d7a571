"""LangGraph: a graph of a model and a tool on `AsyncPostgresSaver`; a checkpoint each of 11 steps, and one of the input."""
# pyright: basic
# pyright: reportMissingImports=false

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from bench.peers.turn import ANSWER, CALL_ARGUMENTS, CALL_NAME, CALLS, QUESTION, RESULT

MOST_STEPS = 100


class LangGraphStore:
    """Threads of one graph."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph

    async def session(self, turns: int) -> dict[str, Any]:
        config = {"configurable": {"thread_id": uuid4().hex}, "recursion_limit": MOST_STEPS}
        messages: list[Any] = []
        for _ in range(turns):
            messages.append(HumanMessage(QUESTION))
            for _ in range(CALLS):
                asked = _asked()
                messages += [asked, _answered(asked)]
            messages.append(AIMessage(ANSWER))
        if messages:
            await self._graph.aupdate_state(config, {"messages": messages}, as_node="model")
        return config

    async def turn(self, session: dict[str, Any]) -> None:
        await self._graph.ainvoke(
            {"messages": [HumanMessage(QUESTION)]}, session, durability="sync"
        )


def _asked() -> AIMessage:
    call = {"name": CALL_NAME, "args": CALL_ARGUMENTS, "id": uuid4().hex}
    return AIMessage("", tool_calls=[call])


def _answered(asked: AIMessage) -> ToolMessage:
    return ToolMessage(RESULT, tool_call_id=asked.tool_calls[0]["id"])


async def _model(state: MessagesState) -> dict[str, Any]:
    calls = 0
    for message in reversed(state["messages"]):
        if isinstance(message, HumanMessage):
            break
        calls += isinstance(message, ToolMessage)
    return {"messages": [_asked() if calls < CALLS else AIMessage(ANSWER)]}


async def _tool(state: MessagesState) -> dict[str, Any]:
    return {"messages": [_answered(state["messages"][-1])]}


def _next(state: MessagesState) -> str:
    return "tool" if state["messages"][-1].tool_calls else END


@asynccontextmanager
async def opened(dsn: str) -> AsyncGenerator[LangGraphStore, None]:
    """The threads in a database."""
    options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    async with AsyncConnectionPool(dsn, max_size=16, kwargs=options) as pool:
        saver = AsyncPostgresSaver(pool)
        await saver.setup()
        graph = StateGraph(MessagesState)
        graph.add_node("model", _model)
        graph.add_node("tool", _tool)
        graph.add_edge(START, "model")
        graph.add_conditional_edges("model", _next)
        graph.add_edge("tool", "model")
        yield LangGraphStore(graph.compile(checkpointer=saver))
