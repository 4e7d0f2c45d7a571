"""What only Ollama does."""

import json
from typing import Any

import pytest

from navi.adapters.llm.ollama import Ollama, ollama_url, render
from navi.domain.context.prompt import ModelOptions, ModelRequest, PromptMessage
from navi.domain.vocabulary.events import ToolCall, Usage
from navi.domain.vocabulary.ids import CallId
from navi.ports.language_model import FinalChunk, RequestedCall, TextChunk, ToolCallChunk
from tests.contracts.language_model import (
    CALL,
    READ_FILE,
    Reply,
    asking,
    collect,
    failure_of,
    put_together,
)
from tests.support.model_server import MODEL, ModelServer
from tests.support.model_wire import Done, Raw, Say, calls


def line(**content: Any) -> Raw:
    return Raw(json.dumps(content).encode() + b"\n")


def test_a_body_has_all_that_navi_decides_and_nothing_else() -> None:
    called = ToolCall(id=CallId("call_1"), name="read_file", arguments={"path": "a"})
    request = ModelRequest(
        model="qwen3:8b",
        messages=(
            PromptMessage(role="system", content="Be brief."),
            PromptMessage(role="user", content="Read a"),
            PromptMessage(role="assistant", content="", thinking="Well", tool_calls=(called,)),
            PromptMessage(role="tool", content="A", call_id=CallId("call_1"), name="read_file"),
            PromptMessage(role="user", content="Two calls left.", is_guidance=True),
        ),
        tools=(READ_FILE,),
        options=ModelOptions(temperature=0.3, num_ctx=32768, think=True, max_tokens=512),
    )

    assert json.loads(render(request, bounds=True)) == {
        "model": "qwen3:8b",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Read a"},
            {
                "role": "assistant",
                "content": "",
                "thinking": "Well",
                "tool_calls": [
                    {
                        "id": "call_1",
                        "function": {"index": 0, "name": "read_file", "arguments": {"path": "a"}},
                    }
                ],
            },
            {"role": "tool", "content": "A", "tool_name": "read_file", "tool_call_id": "call_1"},
            {"role": "user", "content": "Two calls left."},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "read_file",
                    "description": "Reads a file",
                    "parameters": READ_FILE.parameters,
                },
            }
        ],
        "stream": True,
        "truncate": False,
        "shift": False,
        "think": True,
        "options": {"num_ctx": 32768, "temperature": 0.3, "num_predict": 512},
    }


async def test_calls_are_collected_from_every_line_and_never_merged(
    server: ModelServer, ollama: Ollama
) -> None:
    server.answer(
        calls(("a", {"n": 1})),
        calls(("a", {"n": 1}), ("b", {})),
        Done(calls=(("c", {"n": 3}),)),
    )

    chunks = await collect(ollama, ollama.render(asking("go")))

    wanted: tuple[tuple[str, Any], ...] = (
        ("a", {"n": 1}),
        ("a", {"n": 1}),
        ("b", {}),
        ("c", {"n": 3}),
    )
    assert put_together(chunks) == Reply(calls=wanted)
    assert chunks[:4] == [ToolCallChunk()] * 4


async def test_a_line_without_message_and_end_is_an_error(
    server: ModelServer, ollama: Ollama
) -> None:
    server.answer(Say("half"), line(**{"error parsing tool call": "raw='{'"}))

    came, failure = await failure_of(ollama, ollama.render(asking("go")))

    assert came == [TextChunk("half")]
    assert (failure.kind, "error parsing tool call" in failure.error) == ("http", True)


async def test_an_end_without_done_is_a_broken_protocol(
    server: ModelServer, ollama: Ollama
) -> None:
    server.answer(Say("half"), calls(("a", {})))

    _, failure = await failure_of(ollama, ollama.render(asking("go")))

    assert (failure.kind, failure.tool_calls_came) == ("protocol", True)


async def test_a_last_line_needs_no_line_end_and_may_lack_all_numbers(
    server: ModelServer, ollama: Ollama
) -> None:
    server.answer(Raw(b'\r\n{"message":{"content":"hi"},"done":true}'))

    chunks = await collect(ollama, ollama.render(asking("go")))

    assert chunks == [TextChunk("hi"), FinalChunk(finish_reason="stop", usage=Usage())]


async def test_numbers_that_make_no_sense_count_as_missing(
    server: ModelServer, ollama: Ollama
) -> None:
    server.answer(line(done=True, prompt_eval_count=-3, eval_count="many"))

    chunks = await collect(ollama, ollama.render(asking("go")))

    assert chunks == [FinalChunk(finish_reason="stop", usage=Usage())]


async def test_nul_and_lone_surrogates_never_come_through(
    server: ModelServer, ollama: Ollama
) -> None:
    server.answer(
        Raw(rb'{"message":{"content":"a\u0000b\ud83dc"},"done":false}' + b"\n"),
        Raw(
            rb'{"message":{"tool_calls":[{"function":{"name":"f","arguments":{"k\ud800":["\u0000"]}}}]},"done":true}'
            + b"\n"
        ),
    )

    chunks = await collect(ollama, ollama.render(asking("go")))

    wanted = RequestedCall(
        name="f", arguments={"k\ufffd": ["\ufffd"]}, raw_arguments='{"k\ufffd":["\ufffd"]}'
    )
    assert chunks == [
        TextChunk("a\ufffdb\ufffdc"),
        ToolCallChunk(),
        FinalChunk(finish_reason="stop", usage=Usage(), tool_calls=(wanted,)),
    ]


async def test_arguments_that_are_nested_without_end_are_malformed(
    server: ModelServer, ollama: Ollama
) -> None:
    deep = b'{"a":' * 700 + b"1" + b"}" * 700
    call = b'{"function":{"name":"f","arguments":' + deep + b"}}"
    server.answer(Raw(b'{"message":{"tool_calls":[' + call + b']},"done":true}\n'))

    _, failure = await failure_of(ollama, ollama.render(asking("go")))

    assert (failure.kind, failure.error) == ("protocol", "arguments are nested too deep")


async def test_a_malformed_line_is_shown_escaped_and_short(
    server: ModelServer, ollama: Ollama
) -> None:
    server.answer(Raw(b'{"message":\x1b[2J' + b"x" * 1000 + b"\n"))

    _, failure = await failure_of(ollama, ollama.render(asking("go")))

    assert failure.error == f'malformed line: {{"message":\\x1b[2J{"x" * (200 - 15)}'


async def test_thinking_is_asked_of_the_server_once(server: ModelServer, ollama: Ollama) -> None:
    assert [await ollama.supports_thinking(MODEL) for _ in range(3)] == [True, True, True]
    assert [request.path for request in server.requests] == ["/api/show"]


async def test_a_model_unknown_to_the_server_does_not_think(ollama: Ollama) -> None:
    assert await ollama.supports_thinking("absent") is False


async def test_a_refusal_to_think_is_learned_from(server: ModelServer, ollama: Ollama) -> None:
    assert await ollama.supports_thinking(MODEL)
    server.refuse(400, f'"{MODEL}" does not support thinking')

    _, failure = await failure_of(ollama, ollama.render(asking("go")))

    assert (failure.kind, failure.status, failure.mended) == ("http", 400, True)
    assert await ollama.supports_thinking(MODEL) is False


async def test_models_that_cannot_chat_are_left_out_and_remote_ones_come_last(
    server: ModelServer, ollama: Ollama
) -> None:
    server.otherwise_at["/api/tags"] = {
        "models": [
            {"name": "embedder", "capabilities": ["embedding"]},
            {"name": "far:cloud", "remote_host": "https://example.org"},
            {"name": "old"},
            {"name": "new", "capabilities": ["completion", "tools"]},
        ]
    }

    assert await ollama.models() == ("old", "new", "far:cloud")


async def test_every_request_says_what_it_is_for(server: ModelServer, ollama: Ollama) -> None:
    body = ollama.render(asking("go"))
    server.answer(Done())

    await collect(ollama, body)

    [request] = server.chats
    sent = {name: request.headers[name] for name in ("x-navi-purpose", "x-navi-call")}
    assert sent == {"x-navi-purpose": "turn", "x-navi-call": CALL}
    assert (request.headers["accept-encoding"], request.body) == ("identity", body)


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("box", "http://box:11434"),
        ("box:1234", "http://box:1234"),
        ("0.0.0.0", "http://127.0.0.1:11434"),  # noqa: S104 - what OLLAMA_HOST often is
        ("http://[::]:11434/", "http://127.0.0.1:11434/"),
        ("https://box/ollama", "https://box/ollama"),
    ],
)
def test_an_address_may_be_short(given: str, url: str) -> None:
    assert ollama_url(given) == url
