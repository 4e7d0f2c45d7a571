"""The model server that counts: what it counts, refuses and cuts, and who waits."""

import asyncio
from contextlib import aclosing

import pytest

from navi.adapters.llm.openai import OpenAI
from navi.domain.context.prompt import ModelRequest, PromptMessage
from navi.domain.vocabulary.ids import CallId
from navi.ports.language_model import FinalChunk, TextChunk
from tests.support.counting_server import CountingServer, tokens_of
from tests.support.http_client import http_client
from tests.support.model_wire import Calls, Say


def asking(*texts: str) -> ModelRequest:
    roles = ("user", "assistant")
    said = (PromptMessage(role=roles[n % 2], content=text) for n, text in enumerate(texts))
    return ModelRequest(model="m", messages=tuple(said))


async def answered(server: CountingServer, request: ModelRequest) -> tuple[str, FinalChunk]:
    model = OpenAI(server.openai_url, api_key=None, chunk_timeout=5.0)
    text, final = "", None
    try:
        stream = model.stream(model.render(request), purpose="turn", call_id=CallId("c"))
        async with aclosing(stream) as chunks:
            async for chunk in chunks:
                match chunk:
                    case TextChunk(text=piece):
                        text += piece
                    case FinalChunk():
                        final = chunk
                    case _:
                        pass
    finally:
        await model.aclose()
    assert final is not None
    return text, final


async def test_it_counts_what_it_reads_and_what_its_slot_had() -> None:
    async with CountingServer(window=2048) as server:
        first, _ = await answered(server, asking("hello"))
        await answered(server, asking("hello", first, "and now?"))

        one, two = server.counted
        assert one.cached == 0
        assert two.cached >= one.prompt + one.completion - 1
        assert server.prefilled_twice() == 0.0

        await answered(server, asking("something else altogether"))
        await answered(server, asking("hello", first, "and now?"))
        assert server.counted[-1].again > 0


async def test_what_does_not_fit_is_refused() -> None:
    async with CountingServer(window=64) as server, http_client() as client:
        body = {"messages": [{"role": "user", "content": "word " * 100}]}
        refused = await client.post(f"{server.openai_url}/chat/completions", json=body)

        assert refused.status_code == 400
        assert refused.json()["error"]["n_prompt_tokens"] == len(tokens_of(body))
        assert [counted.refused for counted in server.counted] == [True]


@pytest.mark.parametrize("said", [Say("word " * 500), Calls((("tool", {"text": "x " * 500}),))])
async def test_an_answer_ends_with_the_window(said: Say | Calls) -> None:
    async with CountingServer(window=256) as server:
        server.mind = lambda _: (said,)

        _, final = await answered(server, asking("hello"))

        [counted] = server.counted
        assert final.finish_reason == "length"
        assert counted.prompt + counted.completion == 256


async def test_more_than_its_slots_wait() -> None:
    async with CountingServer(window=256, slots=2) as server:
        await asyncio.gather(*(answered(server, asking(f"hello {n}")) for n in range(5)))

        assert server.most_at_once == 2
        assert len(server.counted) == 5
