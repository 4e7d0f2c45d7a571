"""A session of a navi: say something, follow what happens, decide."""

import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from navi.client.connection import Connection
from navi.client.errors import Refused
from navi.client.events import Event
from navi.client.messages import Answer, Decision, Mode, Receipt, Scope
from navi.client.turn import FollowedTurn
from navi.client.watch import watch

DECIDED = 409


class Session:
    """A session by its id."""

    def __init__(self, connection: Connection, session_id: str) -> None:
        self.id = session_id
        self._connection = connection
        self._path = f"/sessions/{session_id}"

    async def ask(
        self, content: str, *, files: Sequence[str] = (), message_id: str | None = None
    ) -> Answer:
        """Say something and wait for the end of its turn, over cut connections and restarts.

        Args:
            files: names of uploads that belong to it.
            message_id: of your own, so that the same message sent again, even by another process, is one
                message and gets one answer.
        """
        return await self.answer(await self.send(content, files=files, message_id=message_id))

    async def answer(self, receipt: Receipt) -> Answer:
        """How the turn that takes a message up ends, or has ended."""
        turn = FollowedTurn(receipt.seq)
        async with aclosing(self.follow(after=receipt.seq)) as events:
            async for event in events:
                turn.see(event)
                if turn.answer is not None:
                    return turn.answer
        raise AssertionError("a session that is followed has no end")

    async def send(
        self,
        content: str,
        *,
        files: Sequence[str] = (),
        mode: Mode = "queue",
        message_id: str | None = None,
    ) -> Receipt:
        """Say something; gives the receipt at once.

        Sent again where the answer was lost, under the same id: it arrives once.

        Args:
            mode: what to do during a turn: ``queue`` for a turn of its own afterwards, ``steer`` for the
                next model call of the running one.
        """
        body: dict[str, object] = {
            "content": content,
            "mode": mode,
            "message_id": message_id or secrets.token_hex(16),
        }
        if files:
            body["files"] = list(files)
        answer = await self._connection.ask(
            "POST", f"{self._path}/messages", body, query={"wait": "false"}
        )
        return Receipt(message_id=answer["message_id"], seq=answer["seq"])

    async def stream(self, receipt: Receipt) -> AsyncGenerator[Event, None]:
        """The events of the turn that takes a message up, to its end, whenever that was or will be."""
        turn = FollowedTurn(receipt.seq)
        async with aclosing(self.follow(after=receipt.seq)) as events:
            async for event in events:
                for mine in turn.see(event):
                    yield mine
                if turn.answer is not None:
                    return

    def follow(self, *, after: int | None = None) -> AsyncGenerator[Event, None]:
        """Every event behind a ``seq``, then every new one, each once and in order, without end.

        Comes back by itself where the connection is cut, navi restarts or this reader was too slow.

        Args:
            after: the last ``seq`` that you have processed, 0 for all; None for the open turn, else what is new.
        """
        return watch(self._connection, self.id, after=after)

    async def stop(self) -> bool:
        """Stop the running turn, on whichever node it runs; whether there was one.

        Raises:
            Unavailable: also where an answer was lost: a second stop could be the end of the next turn.
        """
        return (await self._connection.ask("POST", f"{self._path}/stop"))["running"]

    async def approve(
        self,
        call_id: str,
        decision: Decision = "allow",
        *,
        scope: Scope = "once",
        note: str | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        """Decide on a tool call that waits (``approval_requested``).

        Args:
            scope: ``session`` also for every later call that the same rule asks about.
            note: what the model reads of a denial.
            arguments: what the tool gets in place of the model's.

        Raises:
            Refused: 409 where it is decided already, 404 where there is no such call.
        """
        body = {"decision": decision, "scope": scope, "note": note or None, "arguments": arguments}
        given = {key: value for key, value in body.items() if value is not None}
        path = f"{self._path}/approvals/{call_id}"
        try:
            await self._connection.ask("POST", path, given, once=True)
        except Refused as refused:
            own = refused.status == DECIDED and refused.repeated
            if not (own and await self._was_decided({"call_id": call_id, **body})):
                raise

    async def _was_decided(self, wanted: Mapping[str, Any]) -> bool:
        answer = await self._connection.ask(
            "GET", f"{self._path}/events", query={"type": "approval_decided"}
        )
        decided = [event["data"] for event in answer["events"]]
        return any(all(data.get(key) == wanted[key] for key in wanted) for data in decided)

    async def state(self) -> dict[str, Any]:
        """The session as it is now: ``name``, ``profile_id``, ``status``, ``seq``, ``waiting``, ``usage``."""
        return await self._connection.ask("GET", self._path)

    async def messages(self, *, at: int | None = None) -> list[dict[str, Any]]:
        """What people see of it, now or as it was after an event."""
        query = {} if at is None else {"at": at}
        return (await self._connection.ask("GET", f"{self._path}/messages", query=query))[
            "messages"
        ]
