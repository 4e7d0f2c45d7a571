"""The OpenAI door, asked by the official client for Python and by hand; all on a log in memory."""

import asyncio
import base64
import json
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from openai import (
    APIError,
    AsyncOpenAI,
    BadRequestError,
    DefaultAsyncHttpxClient,
    InternalServerError,
    NotFoundError,
)
from PIL import Image

from navi.application.doors.take_message import Asked
from navi.domain.vocabulary.errors import LogUnavailable, NotFound
from navi.domain.vocabulary.events import Said, UserMessageReceived
from navi.domain.vocabulary.ids import Owner, SessionId
from navi.domain.vocabulary.principal import Principal
from navi.http.doors.openai import answering
from navi.http.server.proxies import Proxies
from navi.ports.event_log import Append, Recorded
from tests.adapters.pictures.test_worker import file_of
from tests.support.agent_node import World
from tests.support.app import TIMEOUT, RunningApp, SwitchedLog, running_app
from tests.support.model_wire import Done, Say, Stall, Think

MODEL = "assistant"
HEADER = "x-navi-session"
CHAT = "X-OpenWebUI-Chat-Id"
UNKNOWN = "01890000-0000-7000-8000-000000000000"
ADA = Principal(user_id=Owner("0193aaaa-0000-7000-8000-0000000000aa"), name="ada", role="user")
LOOPBACK = Proxies(peers=(ip_network("127.0.0.1/32"),))
Message = Any  # the client's types are unions of all that OpenAI takes


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(app: RunningApp) -> AsyncGenerator[AsyncOpenAI, None]:
    async with openai_client(app) as made:
        yield made


def openai_client(app: RunningApp) -> AsyncOpenAI:
    return AsyncOpenAI(
        base_url=f"{app.address.url}/v1",
        api_key="any",
        timeout=TIMEOUT,
        http_client=DefaultAsyncHttpxClient(trust_env=False),
    )


def user(content: str) -> Message:
    return {"role": "user", "content": content}


def assistant(content: str) -> Message:
    return {"role": "assistant", "content": content}


async def ask(
    app: RunningApp, messages: Sequence[Message], headers: Any = None, **more: Any
) -> Any:
    """What the service answers to a conversation, as it stands."""
    body = {"model": MODEL, "messages": messages, **more}
    return await app.client.post("/v1/chat/completions", json=body, headers=headers)


async def told(
    app: RunningApp, messages: Sequence[Message], headers: Any = None
) -> tuple[str, str]:
    """The session that went on with a conversation, and the text of the answer."""
    response = await ask(app, messages, headers)
    assert response.status_code == 200, response.text
    return response.headers[HEADER], response.json()["choices"][0]["message"]["content"]


async def get(app: RunningApp, session_id: str, what: str = "") -> Any:
    response = await app.client.get(f"/sessions/{session_id}{what}")
    assert response.status_code == 200, response.text
    return response.json()


def picture(url: str) -> Message:
    return {"type": "image_url", "image_url": {"url": url}}


def frames_of(text: str) -> list[Any]:
    """The pieces of a stream; the end mark stays as it is."""
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


class LogThatLeaves(SwitchedLog):
    """A log that is out of reach as soon as a message stands in it."""

    async def append(self, batch: Append) -> tuple[Recorded, ...]:
        rows = await super().append(batch)
        if any(row.type == UserMessageReceived.TYPE for row in rows):
            self.reachable = False
        return rows


class LogThatSaysNothing(SwitchedLog):
    """A log that stores messages, and whose word of it is lost on the way.

    Attributes:
        received: how many it has stored.
    """

    def __init__(self) -> None:
        super().__init__()
        self.received = 0

    async def append(self, batch: Append) -> tuple[Recorded, ...]:
        rows = await super().append(batch)
        if any(row.type == UserMessageReceived.TYPE for row in rows):
            self.received += 1
            raise LogUnavailable("Postgres at postgresql://navi:secret@db does not answer")
        return rows


# --- the official client ------------------------------------------------------------------------


async def test_the_models_are_the_profiles(client: AsyncOpenAI) -> None:
    listed = [model.id async for model in client.models.list()]

    assert {"assistant", "developer", "researcher"} <= set(listed)
    assert (await client.models.retrieve("assistant")).owned_by == "navi"
    with pytest.raises(NotFoundError) as refused:
        await client.models.retrieve("nobody")
    assert refused.value.code == "model_not_found"


async def test_an_answer_comes_as_a_whole(client: AsyncOpenAI) -> None:
    completion = await client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "!think hm\n!say Tea\n!usage 20 4"}]
    )

    [choice] = completion.choices
    assert (choice.message.content, choice.finish_reason) == ("Tea", "stop")
    assert choice.message.model_extra == {"reasoning_content": "hm", "reasoning": "hm"}
    assert completion.usage is not None
    assert completion.usage.model_dump(exclude_none=True) == {
        "prompt_tokens": 20,
        "completion_tokens": 4,
        "total_tokens": 24,
    }
    assert (completion.object, completion.model) == ("chat.completion", MODEL)
    assert completion.created > 1_700_000_000


async def test_pictures_of_a_message_are_shown_to_a_model_that_sees(tmp_path: Path) -> None:
    square = file_of(Image.new("RGB", (8, 8), "blue"), "PNG")
    url = f"data:image/png;base64,{base64.b64encode(square).decode()}"
    content: Message = [{"type": "text", "text": "What are these?"}, picture(url), picture(url)]
    async with running_app(tmp_path) as app, openai_client(app) as client:
        app.models.otherwise_at = {"/api/show": {"capabilities": ["completion", "vision"]}}
        app.models.answer(Say("Blue"), Done())
        app.models.answer(Say("Yes"), Done())
        first = await client.chat.completions.with_raw_response.create(
            model=MODEL, messages=[{"role": "user", "content": content}]
        )
        # As pages do: the whole conversation again, with its pictures.
        history: list[Message] = [{"role": "user", "content": content}, assistant("Blue")]
        again = await told(app, [*history, user("Really?")])
        files = (await get(app, first.headers[HEADER], "/files"))["files"]
        types = [e["type"] for e in (await get(app, first.headers[HEADER], "/events"))["events"]]
        [asked, _] = [chat.json["messages"] for chat in app.models.chats]

    assert again == (first.headers[HEADER], "Yes")
    assert [file["name"] for file in files] == ["picture.png", "picture-2.png"]
    assert types.count("image_shown") == types.count("file_uploaded") == 2
    assert len(asked[-1]["images"]) == 2


async def test_a_message_may_be_pictures_alone(tmp_path: Path) -> None:
    square = file_of(Image.new("RGB", (8, 8), "blue"), "PNG")
    alone = picture(f"data:image/png;base64,{base64.b64encode(square).decode()}")
    async with running_app(tmp_path) as app, openai_client(app) as client:
        app.models.otherwise_at = {"/api/show": {"capabilities": ["completion", "vision"]}}
        app.models.answer(Say("Blue"), Done())
        app.models.answer(Say("Yes"), Done())
        talk: list[Message] = [{"role": "user", "content": [alone, alone]}]
        first = await client.chat.completions.with_raw_response.create(model=MODEL, messages=talk)
        again = await told(app, [*talk, assistant("Blue"), user("Really?")])
        rows = (await get(app, first.headers[HEADER], "/messages"))["messages"]
        [asked, _] = [chat.json["messages"] for chat in app.models.chats]

    assert again == (first.headers[HEADER], "Yes")
    assert len(asked[-1]["images"]) == 2
    said = [(row["content"], row.get("files")) for row in rows if row["role"] == "user"]
    assert said[0] == ("[picture]\n[picture]", ["picture.png", "picture-2.png"])


async def test_an_answer_comes_in_pieces_with_usage_where_it_is_asked_for(
    app: RunningApp, client: AsyncOpenAI
) -> None:
    go_on = asyncio.Event()
    app.models.answer(Think("h"), Think("m"), Say("Te"), Stall(go_on), Say("a"), Done())

    stream = await client.chat.completions.create(
        model=MODEL,
        messages=[user("Which?")],
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks: list[Any] = []
    async for chunk in stream:
        chunks.append(chunk)
        if chunk.choices and chunk.choices[0].delta.content:
            go_on.set()

    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert [delta.content for delta in deltas if delta.content] == ["Te", "a"]
    thought: list[str] = [
        (delta.model_extra or {}).get("reasoning_content", "") for delta in deltas
    ]
    assert "".join(thought) == "hm"
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    assert chunks[-1].choices == []
    assert chunks[-1].usage.total_tokens == 17
    assert all(chunk.usage is None for chunk in chunks[:-1])


async def test_what_is_said_between_tools_is_one_text_and_its_calls_count_together(
    app: RunningApp, client: AsyncOpenAI
) -> None:
    said = '!say Let me look.\n!tool todo {"action": "list"}\n!then\n!say Done.'

    whole = await client.chat.completions.create(model=MODEL, messages=[user(said)])
    streamed = await ask(app, [user(said)], stream=True)

    deltas = [f["choices"][0]["delta"] for f in frames_of(streamed.text) if f != "[DONE]"]
    assert whole.choices[0].message.content == "Let me look.\n\nDone."
    assert "".join(delta.get("content", "") for delta in deltas) == "Let me look.\n\nDone."
    assert all("usage" not in f for f in frames_of(streamed.text) if f != "[DONE]")
    events = (await get(app, streamed.headers[HEADER], "/events"))["events"]
    [completed] = [e for e in events if e["type"] == "turn_completed"]
    assert whole.usage is not None
    assert whole.usage.prompt_tokens == completed["data"]["usage"]["prompt_tokens"]


async def test_an_answer_that_was_cut_off_says_so(app: RunningApp, client: AsyncOpenAI) -> None:
    for _ in range(8):  # navi asks it to go on, and at last lets it be
        app.models.answer(Say("long "), Done(reason="length"))

    completion = await client.chat.completions.create(model=MODEL, messages=[user("Tell.")])
    app.models._queue.clear()

    assert completion.choices[0].finish_reason == "length"
    assert "\n" not in (completion.choices[0].message.content or "")


# --- which session ------------------------------------------------------------------------------


async def test_a_conversation_stays_one_session_without_being_named(app: RunningApp) -> None:
    talk = [user("!think a\n!say One")]
    first, one = await told(app, talk)
    talk += [assistant(one), user("!say Two \n\n!say  words")]
    streamed = await ask(app, talk, stream=True)
    frames = [f for f in frames_of(streamed.text) if f != "[DONE]"]
    two = "".join(f["choices"][0]["delta"].get("content", "") for f in frames)
    # As chat pages send it back: trimmed, and in parts.
    parts = [{"type": "text", "text": f" {two.strip()}\n"}]
    talk += [{"role": "assistant", "content": parts}, user("!say Three")]
    third, _ = await told(app, talk)

    assert first == streamed.headers[HEADER] == third
    types = await app.world.types(SessionId(first))
    assert types.count("turn_completed") == 3
    assert "conversation_taken_in" not in types


async def test_the_header_names_the_session(app: RunningApp) -> None:
    session_id = await app.session()

    named, text = await told(app, [user("!say Here")], {"X-Navi-Session": session_id})
    again, _ = await told(
        app, [user("anything"), assistant("else"), user("!say And here")], {"X-Navi-Session": named}
    )

    assert (named, again, text) == (session_id, session_id, "Here")
    assert (await app.world.types(session_id)).count("turn_completed") == 2


@pytest.mark.parametrize("headers", [{}, {"X-OpenWebUI-Task": "title_generation"}])
async def test_a_session_that_is_named_stays_whatever_is_asked_in_it(
    app: RunningApp, headers: dict[str, str]
) -> None:
    session_id = await app.session()

    named, _ = await told(
        app, [user("### Task:\n!say x")], {"X-Navi-Session": session_id, **headers}
    )

    assert named == session_id
    await get(app, session_id)


async def test_what_no_session_knows_is_taken_in(app: RunningApp) -> None:
    talk = [
        {"role": "system", "content": "Rhyme."},
        user("Unheard-of question"),
        assistant("Answered elsewhere."),
        user("!say Well"),
    ]

    session_id, _ = await told(app, talk)

    events = (await get(app, session_id, "/events"))["events"]
    assert [e["type"] for e in events][:3] == [
        *("session_created", "conversation_taken_in", "user_message_received")
    ]
    assert events[1]["data"] == {
        "messages": [
            {"role": "user", "content": "Unheard-of question"},
            {"role": "assistant", "content": "Answered elsewhere."},
        ],
        "instructions": "Rhyme.",
    }
    for buffer in ("messages", "context"):
        shown = (await get(app, session_id, f"/{buffer}"))["messages"]
        assert [(m["seq"], m["role"], m["content"]) for m in shown[:3]] == [
            (2, "user", "Unheard-of question"),
            (2, "assistant", "Answered elsewhere."),
            (3, "user", "!say Well"),
        ]
    later, _ = await told(app, [*talk, assistant("Well"), user("!say Still")])
    assert later == session_id


async def test_an_edited_message_goes_on_in_a_fork_before_it(app: RunningApp) -> None:
    talk = [user("!say Root"), assistant("Root"), user("!say Stem")]
    await told(app, talk[:1])
    origin, _ = await told(app, talk)
    before = await app.world.events(SessionId(origin))

    forked, text = await told(app, [*talk[:2], user("!say Leaf")])

    assert forked != origin
    assert text == "Leaf"
    session = await get(app, forked)
    assert session["forked_from"]["session_id"] == origin
    contents = [m["content"] for m in (await get(app, forked, "/messages"))["messages"]]
    assert contents == ["!say Root", "Root", "!say Leaf", "Leaf"]
    assert await app.world.events(SessionId(origin)) == before
    # Each of them goes on by itself.
    assert (await told(app, [*talk, assistant("Stem"), user("!say A")]))[0] == origin
    assert (await told(app, [*talk[:2], user("!say Leaf"), assistant("Leaf"), user("!say B")]))[
        0
    ] == forked


async def test_the_same_once_more_is_a_new_answer_in_a_fork(app: RunningApp) -> None:
    talk = [user("!say Again I"), assistant("Again I"), user("!say Again II")]
    origin, _ = await told(app, talk[:1])
    await told(app, talk)

    regenerated, _ = await told(app, talk)

    assert (await get(app, regenerated))["forked_from"]["session_id"] == origin


async def test_an_edited_answer_is_taken_in_behind_its_question(app: RunningApp) -> None:
    origin, _ = await told(app, [user("!say Raw")])

    edited, _ = await told(app, [user("!say Raw"), assistant("Cooked"), user("!say On")])

    assert (await get(app, edited))["forked_from"]["session_id"] == origin
    contents = [m["content"] for m in (await get(app, edited, "/messages"))["messages"]]
    assert contents == ["!say Raw", "Cooked", "!say On", "On"]


async def test_chats_that_a_page_names_are_kept_apart(app: RunningApp) -> None:
    talk = [user("!say Same words"), assistant("Same words"), user("!say Go on")]
    one, two = {CHAT: "chat-1"}, {CHAT: "chat-2"}
    first, _ = await told(app, talk[:1], one)
    second, _ = await told(app, talk[:1], two)

    assert (await told(app, talk, one))[0] == first
    assert (await told(app, talk, two))[0] == second
    # Its very first message, edited: a fork from before it.
    edited, _ = await told(app, [user("!say Other words")], one)
    assert (await get(app, edited))["forked_from"]["session_id"] == first
    contents = [m["content"] for m in (await get(app, edited, "/messages"))["messages"]]
    assert contents == ["!say Other words", "Other words"]


async def test_another_model_is_another_profile_and_the_agents_own_switch_stays(
    app: RunningApp,
) -> None:
    first = '!tool switch_profile {"profile_id": "researcher", "reason": "r"}\n!then\n!say One'
    session_id, _ = await told(app, [user(first)])
    talk = [user(first), assistant("One"), user("!say Two")]

    await told(app, talk)
    assert (await get(app, session_id))["profile_id"] == "researcher"
    talk += [assistant("Two"), user("!say Three")]
    response = await app.client.post(
        "/v1/chat/completions", json={"model": "developer", "messages": talk}
    )

    assert response.headers[HEADER] == session_id
    assert (await get(app, session_id))["profile_id"] == "developer"


async def test_a_session_is_found_whether_or_not_the_read_models_have_it(app: RunningApp) -> None:
    talk = [user("!say Stored"), assistant("Stored"), user("!say Go on")]
    first, _ = await told(app, talk[:1])
    await app.world.project()

    assert (await told(app, talk))[0] == first


async def test_nobody_goes_on_from_what_somebody_else_has_said(app: RunningApp) -> None:
    talk = (Said(role="user", content="!say Mine"), Said(role="assistant", content="Mine"))
    mine, _ = await told(app, [user("!say Mine")])

    def asked(*history: Said) -> Asked:
        return Asked(
            profile_id=MODEL,
            history=history,
            content="!say Hers",
            instructions="",
            conversation_id=None,
            planning=False,
        )

    hers = await app.node.take_message(ADA, asked(*talk), session_id=None)
    with pytest.raises(NotFound):
        await app.node.take_message(ADA, asked(), session_id=SessionId(mine))
    me = app.node.accounts.find_principal.local()
    again = await app.node.take_message(me, asked(*talk), session_id=None)
    await app.world.seen(hers.session_id, "turn_completed")
    await app.world.seen(again.session_id, "turn_completed", 2)

    assert hers.session_id != mine
    assert (await app.node.sessions.find(hers.session_id)).owner == ADA.user_id
    assert again.session_id == mine


# --- instructions -------------------------------------------------------------------------------


async def test_instructions_stand_behind_what_other_sessions_begin_with(app: RunningApp) -> None:
    rhymes = {"role": "system", "content": "Answer in rhymes."}
    count = len(app.models.chats)
    session_id, _ = await told(app, [rhymes, user("!say Instructed")])
    talk = [rhymes, user("!say Instructed"), assistant("Instructed"), user("!say Two")]
    await told(app, talk)
    talk += [assistant("Two"), user("!say Three")]
    changed, _ = await told(app, [{"role": "system", "content": "In prose now."}, *talk[1:]])

    bodies = [chat.json["messages"] for chat in app.models.chats[count:]]
    systems = {body[0]["content"] for body in bodies}
    assert len(systems) == 1  # the prefix stays
    assert systems.pop().endswith("---\n\nAnswer in rhymes.")
    assert bodies[1][: len(bodies[0])] == bodies[0]
    assert bodies[2][: len(bodies[1])] == bodies[1]
    assert "In prose now." in bodies[2][-1]["content"]
    assert changed == session_id
    taken = [r.envelope.event for r in await app.world.events(SessionId(session_id))]
    assert [getattr(e, "instructions", None) for e in taken].count("In prose now.") == 1


# --- what chat pages ask for themselves ---------------------------------------------------------


@pytest.mark.parametrize(
    ("messages", "headers"),
    [
        ([user("### Task:\nGenerate a concise title.\n!say Tea\n!tool todo {}")], {CHAT: "c"}),
        ([user("Title this.\n!say Tea")], {CHAT: "c", "X-OpenWebUI-Task": "title_generation"}),
        (
            [
                user(
                    "Provide a concise, 5-word-or-less title for the conversation, using title case "
                    "conventions. Only return the title itself.\n\nConversation:\nUser: hi\nAI: Hello\n"
                    "!say Tea"
                )
            ],
            {},
        ),
    ],
)
async def test_a_question_of_the_page_for_itself_leaves_nothing_behind(
    app: RunningApp, messages: list[Message], headers: dict[str, str]
) -> None:
    before = (await app.client.get("/sessions")).json()["sessions"]
    count = len(app.models.chats)

    response = await ask(app, messages, headers)

    assert response.status_code == 200
    assert response.json()["choices"][0]["message"]["content"].startswith("Tea")
    assert HEADER not in response.headers
    assert (await app.client.get("/sessions")).json()["sessions"] == before
    asked = app.models.chats[count:]
    assert all("tools" not in chat.json for chat in asked)


async def test_tools_that_open_webui_offers_with_every_message_are_passed_over(
    app: RunningApp,
) -> None:
    # As recorded of Open WebUI 0.12.4, its connection set up as the documentation says; 35 tools more.
    tool = {"name": "get_current_timestamp", "description": "Get the current Unix timestamp."}
    tools = [{"type": "function", "function": {**tool, "parameters": {"type": "object"}}}]

    response = await ask(app, [user("!say Well")], {CHAT: "9f"}, stream=True, tools=tools)

    assert response.status_code == 200, response.text
    assert "Well" in response.text


@pytest.mark.parametrize(
    "more",
    [
        # As Open WebUI asks where it is told to leave its own tools away.
        {
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": 0.7,
            "metadata": {"chat_id": "c"},
            "tools": [],
        },
        # As LibreChat does, whose client is LangChain's.
        {
            "stream": True,
            "stream_options": {"include_usage": True},
            "n": 1,
            "user": "65f0c0ffee",
            "top_p": 1,
            "presence_penalty": 0,
            "frequency_penalty": 0,
            "logprobs": False,
        },
    ],
)
async def test_what_chat_pages_send_beside_is_passed_over(
    app: RunningApp, more: dict[str, Any]
) -> None:
    response = await ask(app, [user("!say Fine")], **more)

    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.text.endswith("data: [DONE]\n\n")
    assert frames_of(response.text)[-2]["usage"]["total_tokens"] == 17


async def test_a_template_that_nobody_filled_in_is_no_task(app: RunningApp) -> None:
    headers = {"X-OpenWebUI-Task": "{{TASK}}", CHAT: ""}

    response = await ask(app, [user("!say Kept")], headers)

    await get(app, response.headers[HEADER])


# --- going away ---------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("half", [True, False])
async def test_who_goes_away_stops_the_turn(app: RunningApp, *, stream: bool, half: bool) -> None:
    session_id = await app.session()
    go_on = asyncio.Event()
    count = len(app.models.chats)
    app.models.answer(Say("Begun"), Stall(go_on), Done())
    body = json.dumps({"model": MODEL, "messages": [user("Go.")], "stream": stream}).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"X-Navi-Session: {session_id}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", app.address.port)
    writer.write(head.encode() + body)
    await app.world.seen(session_id, "text_delta")

    if half:
        writer.write_eof()
    else:
        sock: socket.socket = writer.get_extra_info("socket")
        assert sock is not None
        writer.transport.abort()
    stopped = await app.world.seen(session_id, "turn_stopped")
    go_on.set()
    with suppress(ConnectionError):
        await reader.read()  # to the end, which comes as soon as nobody waits
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()

    assert json.loads(stopped.data) == {"by": "client"}
    await app.models.chats[count].end()
    assert app.models.chats[count].client_left


async def test_after_a_stop_the_conversation_goes_on_with_what_was_seen(
    app: RunningApp, client: AsyncOpenAI
) -> None:
    go_on = asyncio.Event()
    app.models.answer(Say("Half of "), Stall(go_on), Done())
    asked = [user("Tell me all of it")]
    stream = await client.chat.completions.create(model=MODEL, messages=asked, stream=True)
    session_id = SessionId(stream.response.headers[HEADER])
    async for chunk in stream:
        if chunk.choices[0].delta.content:
            break
    await stream.close()
    await app.world.seen(session_id, "turn_stopped")
    go_on.set()

    for seen in ("Half", "Half of"):
        talk = [*asked, assistant(seen), user("!say Go on then")]
        if seen == "Half":
            assert (await told(app, talk))[0] == session_id
    assert (await app.world.types(session_id)).count("turn_started") == 2
    # Its own words for what it has seen stay those by which it is known.
    talk = [*asked, assistant("Half"), user("!say Go on then"), assistant("Go on then")]
    assert (await told(app, [*talk, user("!say And on")]))[0] == session_id


async def test_silence_is_filled_with_comments(
    app: RunningApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "KEEP_ALIVE_SECONDS", 0.01)
    go_on = asyncio.Event()
    app.models.answer(Stall(go_on), Say("Late"), Done())
    body = {"model": MODEL, "messages": [user("Slowly")], "stream": True}

    lines: list[str] = []
    async with app.client.stream("POST", "/v1/chat/completions", json=body) as response:
        async for line in response.aiter_lines():
            lines.append(line)
            if line == ": keep-alive":
                go_on.set()

    assert ": keep-alive" in lines
    assert lines[-2:] == ["data: [DONE]", ""]


async def test_a_stream_is_its_pieces_and_nothing_else(app: RunningApp) -> None:
    response = await ask(app, [user("!say Plain")], stream=True)

    lines = [line for line in response.text.splitlines() if line]
    deltas = [frame["choices"][0]["delta"] for frame in frames_of(response.text)[:-1]]
    assert all(line.startswith("data: ") for line in lines)
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert "".join(delta.get("content", "") for delta in deltas) == "Plain"
    assert lines[-1] == "data: [DONE]"
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-accel-buffering"] == "no"
    await get(app, response.headers[HEADER])


# --- a node that goes ---------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
async def test_a_turn_that_goes_on_elsewhere_is_an_error_that_nobody_tries_again(
    own_app: RunningApp, *, stream: bool
) -> None:
    session_id = await own_app.session()
    own_app.models.answer(Say("Begun"), Stall(asyncio.Event()))
    asking = asyncio.create_task(ask(own_app, [user("Go.")], {HEADER: session_id}, stream=stream))
    await own_app.world.seen(session_id, "text_delta")

    own_app.switches.draining.over.set()
    response = await asking

    if stream:
        [*said, error, done] = frames_of(response.text)
        assert said[-1]["choices"][0]["delta"] == {"content": "Begun"}
        assert done == "[DONE]"
    else:
        error = response.json()
        assert (response.status_code, response.headers["x-should-retry"]) == (503, "false")
    assert (error["error"]["code"], error["error"]["type"]) == ("node_going", "server_error")
    assert "turn_stopped" not in await own_app.world.types(session_id)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_turn_that_ends_in_the_last_moment_of_its_grace_is_answered(
    own_app: RunningApp, monkeypatch: pytest.MonkeyPatch, *, stream: bool
) -> None:
    monkeypatch.setattr(answering, "LAST_LOOK_SECONDS", TIMEOUT)
    session_id, go_on = await own_app.session(), asyncio.Event()
    own_app.models.answer(Say("In "), Stall(go_on), Say("time"), Done())
    asking = asyncio.create_task(ask(own_app, [user("Go.")], {HEADER: session_id}, stream=stream))
    await own_app.world.seen(session_id, "text_delta")

    own_app.switches.draining.over.set()
    go_on.set()
    response = await asking

    if stream:
        deltas = [frame["choices"][0]["delta"] for frame in frames_of(response.text)[:-1]]
        assert "".join(delta.get("content", "") for delta in deltas) == "In time"
    else:
        assert response.json()["choices"][0]["message"]["content"] == "In time"


# --- waiting for a person -----------------------------------------------------------------------


async def test_a_turn_that_waits_says_so_and_waits_on(app: RunningApp) -> None:
    wanted = [{"tool": "todo", "then": "ask"}]
    profile = app.files / "no-profiles" / "careful"
    profile.mkdir(parents=True, exist_ok=True)
    (profile / "config.json").write_text(json.dumps({"approvals": wanted}))
    asked = user('!say Let me.\n!tool todo {"action": "list"}\n!then\n!say Looked.')

    response = await ask(app, [asked], model="careful")

    [choice] = response.json()["choices"]
    session_id = SessionId(response.headers[HEADER])
    text = choice["message"]["content"]
    assert choice["finish_reason"] == "stop"
    assert text.startswith("Let me.\n\n⏸ navi waits for your decision: may the agent call `todo`?")
    assert f"{app.address.url}/s/{session_id}" in text
    assert "navi approvals" in text
    [waiting] = (await get(app, session_id))["waiting"]
    # A message meanwhile stands behind it, and says so as well.
    talk = [asked, assistant(text)]
    for said in ("!say Behind", "!say Behind that"):
        talk.append(user(said))
        later = await ask(app, talk, model="careful")
        assert later.headers[HEADER] == session_id
        talk.append(assistant(later.json()["choices"][0]["message"]["content"]))
        assert "⏸ navi waits" in talk[-1]["content"]
    await app.client.post(
        f"/sessions/{session_id}/approvals/{waiting['call_id']}", json={"decision": "allow"}
    )
    await app.world.seen(session_id, "turn_completed", 3)
    # What the turns said since stands in the session only; the program goes on from what it has.
    for said in ("Once", "Twice"):
        talk.append(user(f"!say {said}"))
        response = await ask(app, talk, model="careful")
        assert response.headers[HEADER] == session_id
        talk.append(assistant(said))
    types = await app.world.types(session_id)
    assert (types.count("turn_completed"), types.count("turn_stopped")) == (5, 0)


async def test_behind_a_proxy_that_ends_tls_the_link_to_decide_is_encrypted(tmp_path: Path) -> None:
    asked = user('!tool todo {"action": "list"}\n!then\n!say Looked.')
    async with running_app(tmp_path, proxies=LOOPBACK) as own:
        profile = own.files / "no-profiles" / "careful"
        profile.mkdir(parents=True)
        wanted = [{"tool": "todo", "then": "ask"}]
        (profile / "config.json").write_text(json.dumps({"approvals": wanted}))
        response = await ask(own, [asked], {"X-Forwarded-Proto": "https"}, model="careful")

    text = response.json()["choices"][0]["message"]["content"]
    link = f"https://127.0.0.1:{own.address.port}/s/{response.headers[HEADER]}"
    assert f"Decide at {link} or" in text


# --- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"n": 2}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": " "}]}, "messages[0].content"),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "text", "text": "What is it?"},
                            {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}},
                        ],
                    }
                ]
            },
            "messages[0].content[1]",
        ),
        *(
            ({"messages": [{"role": "user", "content": [picture(url)]}]}, "messages[0].content[0]")
            for url in (
                "https://example.org/cat.png",
                "data:image/png;base64,",
                "data:image/png,abc",
                "data:image/png;base64,%%%",
                "data:image/svg+xml;base64,PHN2Zy8+",
                "",
            )
        ),
    ],
)
async def test_what_is_not_offered_is_refused_in_openais_form(
    client: AsyncOpenAI, more: dict[str, Any], param: str
) -> None:
    asked: Any = {"model": MODEL, "messages": [user("x")], **more}

    with pytest.raises(BadRequestError) as refused:
        await client.chat.completions.create(**asked)

    assert (refused.value.param, refused.value.code) == (param, "bad_input")
    assert refused.value.type == "invalid_request_error"


async def test_what_is_not_there_is_404_in_openais_form(
    app: RunningApp, client: AsyncOpenAI
) -> None:
    with pytest.raises(NotFoundError) as refused:
        await client.chat.completions.create(model="gpt-5", messages=[user("x")])
    assert refused.value.code == "model_not_found"
    for named in (UNKNOWN, "nonsense"):
        with pytest.raises(NotFoundError):
            await client.chat.completions.create(
                model=MODEL, messages=[user("x")], extra_headers={"X-Navi-Session": named}
            )
    response = await app.client.get("/v1/embeddings")
    assert response.json()["error"]["code"] == "no_such_route"


async def test_every_other_error_is_in_openais_form_too(app: RunningApp) -> None:
    url = "/v1/chat/completions"
    foreign = await app.client.post(url, content=b"{}", headers={"Origin": "http://evil.example"})
    malformed = await app.client.post(url, content=b"{")
    large = await app.client.post(url, content=b"x" * 9_000_000)
    wrong = await app.client.get(url)

    answers = [foreign, malformed, large, wrong]
    assert [each.status_code for each in answers] == [403, 400, 413, 405]
    assert all(
        set(each.json()["error"]) == {"message", "type", "param", "code"} for each in answers
    )
    assert all(each.headers["content-type"] == "application/json" for each in answers)


@pytest.mark.parametrize(
    ("head", "body", "status", "code"),
    [
        (
            "POST {url} HTTP/1.1\r\nConnection: close\r\nContent-Length: 1\r\n",
            b"{",
            400,
            "bad_input",
        ),
        (
            "POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 2\r\n"
            "Connection: close\r\nTransfer-Encoding: chunked\r\n",
            *(b"2\r\n{}\r\n0\r\n\r\n", 400, "bad_request"),
        ),
        (
            "GET /v1/models HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
            *(b"", 404, "not_found"),
        ),
    ],
    ids=["whole address", "two lengths", "WebSocket"],
)
async def test_errors_are_in_openais_form_however_a_request_is_written(
    app: RunningApp, head: str, body: bytes, status: int, code: str
) -> None:
    host = f"127.0.0.1:{app.address.port}"
    head = head.format(url=f"{app.address.url}/v1/chat/completions")

    reader, writer = await asyncio.open_connection("127.0.0.1", app.address.port)
    writer.write(f"{head}Host: {host}\r\n\r\n".encode() + body)
    async with asyncio.timeout(TIMEOUT):
        said, _, error = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()

    assert said.split()[1] == str(status).encode()
    assert json.loads(error)["error"]["code"] == code


async def test_a_store_that_is_away_is_a_server_error(tmp_path: Path) -> None:
    log = SwitchedLog()
    async with running_app(tmp_path, world=World(log)) as own:
        log.reachable = False
        async with openai_client(own).with_options(max_retries=0) as client:
            with pytest.raises(InternalServerError) as refused:
                await client.models.list()
        log.reachable = True

    assert refused.value.status_code == 503


async def test_a_turn_that_fails_is_an_error_that_nobody_tries_again(
    app: RunningApp, client: AsyncOpenAI
) -> None:
    app.models.refuse(400, "no such thing")
    with pytest.raises(InternalServerError) as refused:
        await client.chat.completions.create(model=MODEL, messages=[user("Fail once")])
    app.models.refuse(400, "no such thing")
    stream = await client.chat.completions.create(
        model=MODEL, messages=[user("Fail once")], stream=True
    )
    with pytest.raises(APIError) as broken:
        [chunk async for chunk in stream]

    assert refused.value.status_code == 502
    assert "no such thing" in refused.value.message
    assert "no such thing" in broken.value.message


async def test_a_store_that_goes_away_behind_the_receipt_is_nothing_to_try_again(
    tmp_path: Path,
) -> None:
    log = LogThatLeaves()
    async with running_app(tmp_path, world=World(log)) as own:
        response = await ask(own, [user("!say Once")])
        log.reachable = True

    assert response.status_code == 503
    assert response.json()["error"]["code"] == "unavailable"
    assert response.headers["x-should-retry"] == "false"
    assert "retry-after" not in response.headers


async def test_a_store_that_goes_away_within_a_stream_is_an_error_in_it(tmp_path: Path) -> None:
    async with running_app(tmp_path, world=World(LogThatLeaves())) as own:
        response = await ask(own, [user("!say Once")], stream=True)

    [begun, error, done] = frames_of(response.text)
    assert begun["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert (error["error"]["code"], error["error"]["type"]) == ("unavailable", "server_error")
    assert "secret" not in response.text
    assert done == "[DONE]"


async def test_a_message_of_which_nobody_knows_whether_it_was_taken_in_is_not_sent_again(
    tmp_path: Path,
) -> None:
    log = LogThatSaysNothing()
    async with running_app(tmp_path, world=World(log)) as own, openai_client(own) as client:
        with pytest.raises(InternalServerError) as refused:
            await client.chat.completions.create(model=MODEL, messages=[user("!say Once")])

    assert (refused.value.status_code, refused.value.code) == (503, "unavailable")
    assert "not known" in refused.value.message
    assert log.received == 1


async def test_what_is_refused_leaves_no_session_behind(app: RunningApp) -> None:
    await told(app, [user("!say Kept")])
    before = (await app.client.get("/sessions")).json()["sessions"]
    long = [user("x" * 800 * 1024), assistant("Much.")]

    new = await ask(app, [*long, user("!say On")])
    forked = await ask(app, [user("!say Kept"), assistant("Edited"), *long, user("!say On")])

    assert [new.status_code, forked.status_code] == [413, 413]
    assert (await app.client.get("/sessions")).json()["sessions"] == before


async def test_what_is_refused_leaves_no_pictures_behind(tmp_path: Path) -> None:
    square = file_of(Image.new("RGB", (8, 8), "blue"), "PNG")
    url = f"data:image/png;base64,{base64.b64encode(square).decode()}"
    async with running_app(tmp_path, user_tokens=10) as own:
        session_id, _ = await told(own, [user("!say One")])  # takes 17 tokens
        talk = [user("!say One"), assistant("One")]

        content = [{"type": "text", "text": "This?"}, picture(url)]
        refused = await ask(own, [*talk, {"role": "user", "content": content}])

        assert refused.json()["error"]["code"] == "out_of_budget", refused.text
        assert (await get(own, session_id, "/files"))["files"] == []
