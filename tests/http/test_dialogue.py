"""A chat on a terminal whose connection was given up: the next message makes another one."""

import asyncio
import io
import signal
from collections.abc import Callable
from contextlib import aclosing

import httpx
import pytest
from rich.console import Console
from websockets.asyncio.client import ClientConnection

from navi.cli.chat.conversation import Conversation
from navi.cli.chat.dialogue import Dialogue
from navi.cli.chat.prompt_loop import run_slash_command
from navi.cli.shared.command import CommandFailed
from navi.cli.shared.remote import RemoteNavi
from tests.support.app import RunningApp, next_frame


class Place:
    """Where navi is, as long as it is anywhere."""

    def __init__(self, url: str | None) -> None:
        self.url = url

    async def __call__(self) -> str | None:
        return self.url


async def begun(app: RunningApp, place: Place, *, lost: Callable[[str], None]) -> Dialogue:
    conversation = Conversation(await app.session(), place, token=None, after=None)
    return Dialogue(conversation, Console(file=io.StringIO()), lost=lost)


async def test_a_message_taken_back_while_navi_was_away_leaves_the_next_one_its_answer(
    app: RunningApp,
) -> None:
    place = Place(None)

    def press_ctrl_c(reason: str) -> None:
        del reason
        signal.raise_signal(signal.SIGINT)

    async with aclosing(await begun(app, place, lost=press_ctrl_c)) as dialogue:
        with pytest.raises(CommandFailed, match="the message was not sent"):
            await dialogue.ask("!say one")
        place.url = app.address.url
        outcome = await dialogue.ask("!say two")

    history = await app.client.get(f"/sessions/{dialogue.conversation.session_id}/messages")
    assert outcome.content == "two"
    assert [m["content"] for m in history.json()["messages"]] == ["!say two", "two"]


async def test_a_message_whose_connection_was_refused_leaves_the_next_one_its_answer(
    app: RunningApp,
) -> None:
    place = Place(app.address.url)
    async with aclosing(await begun(app, place, lost=lambda _: None)) as dialogue:
        before = await dialogue.ask("!say one")
        await dialogue.aclose()  # as where navi starts anew
        place.url = f"{app.address.url}/nowhere"
        with pytest.raises(CommandFailed, match="navi refuses: HTTP 40"):
            await dialogue.ask("!say two")
        place.url = app.address.url
        after = await dialogue.ask("!say three")

    assert (before.content, after.content) == ("one", "three")


async def test_a_session_that_was_deleted_elsewhere_is_no_session_each_time(
    app: RunningApp,
) -> None:
    place = Place(app.address.url)
    async with aclosing(await begun(app, place, lost=lambda _: None)) as dialogue:
        session_id = dialogue.conversation.session_id
        await dialogue.ask("!say one")
        await app.client.delete(f"/sessions/{session_id}")

        for _ in range(2):
            with pytest.raises(CommandFailed, match=f"no session {session_id}"):
                await dialogue.ask("!say two")


async def passed(socket: ClientConnection, type_: str) -> None:
    while (await next_frame(socket)).get("type") != type_:
        pass


async def test_a_stop_at_the_prompt_ends_the_turn_whatever_became_of_the_connection(
    app: RunningApp,
) -> None:
    place = Place(app.address.url)
    async with (
        aclosing(await begun(app, place, lost=lambda _: None)) as dialogue,
        httpx.AsyncClient(base_url=app.address.url) as client,
    ):
        session_id = dialogue.conversation.session_id
        navi = RemoteNavi(client, token=None)
        with pytest.raises(CommandFailed):
            await dialogue.ask("x" * 300_000)
        long = {"content": "!say one\n!sleep 60\n!say two"}
        await app.client.post(f"/sessions/{session_id}/messages?wait=false", json=long)

        console = Console(file=io.StringIO())
        async with app.socket(session_id, after=0) as socket, asyncio.timeout(60):
            # What waits for its turn would be taken back, and there would be none to be stopped.
            await passed(socket, "text_delta")
            await run_slash_command("/stop", navi, await navi.session(session_id), console)
            await passed(socket, "turn_stopped")
        outcome = await dialogue.ask("!say two")

    assert outcome.content == "two"
