"""A model server that does what a test says: Ollama and OpenAI over real HTTP on loopback.

Answers are queued and given one to each chat request, in either wire format::

    async with ModelServer() as server:
        go_on = asyncio.Event()
        server.answer(Think("hm"), Say("Hel"), Stall(go_on), Say("lo"), Done())
        server.answer(calls(("read_file", {"path": "a"}), ("list_files", {})), Done())
        server.answer(Stall(go_on), Say("late"), Done())  # a long prefill: not even headers
        server.answer(Say("half"), Cut(reset=True))
        server.refuse(503, "busy", headers={"Retry-After": "2"})
        ...  # Ollama at server.url, OpenAI at server.openai_url
        [first] = server.chats
        first.headers["x-navi-call"], first.body, first.json, first.client_left

Where none is queued ``otherwise`` answers: by default as the demo model would, so that its scripts
work over the wire. As a process of its own: ``python -m tests.support.model_server --port 0``, which
prints its address as a line of JSON and serves until it is told to end.
"""

import argparse
import asyncio
import hashlib
import json
import signal
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from msgspec import structs

from tests.support.demo_answers import demo_answer
from tests.support.model_answer import Answer, give
from tests.support.model_wire import OllamaWire, OpenAIWire, Part, Raw, Stall, Wire

TIMEOUT = 60.0  # seconds that a test waits for what must come
MAX_BODY_BYTES = 64 * 1024 * 1024
DIMENSIONS = 64
VERSION = "0.33.0"
MODEL = "scripted:latest"

WIRES: Mapping[str, Callable[[], Wire]] = {
    "/api/chat": OllamaWire,
    "/v1/chat/completions": OpenAIWire,
}


class Received:
    """A request as it came, and what became of it."""

    def __init__(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> None:
        self.method = method
        self.path = path
        self.headers = headers  # names in lower case
        self.body = body
        self.client_left = False  # the client closed before the answer was over
        self.ended = asyncio.Event()  # the answer is over, or the client left
        self.ended_at = 0.0  # on the loop's clock

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    async def end(self) -> None:
        """Wait until the answer is over or the client has left."""
        async with asyncio.timeout(TIMEOUT):
            await self.ended.wait()


class ModelServer:
    """The server; to be used as ``async with``."""

    def __init__(self, *, port: int = 0) -> None:
        self.models: list[str] = [MODEL]
        self.capabilities: list[str] = ["completion", "tools", "thinking"]
        self.otherwise_at: dict[str, Any] = {}  # JSON answers by path, in place of the usual ones
        self.refuses_at: dict[str, tuple[int, str]] = {}  # status and body by path, before all else
        self.synonyms: dict[str, str] = {}  # words that mean another one, for embeddings
        self.dimensions: dict[str, int] = {}  # of embedding models, where it is not `DIMENSIONS`
        self.embedding_waits: dict[str, asyncio.Event] = {}  # by model: what its answers wait for
        self.embedding_fails = False
        # Calls beside the turns come when they come: unless a test wants them, they are answered as
        # the demo model would, and do not count.
        self.scripted: set[str] = {"turn", "planning", "review", "compression"}
        self.otherwise: Callable[[Received], Sequence[Part]] = demo_parts
        self.requests: list[Received] = []
        self._queue: deque[Answer] = deque()
        self._arrived = asyncio.Condition()
        self._connections: set[asyncio.Task[None]] = set()
        self._port = port
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        return self._port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def openai_url(self) -> str:
        return f"{self.url}/v1"

    @property
    def chats(self) -> list[Received]:
        """The chat requests that came and are ``scripted``, without lists and other questions."""
        return [request for request in self.requests if self._is_scripted(request)]

    def _is_scripted(self, request: Received) -> bool:
        return request.path in WIRES and purpose_of(request) in self.scripted

    def answer(self, *parts: Part, piece: int | None = None, cut_after: int | None = None) -> None:
        """Queue an answer for the next chat request."""
        self._queue.append(Answer(parts=parts, piece=piece, cut_after=cut_after))

    def refuse(
        self, status: int, error: str | bytes, *, headers: Mapping[str, str] | None = None
    ) -> None:
        """Queue an error for the next chat request; bytes are the whole body."""
        body = error if isinstance(error, bytes) else json.dumps({"error": error}).encode()
        self._queue.append(Answer(parts=(Raw(body),), status=status, headers=headers or {}))

    def queue(self, answer: Answer) -> None:
        """Queue an answer with everything chosen by hand."""
        self._queue.append(answer)

    async def chat(self, number: int = 1) -> Received:
        """The n-th chat request, waited for."""
        async with asyncio.timeout(TIMEOUT), self._arrived:
            await self._arrived.wait_for(lambda: len(self.chats) >= number)
        return self.chats[number - 1]

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop listening and cut all connections: from here on connecting is refused."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.ensure_future(self._serve_and_close(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _serve_and_close(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            await self._serve(reader, writer)
        finally:
            writer.transport.abort()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await _read_request(reader)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        answer = self._answer_to(request)
        self.requests.append(request)
        async with self._arrived:
            self._arrived.notify_all()
        leaving = asyncio.ensure_future(_left(reader))
        answering = asyncio.ensure_future(give(answer, WIRES.get(request.path), writer))
        try:
            await asyncio.wait({leaving, answering}, return_when=asyncio.FIRST_COMPLETED)
            request.client_left = not answering.done()
        finally:
            leaving.cancel()
            answering.cancel()
            await asyncio.gather(leaving, answering, return_exceptions=True)
            request.ended_at = asyncio.get_running_loop().time()
            self._ended(request)
            request.ended.set()

    def _ended(self, request: Received) -> None:
        """An answer is over, or nobody waits for it any more."""

    def _answer_to(self, request: Received) -> Answer:
        if request.path in self.refuses_at:
            status, body = self.refuses_at[request.path]
            return Answer(parts=(Raw(body.encode()),), status=status)
        match request.method, request.path:
            case "POST", path if path in WIRES:
                if self._queue and self._is_scripted(request):
                    return self._queue.popleft()
                return Answer(parts=tuple(self.otherwise(request)))
            case _, path if path in self.otherwise_at:
                return _json(self.otherwise_at[path])
            case "GET", "/api/tags":
                return _json({"models": [{"name": name, "model": name} for name in self.models]})
            case "GET", "/api/ps":
                return _json({"models": [{"name": self.models[0], "context_length": 32768}]})
            case "GET", "/api/version":
                return _json({"version": VERSION})
            case "GET", "/v1/models":
                return _json({"data": [{"id": name, "object": "model"} for name in self.models]})
            case "POST", "/api/show":
                if request.json["model"] not in self.models:
                    return _json({"error": f"model '{request.json['model']}' not found"}, 404)
                return _json({"capabilities": self.capabilities})
            case "POST", "/api/embed" | "/v1/embeddings":
                return self._embedded(request)
            case _:
                return _json({"error": "404 page not found"}, 404)

    def _embedded(self, request: Received) -> Answer:
        model, texts = request.json["model"], request.json["input"]
        if model not in self.models:
            return _json({"error": f"model '{model}' not found"}, 404)
        if self.embedding_fails:
            return _json({"error": "the runner has ended"}, 500)
        wanted = [texts] if isinstance(texts, str) else texts
        vectors = [self._vector(model, text) for text in wanted]
        if request.path == "/api/embed":
            answer = _json({"embeddings": vectors})
        else:
            made = [{"index": index, "embedding": vector} for index, vector in enumerate(vectors)]
            answer = _json({"object": "list", "data": made[::-1]})  # the index counts
        if model in self.embedding_waits:
            parts = (Stall(self.embedding_waits[model]), *answer.parts)
            return structs.replace(answer, parts=parts)
        return answer

    def _vector(self, model: str, text: str) -> list[float]:
        words = (self.synonyms.get(word, word) for word in text.lower().split())
        return embedding(" ".join(words), dimensions=self.dimensions.get(model, DIMENSIONS))


def purpose_of(request: Received) -> str:
    """What navi makes the call for."""
    return request.headers.get("x-navi-purpose", "turn")


def demo_parts(request: Received) -> Sequence[Part]:
    """What the demo model would answer to a request in either format."""
    return demo_answer(request.json, purpose=purpose_of(request))


def embedding(text: str, *, dimensions: int = DIMENSIONS) -> list[float]:
    """A vector of a text, unit length: texts with common words are near each other."""
    vector = [0.0] * dimensions
    for word in text.lower().split():
        vector[hashlib.sha256(word.encode()).digest()[0] % dimensions] += 1.0
    length = sum(number * number for number in vector) ** 0.5
    return [number / length for number in vector] if length else vector


def _json(content: Any, status: int = 200) -> Answer:
    body = Raw(json.dumps(content).encode())
    return Answer(parts=(body,), status=status, headers={"Content-Type": "application/json"})


async def _read_request(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ", 2)
    pairs = (line.partition(":") for line in head[1:] if line)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    size = int(headers.get("content-length", "0"))
    if size > MAX_BODY_BYTES:
        raise ConnectionError(f"a body of {size} bytes")
    return Received(method, path, headers, await reader.readexactly(size))


async def _left(reader: asyncio.StreamReader) -> None:
    """Wait until the client closes; nobody sends a second request on these connections."""
    try:
        while await reader.read(1024):
            pass
    except ConnectionError:
        pass


async def _serve_until_told(port: int) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    async with ModelServer(port=port) as server:
        print(json.dumps({"url": server.url, "openai_url": server.openai_url}), flush=True)  # noqa: T201  # for whoever started it
        await ended.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A model server with the demo model's mind.")
    parser.add_argument("--port", type=int, default=0, help="0 for a free one")
    asyncio.run(_serve_until_told(parser.parse_args().port))
