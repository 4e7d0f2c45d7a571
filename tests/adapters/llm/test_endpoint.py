"""How answers go wrong over HTTP, the same for every backend."""

import asyncio
import logging
from contextlib import aclosing, suppress

import httptools
import httpx
import pytest

from navi.adapters.llm.endpoint import Endpoint
from navi.adapters.llm.lines import MAX_LINE_BYTES
from navi.adapters.llm.ollama import Ollama
from navi.adapters.llm.wire_json import MAX_OUTPUT_BYTES
from navi.domain.vocabulary.errors import BadInput, ModelFailure
from navi.ports.language_model import TextChunk
from tests.contracts.language_model import (
    CALL,
    TIMEOUT,
    Reply,
    asking,
    collect,
    failure_of,
    put_together,
)
from tests.support.left_over import newcomers
from tests.support.model_server import ModelServer
from tests.support.model_wire import Cut, Done, Raw, Say, Stall
from tests.support.until import until

BODY = b"{}"


@pytest.mark.parametrize("prefill", [True, False], ids=["in prefill", "in mid-stream"])
async def test_who_stops_waiting_closes_the_connection_at_once(
    server: ModelServer, ollama: Ollama, prefill: bool
) -> None:
    never = asyncio.Event()
    server.answer(*([] if prefill else [Say("half")]), Stall(never))
    loop = asyncio.get_running_loop()
    stream = ollama.stream(ollama.render(asking("go")), purpose="turn", call_id=CALL)
    if not prefill:
        await anext(stream)
    waiting = asyncio.ensure_future(anext(stream, None))
    request = await server.chat()

    left_at = loop.time()
    waiting.cancel()
    await asyncio.wait({waiting}, timeout=TIMEOUT)
    await stream.aclose()
    await request.end()

    assert request.client_left
    assert request.ended_at - left_at < 0.5


async def test_closing_between_two_chunks_closes_the_connection(
    server: ModelServer, ollama: Ollama
) -> None:
    server.answer(Say("half"), Stall(asyncio.Event()))
    stream = ollama.stream(ollama.render(asking("go")), purpose="turn", call_id=CALL)

    first = await anext(stream)
    await stream.aclose()
    request = await server.chat()
    await request.end()

    assert (first, request.client_left) == (TextChunk("half"), True)


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "cut"])
async def test_what_an_answer_took_is_gone_with_it_without_the_garbage_collector(
    server: ModelServer, ollama: Ollama, whole: bool
) -> None:
    server.answer(Say("half"), Done() if whole else Cut())
    held = newcomers(httpx.Response, httptools.HttpResponseParser)
    stream = ollama.stream(ollama.render(asking("go")), purpose="turn", call_id=CALL)

    await anext(stream)
    assert sorted(held()) == ["HttpResponseParser", "Response"]
    with suppress(ModelFailure):
        async for _ in stream:
            pass
    await stream.aclose()

    await until(lambda: not held())


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
async def test_a_status_is_kept_with_what_the_server_says(
    server: ModelServer, ollama: Ollama, status: int
) -> None:
    server.refuse(status, "that\nwent wrong", headers={"Retry-After": "7"})

    _, failure = await failure_of(ollama, ollama.render(asking("go")))

    assert (failure.kind, failure.status, failure.retry_after) == ("http", status, 7.0)
    assert failure.error == f"{server.url}: status {status}: that\\nwent wrong"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "0"}, 0.0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:30 GMT"}, None),
        (
            {
                "Retry-After": "Wed, 21 Oct 2026 07:28:30 GMT",
                "Date": "Wed, 21 Oct 2026 07:28:00 GMT",
            },
            30.0,
        ),
        ({}, None),
    ],
)
async def test_retry_after_may_be_a_number_or_a_date(
    server: ModelServer, ollama: Ollama, headers: dict[str, str], seconds: float | None
) -> None:
    server.refuse(503, "busy", headers=headers)

    _, failure = await failure_of(ollama, ollama.render(asking("go")))

    assert failure.retry_after == seconds


async def test_redirects_are_not_followed(server: ModelServer, ollama: Ollama) -> None:
    server.refuse(302, b"", headers={"Location": server.url + "/api/chat"})

    _, failure = await failure_of(ollama, ollama.render(asking("go")))

    assert (failure.kind, failure.status, len(server.chats)) == ("http", 302, 1)


async def test_a_huge_error_body_is_cut(server: ModelServer, ollama: Ollama) -> None:
    server.refuse(500, b"<html>" + b"x" * 1_000_000)

    _, failure = await failure_of(ollama, ollama.render(asking("go")))

    assert (failure.status, len(failure.error) < 600) == (500, True)


async def test_compressed_answers_are_refused(server: ModelServer, ollama: Ollama) -> None:
    server.refuse(200, b"\x1f\x8b", headers={"Content-Encoding": "gzip"})

    _, failure = await failure_of(ollama, ollama.render(asking("go")))

    assert failure.kind == "protocol"


async def test_a_server_that_is_not_there_is_a_failed_connection(
    server: ModelServer, ollama: Ollama
) -> None:
    await server.close()

    _, failure = await failure_of(ollama, ollama.render(asking("go")))

    assert (failure.kind, failure.error.startswith(server.url)) == ("connection", True)


@pytest.mark.parametrize("reset", [True, False], ids=["reset", "closed"])
async def test_a_connection_cut_before_the_headers_is_a_failed_connection(
    server: ModelServer, ollama: Ollama, reset: bool
) -> None:
    server.answer(Cut(reset=reset))

    _, failure = await failure_of(ollama, ollama.render(asking("go")))

    assert failure.kind == "connection"


@pytest.mark.parametrize("cut_after", [1, 50, 130])
async def test_an_answer_cut_at_any_byte_is_a_failed_connection(
    server: ModelServer, ollama: Ollama, cut_after: int
) -> None:
    server.answer(Say("half"), Say("lost"), Done(), cut_after=cut_after)

    _, failure = await failure_of(ollama, ollama.render(asking("go")))

    assert failure.kind == "connection"


async def test_something_that_is_not_http_is_a_broken_protocol() -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"220 mail.example.org ESMTP\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as mail:
        port = mail.sockets[0].getsockname()[1]
        endpoint = Endpoint("OLLAMA_HOST", f"http://127.0.0.1:{port}", {})
        async with aclosing(endpoint):
            with pytest.raises(ModelFailure) as failure:
                await endpoint.fetch("/api/tags", within=TIMEOUT)

    assert failure.value.kind == "protocol"


async def test_characters_may_be_cut_between_any_two_bytes(
    server: ModelServer, ollama: Ollama
) -> None:
    server.answer(Say("Grüß 👋\u2028\u0085"), Done(), piece=1)

    reply = put_together(await collect(ollama, ollama.render(asking("go"))))

    assert reply == Reply(text="Grüß 👋\u2028\u0085")


async def test_an_endless_line_ends_the_reply(server: ModelServer, ollama: Ollama) -> None:
    server.answer(Say("half"), Raw(b'{"message":{"content":"' + b"x" * (MAX_LINE_BYTES + 1)))

    came, failure = await failure_of(ollama, ollama.render(asking("go")))

    assert (came, failure.kind) == ([TextChunk("half")], "protocol")


async def test_an_endless_reply_is_ended(server: ModelServer, ollama: Ollama) -> None:
    megabyte = Say("x" * 1024 * 1024)
    server.answer(*[megabyte] * 6, Done())

    came, failure = await failure_of(ollama, ollama.render(asking("go")))

    assert (
        sum(len(chunk.text) for chunk in came if isinstance(chunk, TextChunk)) == MAX_OUTPUT_BYTES
    )
    assert failure.kind == "protocol"


async def test_a_small_answer_that_does_not_come_is_given_up(server: ModelServer) -> None:
    server.answer(Stall(asyncio.Event()))
    endpoint = Endpoint("OLLAMA_HOST", server.url, {})

    async with aclosing(endpoint):
        with pytest.raises(ModelFailure) as failure:
            await endpoint.fetch("/api/chat", BODY, within=0.05)

    assert (failure.value.kind, failure.value.error) == (
        "connection",
        f"{server.url}: no answer within 0.05 s",
    )


@pytest.mark.parametrize(
    ("url", "headers"),
    [
        ("ftp://box", {}),
        ("http://", {}),
        ("http://box:port", {}),
        ("http://box", {"X-Key": "a\nb"}),
        ("http://box", {"X Key": "a"}),
    ],
)
def test_an_unusable_address_or_header_names_its_setting(url: str, headers: dict[str, str]) -> None:
    with pytest.raises(BadInput) as refused:
        Endpoint("OLLAMA_HOST", url, headers)

    assert refused.value.field == "OLLAMA_HOST"


async def test_the_address_is_told_without_its_secrets() -> None:
    endpoint = Endpoint("OLLAMA_HOST", "http://me:hidden99@box:1/v1/?key=alsohidden", {})
    async with aclosing(endpoint):
        assert endpoint.address == "http://box:1/v1"


async def test_nothing_that_is_secret_is_logged(
    server: ModelServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    url = server.url.replace("//", "//me:hidden99@") + "?key=alsohidden"
    endpoint = Endpoint("OLLAMA_HOST", url, {"X-Key": "hidden-too"})

    async with aclosing(endpoint):
        with pytest.raises(ModelFailure):
            await endpoint.fetch("/api/absent", within=TIMEOUT)

    [request] = server.requests
    assert (request.path, request.headers["x-key"]) == ("/api/absent?key=alsohidden", "hidden-too")
    assert "hidden" not in caplog.text
