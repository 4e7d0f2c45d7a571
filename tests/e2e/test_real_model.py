"""A whole navi on a real llama.cpp: what SmolLM2 says makes little sense, and everything else is real."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.support.llama_process import (
    LlamaProcess,
    held_copy,
    running_llama,
    starting_llama,
)
from tests.support.llama_program import NAME
from tests.support.mind import data_of, events_of, session, with_profiles
from tests.support.navi_process import NaviProcess, running_navi
from tests.support.promises import broken_promises

pytestmark = pytest.mark.asyncio(loop_scope="module")

# The same words at every run, and nothing that would make a small machine read for long.
PLAIN: dict[str, Any] = {
    "system_prompt": "Answer in a few words.",
    "temperature": 0,
    "enabled_tools": [],
}
BRIEF: dict[str, Any] = {**PLAIN, "max_answer_tokens": 16}  # for turns that come to their end
FLUENT: dict[str, Any] = {**PLAIN, "max_answer_tokens": 64}  # and are not read at one go
STORY = "Tell me a long story about a ship."
WORDS = "Some words about many things. "
PAUSE = 0.05  # seconds between two looks
TIMEOUT = 120.0  # seconds: one thread, which may have to share its core


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def llama(small_model: Path) -> AsyncGenerator[LlamaProcess, None]:
    """A server that the tests of this module find and leave idle."""
    async with running_llama(small_model, window=1024, slots=2) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def navi(
    llama: LlamaProcess, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[NaviProcess, None]:
    async with navi_on(llama, tmp_path_factory.mktemp("navi")) as running:
        yield running


def navi_on(
    llama: LlamaProcess, directory: Path, **settings: str
) -> AbstractAsyncContextManager[NaviProcess]:
    """A navi that asks a server what it can take."""
    return running_navi(
        with_profiles(directory, {"assistant": PLAIN, "brief": BRIEF, "fluent": FLUENT}),
        NAVI_LLM="openai",
        NAVI_MODEL_SLOTS="",
        OPENAI_BASE_URL=llama.openai_url,
        **settings,
    )


async def outcome_of(navi: NaviProcess, session_id: str) -> str:
    """How the only turn of a session ends."""
    async with asyncio.timeout(TIMEOUT):
        while True:
            types = await navi.types(session_id)
            for end in ("turn_completed", "turn_stopped", "turn_failed"):
                if end in types:
                    return end
            await asyncio.sleep(PAUSE)


async def shown(navi: NaviProcess, session_id: str) -> None:
    """Wait until the first words of an answer are shown."""
    await navi.until(session_id, "text_delta")


async def test_two_sessions_are_answered_side_by_side(
    navi: NaviProcess, llama: LlamaProcess
) -> None:
    sessions = [await session(navi), await session(navi)]

    for session_id in sessions:
        await navi.drop(session_id, STORY)
    await asyncio.gather(*(shown(navi, session_id) for session_id in sessions))
    taken = await llama.taken()
    for session_id in sessions:
        await navi.post(f"/sessions/{session_id}/stop")

    assert taken == 2
    assert [await outcome_of(navi, session_id) for session_id in sessions] == ["turn_stopped"] * 2
    await llama.takes(0)


async def test_a_stop_in_the_middle_of_an_answer_frees_the_slot(
    navi: NaviProcess, llama: LlamaProcess
) -> None:
    session_id = await session(navi)
    await navi.drop(session_id, STORY)
    await shown(navi, session_id)

    await navi.post(f"/sessions/{session_id}/stop")

    assert await outcome_of(navi, session_id) == "turn_stopped"
    await llama.takes(0)


async def test_a_stop_while_the_prompt_is_read_ends_the_turn_at_once_and_then_frees_the_slot(
    navi: NaviProcess, llama: LlamaProcess
) -> None:
    session_id = await session(navi)
    await navi.drop(session_id, WORDS * 50)
    await navi.until(session_id, "model_called")

    await navi.post(f"/sessions/{session_id}/stop")

    assert await outcome_of(navi, session_id) == "turn_stopped"
    assert data_of(await events_of(navi, session_id), "text_delta") == []
    await llama.takes(0)


async def test_an_answer_is_shown_in_pieces_and_costs_what_the_server_counts(
    navi: NaviProcess, llama: LlamaProcess
) -> None:
    session_id = await session(navi, "fluent")

    await navi.drop(session_id, STORY)
    outcome = await outcome_of(navi, session_id)

    events = await events_of(navi, session_id)
    [called, *_], [replied, *_] = data_of(events, "model_called"), data_of(events, "model_replied")
    pieces = [
        delta["text"]
        for delta in data_of(events, "text_delta")
        if delta["call_id"] == called["call_id"]
    ]
    asked = await navi.get(f"/sessions/{session_id}/calls/{called['call_id']}/request")
    counted = await llama.post("/v1/chat/completions/input_tokens", asked["request"])
    assert outcome == "turn_completed"
    assert broken_promises(events) == []
    assert (len(pieces) > 1, "".join(pieces)) == (True, replied["content"])
    assert replied["usage"]["prompt_tokens"] == counted["input_tokens"]
    assert replied["usage"]["completion_tokens"] >= len(pieces)


async def test_a_message_beyond_the_window_is_told_its_size_and_the_next_one_is_answered(
    navi: NaviProcess,
) -> None:
    session_id = await session(navi, "brief")

    failed = await navi.say(session_id, WORDS * 250)
    async with navi.client() as client:  # the summary of such a message takes a small machine long
        path = f"/sessions/{session_id}/messages"
        told = await client.post(path, json={"content": "Say hello."}, timeout=150)
    answered = told.json()

    [why] = data_of(await events_of(navi, session_id), "turn_failed")
    assert (failed["outcome"], why["kind"]) == ("failed", "context_overflow")
    assert "1,024 tokens" in why["error"]
    assert (answered["outcome"], bool(answered["content"])) == ("completed", True)


async def test_a_server_reads_of_a_conversation_only_what_is_new(navi: NaviProcess) -> None:
    session_id = await session(navi, "brief")

    for content in (STORY, "And now say goodbye."):
        assert (await navi.say(session_id, content))["outcome"] == "completed"

    events = await events_of(navi, session_id)
    turns = {c["call_id"] for c in data_of(events, "model_called") if c["purpose"] == "turn"}
    used = [r["usage"] for r in data_of(events, "model_replied") if r["call_id"] in turns]
    # The end of a prompt is where its answer begins: a template may write that in another way later.
    # Any: a call may meet the other slot, where a follow-up that gave way still has its own.
    assert any(
        later["cached_tokens"] >= earlier["prompt_tokens"] - 8 for earlier, later in pairwise(used)
    )
    assert (await navi.get(f"/sessions/{session_id}"))["usage"]["cached_tokens"] > 0


async def test_a_server_killed_in_mid_answer_is_waited_for_and_asked_again(
    small_model: Path, tmp_path: Path
) -> None:
    async with running_llama(small_model) as llama, navi_on(llama, tmp_path) as navi:
        session_id = await session(navi)
        await navi.drop(session_id, STORY)
        await shown(navi, session_id)

        await llama.kill()
        failed = await navi.until(session_id, "model_call_failed")
        await llama.start()
        again = await navi.until(session_id, "text_delta", after=failed["seq"])
        await navi.post(f"/sessions/{session_id}/stop")

        assert failed["data"]["kind"] == "connection"
        assert again["data"]["text"]
        assert await outcome_of(navi, session_id) == "turn_stopped"
        assert broken_promises(await events_of(navi, session_id)) == []


async def test_a_server_that_loads_its_model_is_waited_for(
    small_model: Path, tmp_path: Path
) -> None:
    with held_copy(small_model, tmp_path) as (model, let_go):
        async with starting_llama(model) as llama, navi_on(llama, tmp_path) as navi:
            session_id = await session(navi)
            await navi.drop(session_id, STORY)
            waiting = await navi.until(session_id, "model_waiting")
            before = await llama.status()
            let_go()
            await shown(navi, session_id)
            await navi.post(f"/sessions/{session_id}/stop")

            assert (before, waiting["data"]["reason"]) == (503, "loading")
            assert await outcome_of(navi, session_id) == "turn_stopped"


async def test_memories_are_found_by_the_vectors_of_a_server_beside_the_one_that_chats(
    llama: LlamaProcess, small_model: Path, tmp_path: Path
) -> None:
    async with (
        running_llama(small_model, embeds=True) as embedder,
        navi_on(
            llama,
            tmp_path,
            NAVI_EMBEDDING_MODEL=NAME,
            OPENAI_EMBEDDING_BASE_URL=embedder.openai_url,
        ) as navi,
    ):
        answered = await navi.say(await session(navi, "brief"), "Say hello.")
        assert answered["outcome"] == "completed"
        kept = await navi.post("/memories", {"text": "The cat sleeps on the sofa"})
        async with asyncio.timeout(TIMEOUT):
            while not (found := await navi.get("/memories?query=feline+pets"))["memories"]:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(PAUSE)

        assert [memory["id"] for memory in found["memories"]] == [kept["id"]]
