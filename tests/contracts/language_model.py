"""What every model backend promises: with any server, and with one that is told how to answer."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Any

import msgspec
import pytest

from navi.domain.context.prompt import ModelOptions, ModelRequest, PromptMessage, ToolSchema
from navi.domain.vocabulary.errors import ModelFailure
from navi.domain.vocabulary.events import Usage
from navi.domain.vocabulary.ids import CallId
from navi.ports.language_model import (
    FinalChunk,
    LanguageModel,
    ModelChunk,
    RequestedCall,
    TextChunk,
    ThinkingChunk,
    ToolCallChunk,
)
from tests.support.model_wire import (
    Cut,
    Done,
    ErrorLine,
    Part,
    Raw,
    Say,
    Stall,
    Think,
    calls,
)

CALL = CallId("0199aaaa-0000-7000-8000-000000000001")
TIMEOUT = 120.0  # seconds: a real server has one thread, and may have to share its core
TOO_LONG = (
    "request (6031 tokens) exceeds the available context size (1024 tokens), try increasing it"
)
MALFORMED = Raw(b"{not JSON\n\n")

ToldTo = Callable[..., ModelRequest]  # takes parts

READ_FILE = ToolSchema(
    name="read_file",
    description="Reads a file",
    parameters={
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
    },
)


def asking(text: str, *, tools: tuple[ToolSchema, ...] = (READ_FILE,)) -> ModelRequest:
    """A request with one message of the user."""
    return ModelRequest(
        model="scripted:latest",
        messages=(PromptMessage(role="user", content=text),),
        tools=tools,
        options=ModelOptions(temperature=0.5, num_ctx=4096, think=False),
    )


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A whole reply, its pieces put together."""

    thinking: str = ""
    text: str = ""
    calls: tuple[tuple[str, Any], ...] = ()
    finish_reason: str = "stop"
    usage: Usage = Usage(prompt_tokens=12, completion_tokens=5)


def put_together(chunks: Sequence[ModelChunk]) -> Reply:
    *pieces, last = chunks
    assert isinstance(last, FinalChunk)
    assert not any(isinstance(piece, FinalChunk) for piece in pieces)
    return Reply(
        thinking="".join(piece.text for piece in pieces if isinstance(piece, ThinkingChunk)),
        text="".join(piece.text for piece in pieces if isinstance(piece, TextChunk)),
        calls=tuple((call.name, call.arguments) for call in last.tool_calls),
        finish_reason=last.finish_reason,
        usage=last.usage,
    )


async def collect(model: LanguageModel, body: bytes) -> list[ModelChunk]:
    """All chunks of a reply."""
    async with (
        asyncio.timeout(TIMEOUT),
        aclosing(model.stream(body, purpose="turn", call_id=CALL)) as chunks,
    ):
        return [chunk async for chunk in chunks]


async def failure_of(model: LanguageModel, body: bytes) -> tuple[list[ModelChunk], ModelFailure]:
    """What came of a reply before it failed, and how it failed."""
    came: list[ModelChunk] = []
    async with (
        asyncio.timeout(TIMEOUT),
        aclosing(model.stream(body, purpose="turn", call_id=CALL)) as chunks,
    ):
        try:
            async for chunk in chunks:
                came.append(chunk)
        except ModelFailure as failure:
            return came, failure
    raise AssertionError(f"no failure after {came}")


class LanguageModelContract:
    """Inherit, and give the backend as ``model`` and three requests.

    ``answerable`` is soon answered with a few words; the answer to ``lasting`` is not over after
    its first words; ``silent`` is answered by nothing for a while.
    """

    async def test_the_body_depends_on_the_request_alone(self, model: LanguageModel) -> None:
        request = asking("hello")

        assert model.render(request) == model.render(msgspec.structs.replace(request))
        assert msgspec.json.decode(model.render(request))["model"] == "scripted:latest"

    async def test_an_answer_comes_in_pieces_and_ends_with_what_it_cost(
        self, model: LanguageModel, answerable: ModelRequest
    ) -> None:
        reply = put_together(await collect(model, model.render(answerable)))

        assert reply.text
        assert reply.calls == ()
        assert reply.finish_reason in ("stop", "length")
        assert (reply.usage.prompt_tokens or 0) > 0
        assert (reply.usage.completion_tokens or 0) > 0

    async def test_closing_ends_a_reply_that_is_not_over(
        self, model: LanguageModel, lasting: ModelRequest
    ) -> None:
        stream = model.stream(model.render(lasting), purpose="turn", call_id=CALL)

        async with asyncio.timeout(TIMEOUT):
            first = await anext(stream)
            await stream.aclose()

        assert isinstance(first, TextChunk)
        assert await anext(stream, None) is None

    async def test_cancelling_who_waits_ends_a_silent_reply(
        self, model: LanguageModel, silent: ModelRequest
    ) -> None:
        stream = model.stream(model.render(silent), purpose="turn", call_id=CALL)

        waiting = asyncio.ensure_future(anext(stream, None))
        await asyncio.wait({waiting}, timeout=0.05)
        waiting.cancel()
        async with asyncio.timeout(TIMEOUT):
            await asyncio.wait({waiting})
            await stream.aclose()

        assert waiting.cancelled()

    async def test_it_tells_its_models(self, model: LanguageModel) -> None:
        assert len(await model.models()) > 0
        assert all(isinstance(name, str) for name in await model.models())

    async def test_it_says_that_it_is_ready(self, model: LanguageModel) -> None:
        assert await model.readiness() == "ready"

    async def test_what_it_says_of_its_capacity_holds_for_any_name(
        self, model: LanguageModel
    ) -> None:
        for name in (*await model.models(), "absent"):
            capacity = await model.capacity(name)

            assert capacity.context_window is None or capacity.context_window > 0
            assert capacity.slots is None or capacity.slots > 0


class ScriptedModelContract(LanguageModelContract):
    """Inherit, and give two fixtures.

    ``model`` is the backend; ``told_to(*parts)`` gives a request that its server answers with them.
    """

    @pytest.fixture
    def answerable(self, told_to: ToldTo) -> ModelRequest:
        return told_to(Say("a few "), Say("words"), Done())

    @pytest.fixture
    def lasting(self, told_to: ToldTo) -> ModelRequest:
        return told_to(Say("half"), Stall(asyncio.Event()))

    @pytest.fixture
    def silent(self, told_to: ToldTo) -> ModelRequest:
        return told_to(Stall(asyncio.Event()))

    async def test_thinking_and_text_come_in_pieces_and_in_order(
        self, model: LanguageModel, told_to: ToldTo
    ) -> None:
        request = told_to(Think("Hm."), Say("Grüß 👋 Gott"), Done())

        chunks = await collect(model, model.render(request))

        assert put_together(chunks) == Reply(thinking="Hm.", text="Grüß 👋 Gott")
        kinds = list(dict.fromkeys(type(chunk) for chunk in chunks))
        assert kinds == [ThinkingChunk, TextChunk, FinalChunk]

    async def test_calls_are_announced_and_come_whole_at_the_end(
        self, model: LanguageModel, told_to: ToldTo
    ) -> None:
        wanted: tuple[tuple[str, Any], ...] = (
            ("read_file", {"path": "ä.txt", "n": [1, {"x": None}]}),
            ("read_file", {}),
        )
        request = told_to(calls(*wanted), Done())

        chunks = await collect(model, model.render(request))

        assert put_together(chunks) == Reply(calls=wanted)
        assert isinstance(chunks[0], ToolCallChunk)

    async def test_arguments_that_are_no_object_are_kept_as_they_are(
        self, model: LanguageModel, told_to: ToldTo
    ) -> None:
        request = told_to(calls(("read_file", '{"path":')), Done())

        final = (await collect(model, model.render(request)))[-1]

        assert isinstance(final, FinalChunk)
        assert final.tool_calls == (
            RequestedCall(name="read_file", arguments=None, raw_arguments='{"path":'),
        )

    async def test_the_reason_for_the_end_is_passed_on(
        self, model: LanguageModel, told_to: ToldTo
    ) -> None:
        request = told_to(Say("half"), Done(reason="length"))

        chunks = await collect(model, model.render(request))

        assert put_together(chunks) == Reply(text="half", finish_reason="length")

    @pytest.mark.parametrize(
        ("broken", "kind"),
        [(ErrorLine("boom"), "http"), (MALFORMED, "protocol"), (Cut(reset=True), "connection")],
        ids=["error-line", "malformed", "cut"],
    )
    async def test_a_broken_reply_fails_after_what_came(
        self, model: LanguageModel, told_to: ToldTo, broken: Part, kind: str
    ) -> None:
        request = told_to(Say("half"), broken)

        came, failure = await failure_of(model, model.render(request))

        assert (came, failure.kind, failure.tool_calls_came) == ([TextChunk("half")], kind, False)

    async def test_a_refusal_for_length_is_told_from_others(
        self, model: LanguageModel, told_to: ToldTo
    ) -> None:
        request = told_to(ErrorLine(TOO_LONG))

        came, failure = await failure_of(model, model.render(request))

        assert (came, failure.kind, failure.loading) == ([], "overflow", False)

    async def test_a_failure_says_that_calls_had_come(
        self, model: LanguageModel, told_to: ToldTo
    ) -> None:
        request = told_to(calls(("read_file", {"path": "a"})), ErrorLine("boom"))

        came, failure = await failure_of(model, model.render(request))

        assert (came[0], failure.tool_calls_came) == (ToolCallChunk(), True)
