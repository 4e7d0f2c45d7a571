"""The OpenAI adapter with a real server: llama.cpp's, as far as a model without a script can show it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import pytest
import pytest_asyncio

from navi.adapters.llm.openai import OpenAI
from navi.domain.context.prompt import ModelRequest
from navi.domain.vocabulary.errors import ModelFailure
from navi.ports.language_model import Capacity, LanguageModel, TextChunk
from tests.contracts.language_model import (
    CALL,
    LanguageModelContract,
    asking,
    collect,
    failure_of,
    put_together,
)
from tests.support.llama_process import (
    LlamaProcess,
    held_copy,
    running_llama,
    starting_llama,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

WINDOW = 512  # tokens: an answer without a bound of its own ends there
GREETING = asking("Say hello.")
STORY = asking("Tell me a long story about a ship.")
WORDS = "Some words about many things. "


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def llama(small_model: Path) -> AsyncGenerator[LlamaProcess, None]:
    """A server with two slots that the tests of this module leave idle."""
    async with running_llama(small_model, window=WINDOW, slots=2) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def model(llama: LlamaProcess) -> AsyncGenerator[OpenAI, None]:
    await llama.takes(0)
    async with aclosing(on(llama)) as adapter:
        yield adapter


def on(llama: LlamaProcess) -> OpenAI:
    return OpenAI(llama.openai_url, api_key=None, chunk_timeout=60)


class TestLlama(LanguageModelContract):
    @pytest.fixture
    def answerable(self) -> ModelRequest:
        return GREETING

    @pytest.fixture
    def lasting(self) -> ModelRequest:
        return STORY

    @pytest.fixture
    def silent(self) -> ModelRequest:
        return asking(WORDS * 30)  # more than a second of reading


async def test_every_token_is_a_chunk_and_is_counted(model: LanguageModel) -> None:
    chunks = await collect(model, model.render(GREETING))

    pieces = [chunk for chunk in chunks if isinstance(chunk, TextChunk)]
    counted = put_together(chunks).usage.completion_tokens or 0
    assert counted - len(pieces) in (0, 1)  # the mark of the end is a token without text


async def test_a_request_that_is_too_long_is_refused_for_it(model: LanguageModel) -> None:
    came, failure = await failure_of(model, model.render(asking(WORDS * 100)))

    assert (came, failure.kind, failure.window) == ([], "overflow", WINDOW)
    assert (failure.prompt_tokens or 0) > WINDOW


async def test_its_window_is_that_of_a_slot(model: LanguageModel) -> None:
    [name] = await model.models()

    assert await model.capacity(name) == Capacity(context_window=WINDOW, slots=2, sees=False)


async def test_a_reply_closed_while_it_is_written_frees_its_slot(
    llama: LlamaProcess, model: LanguageModel
) -> None:
    async with aclosing(model.stream(model.render(STORY), purpose="turn", call_id=CALL)) as stream:
        await anext(stream)
        taken = await llama.taken()

    await llama.takes(0)
    assert taken == 1


async def test_a_call_given_up_while_its_prompt_is_read_frees_its_slot(
    llama: LlamaProcess, model: LanguageModel
) -> None:
    unread = model.render(asking("Something else. " + WORDS * 30))
    stream = model.stream(unread, purpose="turn", call_id=CALL)
    waiting = asyncio.ensure_future(anext(stream))
    await llama.takes(1)

    waiting.cancel()
    await asyncio.wait({waiting})

    await llama.takes(0)
    assert waiting.cancelled()


async def test_two_calls_are_answered_side_by_side(
    llama: LlamaProcess, model: LanguageModel
) -> None:
    first = model.stream(model.render(STORY), purpose="turn", call_id=CALL)
    second = model.stream(model.render(STORY), purpose="turn", call_id=CALL)
    async with aclosing(first), aclosing(second):
        pieces = [await anext(first), await anext(second), await anext(first), await anext(second)]
        taken = await llama.taken()

    assert [type(piece) for piece in pieces] == [TextChunk] * 4
    assert taken == 2


async def test_a_server_that_loads_its_model_says_so_and_answers_later(
    small_model: Path, tmp_path: Path
) -> None:
    with held_copy(small_model, tmp_path) as (copy, let_go):
        async with starting_llama(copy, window=WINDOW) as llama, aclosing(on(llama)) as model:
            state = await model.readiness()
            _, failure = await failure_of(model, model.render(GREETING))
            let_go()
            await llama.ready()

            assert (state, failure.kind, failure.status, failure.loading) == (
                "loading",
                "http",
                503,
                True,
            )
            assert await model.readiness() == "ready"
            assert put_together(await collect(model, model.render(GREETING))).text


async def test_a_server_killed_in_mid_stream_cuts_the_reply_and_then_nobody_listens(
    small_model: Path,
) -> None:
    async with running_llama(small_model, window=WINDOW) as llama, aclosing(on(llama)) as model:
        stream = model.stream(model.render(STORY), purpose="turn", call_id=CALL)
        async with aclosing(stream):
            await anext(stream)
            await llama.kill()
            with pytest.raises(ModelFailure) as cut:
                _ = [chunk async for chunk in stream]
        state = await model.readiness()
        _, away = await failure_of(model, model.render(GREETING))

        await llama.start()
        await llama.ready()

        assert (cut.value.kind, cut.value.refused) == ("connection", False)
        assert (state, away.kind, away.refused) == ("away", "connection", True)
        assert put_together(await collect(model, model.render(GREETING))).text
