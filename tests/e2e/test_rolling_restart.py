"""Two nodes restarted one after the other under load: nothing is lost, nothing is doubled."""

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from tests.support.navi_process import NaviProcess
from tests.support.promises import broken_promises, facts
from tests.support.servers import NatsServer, PostgresServer
from tests.support.two_nodes import TwoNodes, two_nodes

SESSIONS = 20
SCRIPT = "!pace 0.05\n!repeat 20 word"
ENDS = ("turn_completed", "turn_stopped", "turn_failed")
PAUSE = 0.1  # seconds between two tries to connect


class Client:
    """Speaks in a session, turn by turn, until it is ``enough``; keeps every event it sees.

    On whichever node takes it, and on the other one whenever a connection ends.
    """

    def __init__(self, nodes: TwoNodes, session_id: str, enough: asyncio.Event) -> None:
        self.session_id = session_id
        self.events: list[dict[str, Any]] = []
        self._nodes = (nodes.a, nodes.b)
        self._node = 0
        self._enough = enough
        self.answers = 0
        self._done = False

    async def talk(self) -> None:
        """Until all that was said is answered, and it is enough."""
        while not self._done:
            with suppress(ConnectionClosed, InvalidHandshake, OSError, TimeoutError):
                await self._talk_to(self._nodes[self._node])
            self._node = 1 - self._node
            await asyncio.sleep(PAUSE)

    async def _talk_to(self, node: NaviProcess) -> None:
        after = self.events[-1]["seq"] if self.events else 0
        async with node.socket(self.session_id, after=after) as socket:
            async for frame in socket:
                event = json.loads(frame)
                if event["type"] == "ready":
                    await socket.send(self._message())
                elif "data" in event:
                    self.events.append(event)
                    if event["type"] in ENDS:
                        self.answers += 1
                        self._done = self._enough.is_set()
                        if self._done:
                            return
                        await socket.send(self._message())

    def _message(self) -> str:
        """The next message, or the same one again as long as it has no answer."""
        said = {"type": "message", "content": SCRIPT, "message_id": f"m{self.answers}"}
        return json.dumps(said)


async def restarted(node: NaviProcess) -> int:
    """Ended as a roll-out does and started again; gives the exit status."""
    status = await node.stop()
    await node.start()
    return status


async def test_a_rolling_restart_under_load_loses_nothing(
    tmp_path_factory: pytest.TempPathFactory,
    postgres_server: PostgresServer,
    nats_server: NatsServer,
) -> None:
    async with two_nodes(
        tmp_path_factory, postgres_server, nats_server, NAVI_DRAIN_SECONDS="0.5"
    ) as nodes:
        sessions = await asyncio.gather(*(nodes.a.new_session() for _ in range(SESSIONS)))
        enough = asyncio.Event()
        clients = [Client(nodes, session_id, enough) for session_id in sessions]
        async with asyncio.timeout(180), asyncio.TaskGroup() as tasks:
            for client in clients:
                tasks.create_task(client.talk())
            await nodes.a.until(sessions[-1], "text_delta")
            statuses = [await restarted(nodes.a), await restarted(nodes.b)]
            enough.set()
        stored = [
            (await nodes.a.get(f"/sessions/{session_id}/events"))["events"]
            for session_id in sessions
        ]
        verified = await nodes.a.command("verify", "--json")

    assert statuses == [0, 0]
    assert verified.json["problems"] == []
    handed_over = 0
    for client, events in zip(clients, stored, strict=True):
        # What each client saw is the log, without a gap and without a repetition.
        assert client.events == events[: len(client.events)]
        turns = [event for event in events if event["turn_id"] is not None]
        assert broken_promises(events[: turns[-1]["seq"]]) == []
        names = facts(events)
        assert names.count("user_message_received") == client.answers
        assert names.count("turn_completed") == names.count("turn_started") == client.answers
        resumed = [e["data"]["reason"] for e in events if e["type"] == "turn_resumed"]
        assert set(resumed) <= {"handed_over"}
        handed_over += len(resumed)
    assert handed_over > 0
