"""Bounded answers and a known window, against a model server that counts as a real one does."""

from collections.abc import Callable, Iterable
from itertools import repeat
from pathlib import Path

import pytest

from navi.adapters.llm.renderers import KnownRenderers
from navi.application.reading.render_call import render_call
from navi.domain.vocabulary.events import (
    ContextCompressed,
    GuidanceGiven,
    MemorySaved,
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    SessionRenamed,
    SubagentFinished,
    ToolFinished,
    TurnCompleted,
    TurnFailed,
    Usage,
)
from navi.domain.vocabulary.ids import CallId, SessionId
from tests.support.agent_node import AgentNode, World, agent_node
from tests.support.counting_server import CountingServer, plain_mind
from tests.support.model_server import ModelServer, Received, purpose_of
from tests.support.model_wire import Done, Part, Say, calls

WINDOW = 8_192
TASK = {"task": "read all the parts"}


def mind(
    **by_purpose: Callable[[Received], Iterable[Part]],
) -> Callable[[Received], Iterable[Part]]:
    """A plain mind, but for the calls of some purposes."""
    return lambda request: by_purpose.get(purpose_of(request), plain_mind)(request)


async def all_render_again(node: AgentNode, server: ModelServer, session_id: SessionId) -> None:
    """Each request of a session is made anew from its log, to the byte."""
    called = {call.call_id for call in await node.events(session_id, ModelCalled)}
    for chat in server.chats:
        call_id = CallId(chat.headers.get("x-navi-call", ""))
        if call_id in called:
            again = await render_call(
                node.world.log, node.world.texts, KnownRenderers(), session_id, call_id
            )
            assert again.matches
            assert again.body.encode() == chat.body


# --- bounds of answers --------------------------------------------------------------------------


async def test_a_name_is_closed_after_its_line(tmp_path: Path) -> None:
    async with (
        CountingServer(window=WINDOW) as server,
        agent_node(World(), tmp_path, [server.url], follow=True, window=WINDOW) as node,
    ):
        server.mind = mind(naming=lambda _: (Say("A talk\n"), *[Say("and more ")] * 500))
        session_id = await node.session()
        await node.ask(session_id, "hello")
        renamed = await node.world.seen(session_id, "session_renamed")

        assert renamed.envelope.event == SessionRenamed(name="A talk", by="auto")
        [named] = [
            reply
            for reply in await node.events(session_id, ModelReplied)
            if reply.content.startswith("A talk\n")
        ]
        assert (named.finish_reason, named.usage) == ("stop", Usage())
        assert len(named.content) < 40


async def test_every_call_has_a_bound(tmp_path: Path) -> None:
    async with (
        CountingServer(window=WINDOW) as server,
        agent_node(World(), tmp_path, [server.url], follow=True, window=WINDOW) as node,
    ):
        session_id = await node.session()
        await node.ask(session_id, "hello")
        await node.world.seen(session_id, "session_renamed")

        bounds = {
            call.purpose: call.options["max_tokens"]
            for call in await node.events(session_id, ModelCalled)
        }
        assert bounds["naming"] == 24
        assert WINDOW // 2 < bounds["turn"] < WINDOW
        assert {call.options["num_ctx"] for call in await node.events(session_id, ModelCalled)} == {
            WINDOW
        }


async def test_a_turn_that_runs_in_circles_is_given_up_and_its_text_is_kept(
    tmp_path: Path,
) -> None:
    async with (
        CountingServer(window=65_536) as server,
        agent_node(World(), tmp_path, [server.url], window=65_536) as node,
    ):
        server.mind = mind(turn=lambda _: repeat(Say("The user is a filesystem.\n")))
        session_id = await node.session()

        outcome = await node.ask(session_id, "hello")

        assert outcome.outcome == "failed"
        [failed] = await node.events(session_id, ModelCallFailed)
        assert (failed.kind, failed.will_retry) == ("runaway", False)
        assert "'The user is a filesystem.'" in failed.error
        assert failed.partial_text.startswith("The user is a filesystem.\n")
        [ended] = await node.events(session_id, TurnFailed)
        assert ended.kind == "runaway"
        assert (await node.ask(session_id, "go on")).outcome == "failed"
        server.mind = plain_mind
        assert (await node.ask(session_id, "and now?")).content == "Yes, that is so."


async def test_an_answer_that_begins_to_run_in_circles_is_kept_up_to_there(tmp_path: Path) -> None:
    answer = "I can read and write files, and I remember what you tell me of yourself.\n"
    async with (
        CountingServer(window=65_536) as server,
        agent_node(World(), tmp_path, [server.url], window=65_536) as node,
    ):
        server.mind = mind(turn=lambda _: (Say(answer), *repeat(Say("I am ready.\n"), 5_000)))
        session_id = await node.session()

        outcome = await node.ask(session_id, "hello")

        assert (outcome.outcome, outcome.content) == ("completed", f"{answer}I am ready.")
        [failed] = await node.events(session_id, ModelCallFailed)
        assert (failed.kind, failed.will_retry) == ("runaway", False)
        assert len(failed.partial_text) < 2_000
        [completed] = await node.events(session_id, TurnCompleted)
        assert completed.truncated is True
        server.mind = plain_mind
        await node.ask(session_id, "and now?")
        said = [message["content"] for message in server.chats[-1].json["messages"]]
        assert said[-3:] == ["hello", outcome.content, "and now?"]
        await all_render_again(node, server, session_id)


async def test_an_answer_that_repeats_itself_when_it_is_cut_off_does_not_go_on(
    tmp_path: Path,
) -> None:
    async with (
        ModelServer() as server,
        agent_node(World(), tmp_path, [server.url]) as node,
    ):
        said = "It is so. " + "And so it is.\n" * 50
        server.answer(Say(said), Done(reason="length"))
        session_id = await node.session()

        outcome = await node.ask(session_id, "tell me")

        assert (outcome.outcome, outcome.content) == ("completed", said)
        assert len(server.chats) == 1
        [completed] = await node.events(session_id, TurnCompleted)
        assert completed.truncated is True


# --- answers that are cut off for length --------------------------------------------------------


async def test_an_answer_that_was_cut_off_goes_on_once_by_itself(tmp_path: Path) -> None:
    async with (
        ModelServer() as server,
        agent_node(World(), tmp_path, [server.url]) as node,
    ):
        server.answer(Say("one, two, "), Done(reason="length"))
        server.answer(Say("three, "), Done(reason="length"))
        session_id = await node.session()

        outcome = await node.ask(session_id, "count")

        assert (outcome.outcome, outcome.content) == ("completed", "one, two, three, ")
        [guidance] = await node.events(session_id, GuidanceGiven)
        assert guidance.kind == "continue"
        assert server.chats[1].json["messages"][-1]["content"] == guidance.content
        [completed] = await node.events(session_id, TurnCompleted)
        assert completed.truncated is True

        server.answer(Say("four"), Done())
        await node.ask(session_id, "more")
        assert (await node.events(session_id, TurnCompleted))[-1].truncated is not True


async def test_a_tool_call_that_was_cut_off_is_not_run_and_the_model_is_told(
    tmp_path: Path,
) -> None:
    async with (
        CountingServer(window=16_384) as server,
        agent_node(World(), tmp_path, [server.url], window=16_384) as node,
    ):
        whole = {"action": "write", "path": "a.txt", "content": "x"}
        rounds = iter(
            [
                (calls(("filesystem", '{"action": "write", "path": "a.txt", "content": "hal')),),
                (calls(("filesystem", whole)),),
                (Say("written"),),
            ]
        )
        reasons = iter(["length", "stop", "stop"])
        server.mind = lambda _: (*next(rounds), Done(reason=next(reasons)))
        session_id = await node.session()

        outcome = await node.ask(session_id, "write it")

        assert outcome.content == "written"
        cut, done = await node.events(session_id, ToolFinished)
        assert (cut.outcome, done.outcome) == ("skipped", "ok")
        assert "cut off for length" in cut.output
        [guidance] = await node.events(session_id, GuidanceGiven)
        assert guidance.kind == "continue"
        assert "several calls" in guidance.content
        types = await node.world.types(session_id)
        assert types.count("tool_started") == 1


# --- the window ---------------------------------------------------------------------------------


async def test_a_long_result_is_sent_in_part_and_rendered_again(tmp_path: Path) -> None:
    async with (
        CountingServer(window=WINDOW) as server,
        agent_node(World(), tmp_path, [server.url], window=WINDOW) as node,
    ):
        write = {"action": "write", "path": "a.txt", "content": "word " * 5_000}
        rounds = iter(
            [
                (calls(("filesystem", write)),),
                (calls(("filesystem", {"action": "read", "path": "a.txt"})),),
                (Say("it is long"),),
            ]
        )
        server.mind = mind(turn=lambda _: next(rounds))
        session_id = await node.session()

        outcome = await node.ask(session_id, "read it")

        assert outcome.outcome == "completed"
        assert not any(counted.refused for counted in server.counted)
        await all_render_again(node, server, session_id)


async def test_what_does_not_fit_fails_clearly_and_the_next_message_works(tmp_path: Path) -> None:
    async with (
        CountingServer(window=WINDOW) as server,
        agent_node(World(), tmp_path, [server.url], window=WINDOW) as node,
    ):
        session_id = await node.session()

        outcome = await node.ask(session_id, "word " * 50_000)

        assert outcome.outcome == "failed"
        [failed] = await node.events(session_id, TurnFailed)
        assert failed.kind == "context_overflow"
        assert "8,192 tokens" in failed.error
        again = await node.ask(session_id, "hello?")
        assert again.content == "Yes, that is so."


async def test_facts_that_run_in_circles_are_not_asked_for_again(tmp_path: Path) -> None:
    async with (
        CountingServer(window=WINDOW) as server,
        agent_node(World(), tmp_path, [server.url], follow=True, window=WINDOW) as node,
    ):
        server.mind = mind(memory=lambda _: repeat(Say("reminiscences ")))
        session_id = await node.session()
        await node.ask(session_id, "hello")
        await node.world.seen(session_id, "model_call_failed")

        [failed] = await node.events(session_id, ModelCallFailed)
        assert (failed.kind, failed.will_retry) == ("runaway", False)
        assert await node.events(session_id, MemorySaved) == []


# --- a context that is too full -----------------------------------------------------------------


async def test_a_refusal_for_length_is_compressed_and_tried_once_more(tmp_path: Path) -> None:
    async with (
        ModelServer() as server,
        agent_node(World(), tmp_path, [server.url], keep_recent=1) as node,
    ):
        session_id = await node.session()
        for number in range(3):
            server.answer(Say(f"answer {number} " * 50), Done(prompt=2_000))
            await node.ask(session_id, f"question {number}")
        server.refuse(400, "request (9000 tokens) exceeds the available context size (8192 tokens)")
        server.answer(Say("- three questions"), Done())
        server.answer(Say("here you are"), Done(prompt=2_000))

        outcome = await node.ask(session_id, "and now?")

        assert (outcome.outcome, outcome.content) == ("completed", "here you are")
        [failed] = await node.events(session_id, ModelCallFailed)
        assert (failed.kind, failed.will_retry) == ("overflow", True)
        [compressed] = await node.events(session_id, ContextCompressed)
        assert compressed.trigger == "pre_turn"

        for _ in range(4):  # the call, the summary and again, and the call once more
            server.refuse(400, "request (9000 tokens) exceeds the available context size")
        refused = await node.ask(session_id, "again?")

        assert refused.outcome == "failed"
        [ended] = await node.events(session_id, TurnFailed)
        assert ended.kind == "context_overflow"
        server.answer(Say("yes"), Done(prompt=2_000))
        assert (await node.ask(session_id, "still there?")).content == "yes"


async def test_a_session_goes_on_where_no_model_can_summarise_what_is_too_long(
    tmp_path: Path,
) -> None:
    async with (
        CountingServer(window=WINDOW) as server,
        agent_node(World(), tmp_path, [server.url], window=WINDOW) as node,
    ):
        server.mind = mind(compression=lambda _: (Say(""),))
        session_id = await node.session()
        assert (await node.ask(session_id, "word " * 50_000)).outcome == "failed"

        assert (await node.ask(session_id, "hello?")).content == "Yes, that is so."

        [compressed] = await node.events(session_id, ContextCompressed)
        assert compressed.summary.startswith("What came before was too long")
        assert {counted.max_tokens for counted in server.of("compression")} == {WINDOW // 8}
        assert compressed.tokens_after < WINDOW < compressed.tokens_before


async def test_a_subagent_that_reads_more_than_its_window_is_compressed_and_comes_back(
    tmp_path: Path,
) -> None:
    def turn(request: Received) -> Iterable[Part]:
        messages = request.json["messages"]
        last = messages[-1]["role"]
        if messages[1]["content"].startswith("hello"):
            return (Say("all is read"),) if last == "tool" else (calls(("spawn_agent", TASK)),)
        left = next(parts, None)
        if left is None:
            return (Say("I have read it"),)
        return (calls(("filesystem", {"action": "write", "path": left, "content": "word " * 900})),)

    async with (
        CountingServer(window=WINDOW) as server,
        agent_node(World(), tmp_path, [server.url], window=WINDOW) as node,
    ):
        parts = iter([f"{number}.txt" for number in range(12)])
        server.mind = mind(turn=turn)
        session_id = await node.session()

        outcome = await node.ask(session_id, "hello, read it all")

        rows = [row.envelope for row in await node.world.events(session_id)]
        [compressed, *_] = [e for e in rows if isinstance(e.event, ContextCompressed)]
        [finished] = await node.events(session_id, SubagentFinished)
        assert (outcome.outcome, outcome.content) == ("completed", "all is read")
        assert compressed.subagent_id is not None
        assert (finished.completed_normally, finished.result) == (True, "I have read it")
        await all_render_again(node, server, session_id)


async def test_a_subagent_whose_task_does_not_fit_says_so_and_the_turn_goes_on(
    tmp_path: Path,
) -> None:
    async with (
        ModelServer() as server,
        agent_node(World(), tmp_path, [server.url]) as node,
    ):
        server.answer(calls(("spawn_agent", TASK)), Done())
        for _ in range(2):
            server.refuse(400, "request (9000 tokens) exceeds the available context size")
        server.answer(Say("then I do it myself"), Done())
        session_id = await node.session()

        outcome = await node.ask(session_id, "hello")

        [finished] = await node.events(session_id, SubagentFinished)
        assert (outcome.outcome, outcome.content) == ("completed", "then I do it myself")
        assert not finished.completed_normally
        assert "does not fit" in finished.result


@pytest.mark.parametrize("window", [4_096, 8_192])
async def test_a_small_window_is_never_the_end_of_a_session(tmp_path: Path, window: int) -> None:
    async with (
        CountingServer(window=window) as server,
        agent_node(World(), tmp_path, [server.url], window=window) as node,
    ):
        server.mind = mind(turn=lambda _: (Say("It is a long story. " * 30),))
        session_id = await node.session()

        outcomes = [await node.ask(session_id, f"tell me part {n} of it") for n in range(30)]

        assert {outcome.outcome for outcome in outcomes} == {"completed"}
        # What stands before every message fills most of the smaller window.
        assert sum(counted.refused for counted in server.counted) <= (9 if window < 8_192 else 0)
        assert await node.events(session_id, ContextCompressed)


async def test_a_session_of_one_long_turn_can_be_compressed_by_hand(tmp_path: Path) -> None:
    async with (
        CountingServer(window=32_768) as server,
        agent_node(World(), tmp_path, [server.url], window=32_768) as node,
    ):
        write = {"action": "write", "content": "word " * 300}
        rounds = iter(
            [
                *[(calls(("filesystem", {**write, "path": f"{n}.txt"})),) for n in range(12)],
                (Say("done"),),
            ]
        )
        server.mind = mind(turn=lambda _: next(rounds))
        session_id = await node.session()
        await node.ask(session_id, "write twelve files")

        assert (await node.contexts.compress(session_id)).compressed

        [compressed] = await node.events(session_id, ContextCompressed)
        assert compressed.tokens_after < compressed.tokens_before


async def test_a_turn_whose_context_cannot_be_summarised_ends_and_the_next_one_works(
    tmp_path: Path,
) -> None:
    """What was asked is quoted behind a summary, and once was longer than what it replaced: for ever."""
    window, asked = 2_048, "tell me about the garden " * 80
    write = calls(("filesystem", {"action": "write", "path": "n.txt", "content": "word " * 150}))

    def turn(request: Received) -> Iterable[Part]:
        last = request.json["messages"][-1]
        writes = last["role"] != "tool" and "garden" in str(last["content"])
        return (write,) if writes and request.json.get("tools") else (Say("Yes, so it is. " * 25),)

    async with (
        CountingServer(window=window) as server,
        agent_node(World(), tmp_path, [server.url], window=window) as node,
    ):
        server.mind = mind(turn=turn, compression=lambda _: (Say("- the garden"),))
        session_id = await node.session("local")
        for words in ("tell me more of this " * 20, "and then what " * 20):
            await node.ask(session_id, words)
        await node.ask(session_id, asked)

        outcomes = [await node.ask(session_id, words) for words in ("and so", "go on", "more")]

        assert [outcome.outcome for outcome in outcomes] == ["completed"] * 3
        assert sum(chat.json["messages"] != [] for chat in server.chats) < 60


async def test_arguments_larger_than_the_window_end_no_session(tmp_path: Path) -> None:
    """As a server sends them that keeps to no bound."""
    window = 2_048
    write = calls(("filesystem", {"action": "write", "path": "n.txt", "content": "word " * 20_000}))
    async with (
        ModelServer() as server,
        agent_node(World(), tmp_path, [server.url], window=window) as node,
    ):
        session_id = await node.session("local")
        server.answer(write, Done())
        first = await node.ask(session_id, "write it down")
        server.answer(Say("- it was written down"), Done())
        server.answer(Say("yes"), Done())

        second = await node.ask(session_id, "is it there?")

        assert first.outcome in ("completed", "failed")
        assert (second.outcome, second.content) == ("completed", "yes")
