"""MCP servers that are reached by HTTP, and answer as they should not."""

import gzip
import json
from collections.abc import AsyncGenerator
from typing import Any

import psutil
import pytest
import pytest_asyncio

from navi.adapters.tools.mcp.servers import McpServers
from navi.http.server.serve import serving
from tests.support.mcp_servers import call, started

pytestmark = pytest.mark.timeout(240)

TOOLS = ("echo", "giant", "events", "packed", "nonsense", "failing", "elsewhere", "silent")


class Wild:
    """An MCP server as an ASGI application: what it answers says the name of the tool."""

    def __init__(self) -> None:
        self.keys: set[bytes | None] = set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.keys.add(dict(scope["headers"]).get(b"x-key"))
        body = b""
        while True:
            part = await receive()
            body += part.get("body", b"")
            if not part.get("more_body"):
                break
        if scope["method"] != "POST":
            await _answer(send, 405, b"")
            return
        await self._take(json.loads(body), receive, send)

    async def _take(self, message: Any, receive: Any, send: Any) -> None:
        match message:
            case {"method": "initialize", "params": {"protocolVersion": version}}:
                info = {"name": "wild", "version": "1"}
                result: Any = {
                    "protocolVersion": version,
                    "capabilities": {"tools": {}},
                    "serverInfo": info,
                }
            case {"method": "tools/list"}:
                result = {"tools": [{"name": n, "inputSchema": {"type": "object"}} for n in TOOLS]}
            case {"method": "tools/call", "params": {"name": name}}:
                await self._call(name, message["id"], receive, send)
                return
            case {"id": id_, "method": method}:
                error = {"code": -32601, "message": f"no {method}"}
                await _answer(send, 200, _json({"jsonrpc": "2.0", "id": id_, "error": error}))
                return
            case _:
                await _answer(send, 202, b"")
                return
        await _answer(send, 200, _json({"jsonrpc": "2.0", "id": message["id"], "result": result}))

    async def _call(self, name: str, id_: Any, receive: Any, send: Any) -> None:
        good = _json(
            {
                "jsonrpc": "2.0",
                "id": id_,
                "result": {"content": [{"type": "text", "text": "fine"}]},
            }
        )
        match name:
            case "giant":
                await _start(send, 200)
                for _ in range(50):
                    await send(
                        {"type": "http.response.body", "body": b" " * 2**20, "more_body": True}
                    )
                await send({"type": "http.response.body", "body": good})
            case "events":
                await _start(send, 200, kind=b"text/event-stream")
                await send({"type": "http.response.body", "body": b"data: ", "more_body": True})
                for _ in range(50):
                    await send(
                        {"type": "http.response.body", "body": b"x" * 2**20, "more_body": True}
                    )
                await send({"type": "http.response.body", "body": b"\n\n"})
            case "packed":
                bomb = gzip.compress(b" " * 2**26)
                await _start(send, 200, (b"content-encoding", b"gzip"))
                await send({"type": "http.response.body", "body": bomb})
            case "nonsense":
                await _answer(send, 200, b"{{{")
            case "failing":
                await _answer(send, 500, b"")
            case "elsewhere":
                await _start(send, 307, (b"location", b"http://127.0.0.1:9/mcp"))
                await send({"type": "http.response.body", "body": b""})
            case "silent":
                await receive()  # until the client has left
            case _:
                await _answer(send, 200, good)


def _json(message: Any) -> bytes:
    return json.dumps(message).encode()


async def _answer(send: Any, status: int, body: bytes) -> None:
    await _start(send, status)
    await send({"type": "http.response.body", "body": body})


async def _start(
    send: Any, status: int, *headers: tuple[bytes, bytes], kind: bytes = b"application/json"
) -> None:
    all_headers = [(b"content-type", kind), *headers]
    await send({"type": "http.response.start", "status": status, "headers": all_headers})


@pytest.fixture(scope="module")
def wild() -> Wild:
    return Wild()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def servers(
    tmp_path_factory: pytest.TempPathFactory, wild: Wild
) -> AsyncGenerator[McpServers]:
    async with serving(wild, host="127.0.0.1", port=0) as address:
        url = f"http://127.0.0.1:{address.port}/mcp"
        entry = {"url": url, "headers": {"X-Key": "${SHARED}"}, "timeout": 5}
        async with started(tmp_path_factory.mktemp("mcp"), wild=entry) as running:
            yield running


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ("giant", "more than 16,777,216 bytes"),
        ("events", ""),
        ("packed", "packs its answers (gzip) unasked"),
        ("nonsense", ""),
        ("failing", "HTTP 500"),
        ("elsewhere", "not followed"),
        ("silent", "did not answer within 5 s"),
    ],
)
async def test_an_answer_that_is_none_is_an_error_and_the_next_call_is_fine(
    servers: McpServers, tmp_path: Any, tool: str, said: str
) -> None:
    before = psutil.Process().memory_info().rss

    result = await call(servers, f"wild__{tool}", tmp_path)
    after = await call(servers, "wild__echo", tmp_path)

    assert (result.outcome, after.outcome, after.output) == ("error", "ok", "fine")
    assert said in result.output
    assert psutil.Process().memory_info().rss - before < 60 * 2**20


async def test_the_headers_of_the_file_are_sent(servers: McpServers, wild: Wild) -> None:
    assert servers.unavailable() == ()
    assert wild.keys == {b"for one"}
