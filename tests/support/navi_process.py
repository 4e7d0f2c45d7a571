"""A real ``navi serve`` in a process of its own, for end-to-end tests."""

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import msgspec
import psutil
from websockets.asyncio.client import ClientConnection, connect

from tests.support.cluster import give_cluster
from tests.support.fork_server import ForkedProcess, fork
from tests.support.http_client import http_client
from tests.support.terminal import Terminal, on_terminal

START_SECONDS = 120.0
END_SECONDS = 60.0
TURN_SECONDS = 60.0
COMMAND_SECONDS = 120.0

Looked = TypeVar("Looked")
Given = TypeVar("Given")

# Nothing of the machine that runs the tests shows through: no settings, no model server.
KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV", "COVERAGE_PROCESS_START")
NOTHING = os.open(os.devnull, os.O_RDONLY)  # to read
# Scripted servers answer as many calls at once as a test has; what waits for a slot is asked for.
ISOLATED = {
    "NAVI_LLM": "demo",
    "NAVI_NATS_PORT": "0",
    "NAVI_PORT": "0",
    "NAVI_MODEL_SLOTS": "16",
    # Each start would attack the sandbox, which takes longer than most of these tests.
    "NAVI_CODE_EXEC": "off",
}


class Finished(msgspec.Struct, frozen=True):
    """A command that has ended."""

    status: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """Standard output as one JSON value."""
        return json.loads(self.stdout)


def environment_of(data_dir: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """The environment of a navi whose data is in a directory; ``settings`` come on top."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}  # noqa: TID251  # tests have no command line
    return {**kept, **ISOLATED, "NAVI_DATA_DIR": str(data_dir), **settings}


@asynccontextmanager
async def started_navi(
    *arguments: str, data_dir: Path, settings: Mapping[str, str] | None = None
) -> AsyncGenerator[asyncio.subprocess.Process, None]:
    """A command while it runs, on pipes; killed at the end where it has not ended itself."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "navi",
        *arguments,
        env=environment_of(data_dir, settings or {}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def run_navi(
    *arguments: str,
    data_dir: Path,
    settings: Mapping[str, str] | None = None,
    stdin: str | bytes = "",
    within: float = COMMAND_SECONDS,
) -> Finished:
    """Run a command to its end, which may take ``within`` seconds."""
    given = stdin.encode() if isinstance(stdin, str) else stdin
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            process = await fork(
                "navi",
                *arguments,
                environment=environment_of(data_dir, settings or {}),
                stdin=reading,
                stdout=out.fileno(),
                stderr=err.fileno(),
            )
        finally:
            os.close(reading)
        try:
            async with asyncio.timeout(within):
                await asyncio.to_thread(_write, writing, given)
                status = await process.wait()
        finally:
            process.kill()
        out.seek(0)
        err.seek(0)
        return Finished(status, out.read().decode(), err.read().decode())


def _write(descriptor: int, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), open(descriptor, "wb") as file:
        file.write(data)


class EndedAtStart(AssertionError):
    """The server ended before it took work; ``status`` is negative for a signal."""

    def __init__(self, status: int, log: str) -> None:
        super().__init__(f"navi ended with {status}:\n{log}")
        self.status = status


class NaviProcess:
    """A server; `running_navi` starts it and ends it, whatever a test has done to it meanwhile."""

    def __init__(
        self, data_dir: Path, settings: Mapping[str, str], *, module: str = "navi"
    ) -> None:
        self.data_dir = data_dir
        self._module = module  # that serves as navi does
        self.settings = dict(settings)
        self.url = ""
        self._start = 0  # bytes: where the log of the process that runs begins
        self._process: ForkedProcess | None = None
        self._log = data_dir.with_name(f"{data_dir.name}.log")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        """Everything that it and the ones started before it on this directory have written."""
        return self._log.read_text("utf-8", "replace") if self._log.exists() else ""

    def _latest_log(self) -> str:
        # Asked for again and again, of a log that may hold many starts.
        with self._log.open("rb") as file:
            file.seek(self._start)
            return file.read().decode("utf-8", "replace")

    async def has_logged(self, event: str) -> None:
        """Wait until the process that runs has logged an event of this name."""
        async with asyncio.timeout(END_SECONDS):
            while f'"event": "{event}"' not in self._latest_log():  # noqa: ASYNC110  # it is a file
                await asyncio.sleep(0.02)

    async def setup_token(self) -> str:
        """What the link that makes the first user ends with; it is printed behind the address."""
        async with asyncio.timeout(END_SECONDS):
            while (link := re.search(r"/setup#token=(\S+)\n", self._latest_log())) is None:  # noqa: ASYNC110  # it is a file
                await asyncio.sleep(0.02)
        return link[1]

    # --- life ---

    async def start(self, **settings: str) -> None:
        """Start it and wait until it takes work.

        Args:
            settings: on top of its own, for this start only, such as ``NAVI_FAILPOINTS``.

        Raises:
            EndedAtStart: it did not come to that.
        """
        if "DATABASE_URL" not in self.settings:
            await give_cluster(self.data_dir)
        self._start = self._log.stat().st_size if self._log.exists() else 0
        with self._log.open("ab") as output:
            self._process = await fork(
                self._module,
                "serve",
                environment=environment_of(self.data_dir, {**self.settings, **settings}),
                stdin=NOTHING,
                stdout=output.fileno(),
                stderr=output.fileno(),
            )
        deadline = time.monotonic() + START_SECONDS
        while (url := self._address()) is None or not await _is_ready(url):
            if self._process.returncode is not None:
                raise EndedAtStart(self._process.returncode, self.log)
            if time.monotonic() > deadline:
                raise AssertionError(f"navi is not ready after {START_SECONDS} s:\n{self.log}")
            await asyncio.sleep(0.02)
        self.url = url

    async def kill(self) -> None:
        """``kill -9``, and wait until it is gone."""
        self.signal(signal.SIGKILL)
        await self.ended()

    async def stop(self) -> int:
        """SIGTERM, and wait for the end; gives the exit status."""
        self.signal(signal.SIGTERM)
        return await self.ended()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the server alone."""
        assert self._process is not None
        self._process.send_signal(number)

    async def ended(self, *, within: float | None = END_SECONDS) -> int:
        """Wait for its end, ``within`` seconds; gives the exit status, negative for a signal."""
        assert self._process is not None
        async with asyncio.timeout(within):
            return await self._process.wait()

    async def end(self) -> None:
        """End it if it runs, and see that no server of its own outlives it."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        try:
            family = self.family()
        except psutil.NoSuchProcess:  # killed, and nobody was told yet
            await process.wait()
            return
        process.terminate()
        try:
            await self.ended()
        except TimeoutError:
            process.kill()
            await process.wait()
        _, left = await asyncio.to_thread(psutil.wait_procs, family, timeout=5)
        for straggler in left:
            straggler.kill()

    def family(self) -> list[psutil.Process]:
        """It and all its descendants that are alive."""
        me = psutil.Process(self.pid)
        return [me, *me.children(recursive=True)]

    def _address(self) -> str | None:
        for line in self._latest_log().splitlines():
            words = line.split()
            if len(words) > 1 and words[0] == "chat" and words[1].startswith("http"):
                return words[1]
        return None

    # --- talking to it ---

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[httpx.AsyncClient, None]:
        """An HTTP client for its address."""
        async with http_client(self.url, timeout=TURN_SECONDS) as client:
            yield client

    async def get(self, path: str) -> Any:
        """The JSON of a route."""
        async with self.client() as client:
            answer = await client.get(path)
        assert answer.is_success, answer.text
        return answer.json()

    async def post(self, path: str, body: object = None) -> Any:
        """The JSON that a route answers to a body."""
        async with self.client() as client:
            answer = await client.post(path, json={} if body is None else body)
        assert answer.is_success, answer.text
        return answer.json()

    async def new_session(self) -> str:
        """The id of a new session."""
        return (await self.post("/sessions"))["id"]

    async def say(self, session_id: str, content: str) -> Any:
        """Say something and wait for the outcome of the turn."""
        return await self.post(f"/sessions/{session_id}/messages", {"content": content})

    async def drop(self, session_id: str, content: str) -> Any:
        """Say something and do not wait; gives the receipt."""
        path = f"/sessions/{session_id}/messages?wait=false"
        return await self.post(path, {"content": content})

    async def types(self, session_id: str, *, deltas: bool = False) -> list[str]:
        """The types of a session's events, in order."""
        events = (await self.get(f"/sessions/{session_id}/events"))["events"]
        types = [event["type"] for event in events]
        return [name for name in types if deltas or not name.endswith("_delta")]

    async def until(self, session_id: str, type: str, *, after: int = 0) -> dict[str, Any]:  # noqa: A002  # as in the envelope
        """Wait for an event of a type behind ``after``; gives its envelope."""
        async with self.socket(session_id, after=after) as socket, asyncio.timeout(TURN_SECONDS):
            async for frame in socket:
                event = json.loads(frame)
                if event["type"] == type and "data" in event:
                    return event
        raise AssertionError(f"the socket closed before {type}")

    async def at_rest(self, session_id: str) -> None:
        """Wait until what follows the last turn of a session is over: nothing is appended by itself then."""
        async with asyncio.timeout(TURN_SECONDS):
            while not is_followed((await self.get(f"/sessions/{session_id}/events"))["events"]):  # noqa: ASYNC110  # it is another process
                await asyncio.sleep(0.02)

    @asynccontextmanager
    async def socket(
        self, session_id: str, *, after: int | None = None
    ) -> AsyncGenerator[ClientConnection, None]:
        """The WebSocket of a session."""
        query = "" if after is None else f"?after={after}"
        url = f"{self.url.replace('http', 'ws', 1)}/ws/sessions/{session_id}{query}"
        # Where frames that nobody has read fill a queue, none is read any more, that of the end neither.
        async with connect(url, proxy=None, max_size=2**20, max_queue=None) as socket:
            yield socket

    def started(self, *arguments: str) -> AbstractAsyncContextManager[asyncio.subprocess.Process]:
        """Another command of navi on the same data and settings, while it runs."""
        return started_navi(*arguments, data_dir=self.data_dir, settings=self.settings)

    def on_terminal(self, *arguments: str) -> AbstractAsyncContextManager[Terminal]:
        """Another command of navi on the same data and settings, on a terminal."""
        return on_terminal(
            *(sys.executable, "-m", "navi", *arguments),
            environment=environment_of(self.data_dir, self.settings),
        )

    async def command(
        self,
        *arguments: str,
        stdin: str | bytes = "",
        within: float = COMMAND_SECONDS,
        **settings: str,
    ) -> Finished:
        """Run another command of navi on the same data and settings, for ``within`` seconds at most."""
        return await run_navi(
            *arguments,
            data_dir=self.data_dir,
            settings={**self.settings, **settings},
            stdin=stdin,
            within=within,
        )


@asynccontextmanager
async def running_navi(
    data_dir: Path, *, module: str = "navi", **settings: str
) -> AsyncGenerator[NaviProcess, None]:
    """A server on a data directory, or on the ``DATABASE_URL`` and ``NATS_URL`` among the settings.

    Leaves no process behind; what the test has ended itself stays ended.
    """
    navi = NaviProcess(data_dir, settings, module=module)
    await navi.start()
    try:
        yield navi
    finally:
        await navi.end()


def is_followed(events: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the call for memories, the last of what follows a turn, followed the last one."""
    turn = max(event["seq"] for event in events if event["type"] == "turn_completed")
    asked = {
        event["data"]["call_id"]
        for event in events
        if event["type"] == "model_called" and event["data"]["purpose"] == "memory"
    }
    return any(
        event["type"] == "model_replied" and event["data"]["call_id"] in asked
        for event in events
        if event["seq"] > turn
    )


async def while_unchanged(
    look: Callable[[], Awaitable[Looked]], ask: Callable[[], Awaitable[Given]]
) -> tuple[Looked, Given]:
    """What one looks at, and what was asked for while that stayed as it is."""
    while True:
        before = await look()
        given = await ask()
        if await look() == before:
            return before, given


async def _is_ready(url: str) -> bool:
    try:
        async with http_client(timeout=30.0) as client:
            return (await client.get(f"{url}/health/ready")).is_success
    except httpx.HTTPError:
        return False
