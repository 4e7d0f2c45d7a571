"""What a model server has read it need not read again: every request of a session extends the one before."""

import json
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any

from navi.adapters.llm.renderers import KnownRenderers
from navi.application.reading.render_call import render_call
from navi.domain.vocabulary.events import ContextCompressed, MemoryRecalled
from navi.domain.vocabulary.ids import LOCAL_OWNER, CallId, SessionId
from tests.support.agent_node import AgentNode, World, agent_node
from tests.support.counting_server import CountingServer, plain_mind, tokens_of
from tests.support.model_server import Received, purpose_of
from tests.support.model_wire import Part, Say, calls

WINDOW = 8192  # tokens, as nodes of tests have it
TURNS = 20
FEW = 0.05  # of all prompt tokens
TOPICS = ("tea", "Oslo", "chess", "sailing", "Welsh", "ferrets", "bread")


def working_mind() -> Any:
    """A model that uses a tool in every other turn, and answers at some length."""
    turn = count()

    def mind(request: Received) -> Iterable[Part]:
        if purpose_of(request) != "turn":
            return plain_mind(request)
        if request.json["messages"][-1]["role"] == "user" and next(turn) % 2:
            return (calls(("todo", {"action": "list"})),)
        return (Say("So it is, as far as one can say. " * 6),)

    return mind


async def followed(node: AgentNode, session_id: SessionId) -> None:
    """Wait until what follows a turn is done."""
    async for _ in node.world.log.watch(session_id, after=0):
        if (await node.sessions.find(session_id)).follow_up is None:
            return


def read_again(server: CountingServer) -> int:
    """Prompt tokens that were read anew although their line had been sent before, wherever it stood.

    That is more than the server counts itself: what stands elsewhere now, as what a compression keeps,
    has to be read again and is counted, and so is a question that is asked after every turn.
    """
    seen: set[str] = set()
    again = 0
    chats = [request for request in server.requests if request.path == "/api/chat"]
    for request, counted in zip(chats, server.counted, strict=True):
        body = request.json
        parts = [json.dumps(body.get("tools")), *map(written, body["messages"])]
        lines = [line for part in parts for line in part.split("\n")]
        new = sum(len(tokens_of(a_message(line))) for line in set(lines) - seen)
        again += max(0, counted.prompt - counted.cached - new)
        seen.update(lines)
    return again


def a_message(text: str) -> Any:
    """A request of one message."""
    return {"messages": [{"role": "", "content": text}]}


def written(message: Any) -> str:
    """A message as text."""
    made: list[Any] = message.get("tool_calls") or []
    calls: list[Any] = [call["function"] for call in made]
    return "\n".join((message.get("content") or "", *map(json.dumps, calls)))


async def test_over_twenty_turns_with_all_that_follows_them_little_is_read_twice(
    tmp_path: Path,
) -> None:
    async with (
        CountingServer(window=WINDOW) as server,
        agent_node(World(), tmp_path, [server.url], follow=True, keep_recent=4) as node,
    ):
        server.mind = working_mind()
        for topic in TOPICS:
            await node.memories.add(LOCAL_OWNER, f"The user knows a lot about {topic}")
        session_id = await node.session()

        for number in range(TURNS):
            about = TOPICS[number % len(TOPICS)]
            said = f"Question {number} about {about}: " + "and what of the rest? " * 8
            assert (await node.ask(session_id, said)).outcome == "completed"
            await followed(node, session_id)

        session = await node.sessions.find(session_id)
        assert session.name == "A talk"
        events = [row.envelope.event for row in await node.world.events(session_id)]
        compressed = [event for event in events if isinstance(event, ContextCompressed)]
        recalled = [event for event in events if isinstance(event, MemoryRecalled)]
        assert compressed
        assert len(recalled) >= len(TOPICS)
        total = sum(counted.prompt for counted in server.counted)
        assert server.prefilled_twice() <= FEW
        assert read_again(server) / total <= FEW
        assert not any(counted.refused for counted in server.counted)

        assert session.usage.calls == len(server.counted)
        assert session.usage.prompt_tokens == total
        for request in server.requests:
            if "x-navi-call" in request.headers:
                again = await render_call(
                    node.world.log,
                    node.world.texts,
                    KnownRenderers(),
                    session_id,
                    CallId(request.headers["x-navi-call"]),
                )
                assert again.body.encode() == request.body
                assert again.matches
