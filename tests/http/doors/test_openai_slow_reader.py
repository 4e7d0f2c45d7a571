"""A stream of OpenAI's door whose reader takes nothing for a while."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from navi.application.doors.answer_pieces import Ended, Piece, Text
from navi.http.doors.openai import answering
from navi.http.doors.openai.answering import Reply, answer_stream
from navi.http.live.outbox import MAX_FRAMES, Outbox
from navi.http.requests.services import Services
from tests.support.app import TIMEOUT, running_app

REPLY = Reply(id="chatcmpl-1", created=1, model="assistant", headers={}, session_link="")
MANY = 10 * MAX_FRAMES


class Answer:
    """An answer in many pieces, and a reader of it.

    Attributes:
        told: how many pieces were asked for.
        reads: to be set once the reader takes what comes.
        taken: what it has taken.
    """

    def __init__(self, *, ends: bool) -> None:
        self.told = 0
        self.reads = asyncio.Event()
        self.taken = b""
        self._ends = ends

    async def pieces(self) -> AsyncGenerator[Piece, None]:
        for _ in range(MANY if self._ends else MAX_FRAMES // 10):
            self.told += 1
            yield Text("word ")
        if not self._ends:
            await asyncio.Event().wait()
        yield Ended(how="completed")

    async def sent_to(self, services: Services) -> None:
        stream = answer_stream(services, self.pieces(), REPLY, Outbox())
        me = services.accounts.find_principal.local()
        scope: Any = {"type": "http", "path": "/v1/chat/completions", "user": me}
        async with asyncio.timeout(TIMEOUT):
            await stream(scope, self._receive, self._send)

    async def _receive(self) -> Any:
        await asyncio.Event().wait()  # it stays

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.body":
            await self.reads.wait()
            self.taken += message["body"]


async def turns_of_the_loop() -> None:
    """Let everybody go on who can."""
    for _ in range(100):
        await asyncio.sleep(0)


async def test_it_is_waited_for_and_misses_nothing(tmp_path: Path) -> None:
    found: list[Services] = []
    answer = Answer(ends=True)
    async with running_app(tmp_path, change=lambda services: found.append(services) or services):
        sending = asyncio.create_task(answer.sent_to(found[0]))
        await turns_of_the_loop()
        told_meanwhile = answer.told

        answer.reads.set()
        await sending

    assert 0 < told_meanwhile < MAX_FRAMES
    assert answer.taken.count(b'"content":"word "') == MANY
    assert answer.taken.endswith(b"data: [DONE]\n\n")


async def test_of_a_node_that_goes_it_gets_what_was_said_before_it_hears_of_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "LAST_LOOK_SECONDS", 0)
    found: list[Services] = []
    answer = Answer(ends=False)
    async with running_app(tmp_path, change=lambda services: found.append(services) or services):
        sending = asyncio.create_task(answer.sent_to(found[0]))
        await turns_of_the_loop()
        found[0].draining.over.set()
        await turns_of_the_loop()

        answer.reads.set()
        await sending

    [*said, error, done] = answer.taken.strip().split(b"\n\n")
    assert sum(b'"content":"word "' in frame for frame in said) == answer.told
    assert b'"code":"node_going"' in error
    assert done == b"data: [DONE]"
