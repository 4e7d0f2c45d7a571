"""What only OpenAI-compatible servers do, each in its own way."""

import asyncio
import json
from typing import Any

import pytest
from msgspec.structs import replace

from navi.adapters.llm.openai import OpenAI
from navi.adapters.llm.openai_request import Form, render
from navi.domain.context.prompt import ModelOptions, ModelRequest, PromptMessage
from navi.domain.vocabulary.events import ToolCall, Usage
from navi.domain.vocabulary.ids import CallId
from navi.ports.language_model import FinalChunk, TextChunk, ThinkingChunk
from tests.contracts.language_model import Reply, asking, collect, failure_of, put_together
from tests.support.model_server import ModelServer
from tests.support.model_wire import Done, ErrorLine, Raw, Say, Stall, calls


def delta(**content: Any) -> Raw:
    event = {"choices": [{"index": 0, "delta": content}]}
    return Raw(b"data: " + json.dumps(event).encode() + b"\n\n")


def piece(**content: Any) -> Raw:
    """A piece of a tool call."""
    function = {key: content.pop(key) for key in ("name", "arguments") if key in content}
    return delta(tool_calls=[{**content, "function": function}])


END = Raw(b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')


def test_a_body_has_arguments_as_text_and_null_beside_calls() -> None:
    called = ToolCall(id=CallId("call_1"), name="read_file", arguments={"path": "a"})
    request = ModelRequest(
        model="m",
        messages=(
            PromptMessage(role="user", content="Read a"),
            PromptMessage(role="assistant", content="", thinking="Well", tool_calls=(called,)),
            PromptMessage(role="tool", content="A", call_id=CallId("call_1"), name="read_file"),
        ),
    )

    assert json.loads(render(request, Form())) == {
        "model": "m",
        "messages": [
            {"role": "user", "content": "Read a"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "read_file", "arguments": '{"path":"a"}'},
                    }
                ],
            },
            {"role": "tool", "content": "A", "tool_call_id": "call_1"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def test_frames_may_have_comments_names_crlf_and_several_lines(
    server: ModelServer, openai: OpenAI
) -> None:
    server.answer(
        Raw(
            b"\xef\xbb\xbf: keep-alive\r\n\r\n"
            b'event: message\r\nid: 1\r\ndata:{"choices":\r\ndata: [{"delta":{"content":"hi"}}]}\r\n\r\n'
            b"data: [DONE]"
        )
    )

    chunks = await collect(openai, openai.render(asking("go")))

    assert chunks == [TextChunk("hi"), FinalChunk(finish_reason="stop", usage=Usage())]


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
async def test_thinking_has_two_names(server: ModelServer, openai: OpenAI, name: str) -> None:
    server.answer(delta(**{name: "Hm"}), END)

    assert (await collect(openai, openai.render(asking("go"))))[0] == ThinkingChunk("Hm")


A = ("a", {"n": 1})
B = ("b", {"n": 2})
NOTHING: tuple[str, Any] = ("a", {})
ONE, TWO = '{"n":1}', '{"n":2}'


@pytest.mark.parametrize(
    ("pieces", "wanted"),
    [
        pytest.param(
            [
                piece(index=0, id="x", name="a", arguments=""),
                piece(index=1, id="y", name="b", arguments=""),
                piece(index=0, arguments='{"n"'),
                piece(index=1, arguments='{"n":'),
                piece(index=0, arguments=":1}"),
                piece(index=1, arguments="2}"),
            ],
            (A, B),
            id="interleaved by index",
        ),
        pytest.param(
            [
                piece(id="x", name="a", arguments='{"n"'),
                piece(arguments=":1}"),
                piece(id="y", name="b", arguments=TWO),
            ],
            (A, B),
            id="no index",
        ),
        pytest.param(
            [
                piece(index=0, id="x", name="a", arguments=ONE),
                piece(index=0, id="y", name="b", arguments=TWO),
            ],
            (A, B),
            id="index 0 for all",
        ),
        pytest.param(
            [
                piece(index=0, id="x", name="a", arguments='{"n"'),
                piece(index=0, id="x", name="a", arguments=":1}"),
            ],
            (A,),
            id="id and name repeated in each piece",
        ),
        pytest.param(
            [piece(index=0, name="a", arguments=ONE), piece(index=0, name="a", arguments=ONE)],
            (A, A),
            id="index 0 for all, no id, same tool twice",
        ),
        pytest.param([piece(id="x", name="a", arguments={"n": 1})], (A,), id="an object"),
        pytest.param([piece(index=0, id="x", name="a")], (NOTHING,), id="no arguments"),
        pytest.param(
            [piece(index=0, id="x", name="a", arguments="[1]")], (("a", None),), id="no object"
        ),
    ],
)
async def test_calls_are_put_together_however_they_are_cut(
    server: ModelServer, openai: OpenAI, pieces: list[Raw], wanted: Any
) -> None:
    server.answer(*pieces, END)

    reply = put_together(await collect(openai, openai.render(asking("go"))))

    assert reply == Reply(calls=wanted, usage=Usage())


async def test_the_usage_comes_after_the_last_choice(server: ModelServer, openai: OpenAI) -> None:
    server.answer(Say("hi"), Done(prompt=7, completion=1))

    reply = put_together(await collect(openai, openai.render(asking("go"))))

    assert reply == Reply(text="hi", usage=Usage(prompt_tokens=7, completion_tokens=1))


async def test_a_server_that_refuses_stream_options_is_not_sent_them_again(
    server: ModelServer, openai: OpenAI
) -> None:
    request = asking("go")
    before = openai.render(request)
    server.refuse(400, "Unrecognized request argument supplied: stream_options")

    _, failure = await failure_of(openai, before)
    server.answer(Say("hi"), Done())
    reply = put_together(await collect(openai, openai.render(request)))

    assert (failure.mended, openai.renderer, reply.text) == (True, "openai/2-without-usage", "hi")
    assert [b"stream_options" in chat.body for chat in server.chats] == [True, False]


async def test_a_server_that_wants_another_name_for_the_bound_is_given_it(
    server: ModelServer, openai: OpenAI
) -> None:
    request = replace(asking("go"), options=ModelOptions(max_tokens=24))
    before = openai.render(request)
    server.refuse(
        400,
        "Unsupported parameter: 'max_tokens' is not supported with this model. "
        "Use 'max_completion_tokens' instead.",
    )

    _, failure = await failure_of(openai, before)
    server.answer(Say("hi"), Done())
    await collect(openai, openai.render(request))

    first, second = (chat.json for chat in server.chats)
    assert (failure.mended, openai.renderer) == (True, "openai/2-max-completion-tokens")
    assert (first["max_tokens"], second["max_completion_tokens"]) == (24, 24)
    assert "max_tokens" not in second


@pytest.mark.parametrize(
    ("told", "usage"),
    [
        (
            {
                "usage": {
                    "prompt_tokens": 32,
                    "completion_tokens": 4,
                    "prompt_tokens_details": {"cached_tokens": 25},
                },
                "timings": {"cache_n": 25, "prompt_n": 7, "predicted_n": 4},
            },
            Usage(prompt_tokens=32, completion_tokens=4, cached_tokens=25),
        ),
        (
            {"timings": {"cache_n": 25, "prompt_n": 7, "predicted_n": 4}},
            Usage(prompt_tokens=32, completion_tokens=4, cached_tokens=25),
        ),
        (
            {
                "usage": {"prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": 0},
                "timings": "slow",
            },
            Usage(prompt_tokens=9, completion_tokens=1, cached_tokens=0),
        ),
        (
            {"usage": {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": None}},
            Usage(prompt_tokens=9, completion_tokens=1),
        ),
    ],
    ids=["llama.cpp", "llama.cpp, not asked", "DeepSeek", "not told"],
)
async def test_what_the_server_had_in_its_cache_is_counted_where_it_says_so(
    server: ModelServer, openai: OpenAI, told: dict[str, Any], usage: Usage
) -> None:
    counted = Raw(b"data: " + json.dumps({"choices": [], **told}).encode() + b"\n\n")
    reason = Raw(b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n')
    server.answer(Say("hi"), reason, counted, Raw(b"data: [DONE]\n\n"))

    reply = put_together(await collect(openai, openai.render(asking("go"))))

    assert reply == Reply(text="hi", usage=usage)


@pytest.mark.parametrize("end", [END, Raw(b"data: [DONE]\n\n")])
async def test_one_end_mark_is_enough(server: ModelServer, openai: OpenAI, end: Raw) -> None:
    server.answer(Say("hi"), end)

    reply = put_together(await collect(openai, openai.render(asking("go"))))

    assert reply == Reply(text="hi", usage=Usage())


async def test_no_end_mark_is_a_broken_protocol(server: ModelServer, openai: OpenAI) -> None:
    server.answer(Say("half"))

    _, failure = await failure_of(openai, openai.render(asking("go")))

    assert failure.kind == "protocol"


async def test_a_server_that_goes_silent_after_the_reason_has_ended(
    server: ModelServer, openai: OpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("navi.adapters.llm.openai_reply.TAIL_SECONDS", 0.05)
    reason = Raw(b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n')
    server.answer(Say("hi"), reason, Stall(asyncio.Event()))

    reply = put_together(await collect(openai, openai.render(asking("go"))))

    assert reply == Reply(text="hi", usage=Usage())


async def test_plain_json_instead_of_a_stream_is_understood(
    server: ModelServer, openai: OpenAI
) -> None:
    server.answer(Raw(b'{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}'))
    server.answer(Raw(b'{"error":{"message":"no such thing"}}'))

    reply = put_together(await collect(openai, openai.render(asking("go"))))
    _, failure = await failure_of(openai, openai.render(asking("go")))

    assert reply == Reply(text="hi", usage=Usage())
    assert (failure.kind, failure.error) == ("http", "the server reports: no such thing")


async def test_the_key_is_sent_and_never_told(server: ModelServer, openai: OpenAI) -> None:
    server.refuse(401, "Incorrect API key provided: sk-very-secret")
    server.answer(ErrorLine("bad key sk-very-secret"))

    failures = [(await failure_of(openai, openai.render(asking("go"))))[1] for _ in range(2)]

    assert server.chats[0].headers["authorization"] == "Bearer sk-very-secret"
    assert [failure.error.rpartition(": ")[2] for failure in failures] == ["***", "bad key ***"]
    assert "very-secret" not in "".join(map(str, failures))


async def test_it_lists_models(server: ModelServer, openai: OpenAI) -> None:
    server.models = ["one", "two"]

    assert await openai.models() == ("one", "two")


async def test_each_piece_of_arguments_is_a_sign_of_life(
    server: ModelServer, openai: OpenAI
) -> None:
    server.answer(calls(("write_file", {"content": "x" * 80})), Done())

    chunks = await collect(openai, openai.render(asking("go")))

    assert len(chunks) > 10
