"""What programs outside are shown of a turn is what their next message is known by."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.application.doors.answer_pieces import Ended, Text, answer_pieces
from navi.application.doors.take_message import Asked, Taken
from navi.domain.log.secrets import Secrets
from navi.domain.reading.conversation import beginning, marks_of, notice_of_waiting
from navi.domain.vocabulary.events import AgentEvent, ConversationTakenIn, Said, UserMessageReceived
from navi.domain.vocabulary.ids import LOCAL_OWNER, SessionId
from navi.domain.vocabulary.principal import NO_LIMITS
from navi.ports.event_log import Append, Recorded
from tests.support.agent_node import AgentNode, World, agent_node
from tests.support.model_server import ModelServer
from tests.support.model_wire import Cut, Done, Part, Say, Stall, calls

LOOK = ("todo", {"action": "list"})
ASKED = Said(role="user", content="Look, please")


def asked(*history: Said, content: str = ASKED.content, instructions: str = "") -> Asked:
    return Asked(
        profile_id="assistant",
        history=history,
        content=content,
        instructions=instructions,
        conversation_id=None,
        planning=False,
    )


async def take(node: AgentNode, message: Asked) -> Taken:
    return await node.take_message(node.accounts.find_principal.local(), message, session_id=None)


async def shown(node: AgentNode, taken: Taken) -> tuple[str, Ended]:
    """The text that was shown of an answer, and its end."""
    text = ""
    pieces = answer_pieces(
        node.world.log, node.sessions.find, taken.session_id, message_seq=taken.seq
    )
    async for piece in pieces:
        match piece:
            case Text(text=more):
                text += more
            case Ended():
                return text, piece
            case _:
                pass
    raise AssertionError("an answer has an end")


@pytest.mark.parametrize(
    ("answers", "text"),
    [
        (((Say("One"), Done()),), "One"),
        (((Say("Let "), Say("me"), calls(LOOK), Done()), (Say("Done"), Done())), "Let me\n\nDone"),
        (((Say("Ha"), Cut()), (Say("Whole"), Done())), "Ha\n\nWhole"),
        (((Say("It is "), Done(reason="length")), (Say("tea"), Done())), "It is tea"),
        (((calls(LOOK), Done()), (Say("Only this"), Done())), "Only this"),
        (((Say('{"name": "todo", "arguments": {}}'), Done()), (Say("Ran"), Done())), "Ran"),
    ],
)
async def test_an_answer_is_known_by_what_was_shown_of_it(
    tmp_path: Path, answers: tuple[tuple[Part, ...], ...], text: str
) -> None:
    async with ModelServer() as server, agent_node(World(), tmp_path, [server.url]) as node:
        for answer in answers:
            server.answer(*answer)
        first = await take(node, asked())
        seen, end = await shown(node, first)

        again = await take(node, asked(ASKED, Said(role="assistant", content=seen), content="On"))

        assert (seen, end.how) == (text, "completed")
        assert again.session_id == first.session_id
        await shown(node, again)


class OneByOneLog(InMemoryEventLog):
    """Shows whoever watches one event at a time, however many there are."""

    async def watch(
        self, session_id: SessionId, *, after: int
    ) -> AsyncGenerator[tuple[Recorded, ...], None]:
        async with aclosing(super().watch(session_id, after=after)) as batches:
            async for rows in batches:
                for row in rows:
                    yield (row,)


async def test_who_follows_late_is_shown_all_that_was_said_before_a_turn_waits(
    tmp_path: Path,
) -> None:
    world = World(OneByOneLog())
    (tmp_path / "assistant").mkdir()
    careful = {"approvals": [{"tool": "todo", "then": "ask"}]}
    (tmp_path / "assistant" / "config.json").write_text(json.dumps(careful))
    async with (
        ModelServer() as server,
        agent_node(world, tmp_path, [server.url], profiles=tmp_path) as node,
    ):
        server.answer(Say("Let me."), calls(LOOK), Done())
        taken = await take(node, asked())
        await world.seen(taken.session_id, "approval_requested")

        text, end = await shown(node, taken)

    assert (text, end.how, end.waits_for) == ("Let me.", "waits", ("todo",))


async def test_secrets_in_what_comes_back_are_what_they_were(tmp_path: Path) -> None:
    world = World()
    world.secrets = Secrets({"TEA_TOKEN": "Xy7-Darjeeling-99"})
    said = Said(role="user", content="!say The word is Xy7-Darjeeling-99")
    async with ModelServer() as server, agent_node(world, tmp_path, [server.url]) as node:
        first = await take(node, asked(content=said.content))
        seen, _ = await shown(node, first)
        again = await take(
            node, asked(said, Said(role="assistant", content=seen), content="!say x")
        )
        await shown(node, again)

    assert "***" in seen
    assert again.session_id == first.session_id


async def test_after_a_restart_a_conversation_goes_on_in_its_session(tmp_path: Path) -> None:
    world = World()
    async with ModelServer() as server:
        async with agent_node(world, tmp_path, [server.url]) as node:
            first = await take(node, asked(content="!say One", instructions="Be brief."))
            await shown(node, first)
        history = (Said(role="user", content="!say One"), Said(role="assistant", content="One"))
        async with agent_node(world, tmp_path, [server.url]) as other:
            again = await take(other, asked(*history, content="!say Two", instructions="Be brief."))
            await shown(other, again)

    assert again.session_id == first.session_id
    assert (await world.types(first.session_id)).count("conversation_taken_in") == 1


async def test_a_notice_that_it_waits_does_not_count(tmp_path: Path) -> None:
    notice = notice_of_waiting(["todo"], "http://127.0.0.1:8000/s/x")
    async with ModelServer() as server, agent_node(World(), tmp_path, [server.url]) as node:
        first = await take(node, asked(content="!say One"))
        await shown(node, first)
        seen = Said(role="assistant", content=f"One\n\n{notice}")
        history = (Said(role="user", content="!say One"), seen)
        again = await take(node, asked(*history, content="!say Two"))
        await shown(node, again)

    assert again.session_id == first.session_id


@pytest.mark.parametrize(
    ("shots", "chat_id"),
    [
        ((Said(role="user", content="2 + 2"), Said(role="assistant", content="4")), None),
        ((), "a chat of a page"),
    ],
)
async def test_messages_that_wait_for_a_place_do_not_join_one_session(
    tmp_path: Path, shots: tuple[Said, ...], chat_id: str | None
) -> None:
    numbers = ("one", "two", "three")
    async with (
        ModelServer() as server,
        agent_node(World(), tmp_path, [server.url], limits=replace(NO_LIMITS, turns=1)) as node,
    ):
        go_on = asyncio.Event()
        server.answer(Stall(go_on), Say("Done"), Done())

        messages = [asked(*shots, content=f"Ask {n}", instructions=f"Be {n}.") for n in numbers]
        taken = [await take(node, replace(each, conversation_id=chat_id)) for each in messages]
        go_on.set()
        for each in taken:
            await shown(node, each)

    assert len({each.session_id for each in taken}) == 3
    for number, chat in zip(numbers, server.chats, strict=True):
        system, *talk = [message["content"] for message in chat.json["messages"]]
        assert system.endswith(f"Be {number}.")
        assert not any(f"Be {n}." in system for n in numbers if n != number)
        assert talk[:-1] == [said.content for said in shots]
        assert talk[-1].startswith(f"Ask {number}")


class MeetingLog(InMemoryEventLog):
    """Lets no event of a type through until two processes have decided on one."""

    def __init__(self) -> None:
        super().__init__()
        self.meets_at: type[AgentEvent] | None = None
        self._meeting = asyncio.Barrier(2)

    async def append(self, batch: Append) -> tuple[Recorded, ...]:
        meets_at = self.meets_at
        if meets_at is not None and any(isinstance(new.event, meets_at) for new in batch.events):
            await self._meeting.wait()
            self.meets_at = None
        return await super().append(batch)


@pytest.mark.parametrize("meets_at", [UserMessageReceived, ConversationTakenIn])
async def test_of_two_processes_that_find_the_same_session_one_goes_on_in_a_fork(
    tmp_path: Path, meets_at: type[AgentEvent]
) -> None:
    log = MeetingLog()
    world = World(log)
    history = (Said(role="user", content="!say One"), Said(role="assistant", content="One"))
    async with (
        ModelServer() as server,
        agent_node(world, tmp_path, [server.url]) as node,
        agent_node(world, tmp_path, [server.url]) as other,
    ):
        first = await take(node, asked(content="!say One"))
        await shown(node, first)
        log.meets_at = meets_at
        told = [""] * 2 if meets_at is UserMessageReceived else ["Be brief.", "Be kind."]

        taken = await asyncio.gather(
            take(node, asked(*history, content="!say Two", instructions=told[0])),
            take(other, asked(*history, content="!say Three", instructions=told[1])),
        )
        for each in taken:
            await shown(node, each)

    assert len({each.session_id for each in taken}) == 2
    for each, words, instructions in zip(taken, ("Two", "Three"), told, strict=True):
        events = [row.envelope.event for row in await world.events(each.session_id)]
        received = [e.content for e in events if isinstance(e, UserMessageReceived)]
        assert received[-1:] == [f"!say {words}"]
        assert [c for c in received if c != "!say One"] == [f"!say {words}"]
        given = [e.instructions for e in events if isinstance(e, ConversationTakenIn)]
        assert [i for i in given if i] == [i for i in (instructions,) if i]


async def test_a_receipt_tells_what_a_program_has_seen_where_that_is_a_part(
    tmp_path: Path,
) -> None:
    world = World()
    async with ModelServer() as server, agent_node(world, tmp_path, [server.url]) as node:
        server.answer(Say("Half of it"), Stall(asyncio.Event()))
        first = await take(node, asked())
        await world.seen(first.session_id, "text_delta")
        await node.sessions.stop(first.session_id, by="client")
        await world.seen(first.session_id, "turn_stopped")
        seen = (ASKED, Said(role="assistant", content="Half"))
        again = await take(node, asked(*seen, content="!say On"))
        await shown(node, again)

    assert again.session_id == first.session_id
    events = [row.envelope.event for row in await world.events(first.session_id)]
    assert [e.behind_sha256 for e in events if isinstance(e, UserMessageReceived)] == [
        UNSET,
        marks_of(beginning(LOCAL_OWNER, None), seen)[-1],
    ]
