"""A navi that is killed and started again: on real servers, with a model server that outlives it."""

import asyncio
import json
import secrets
import signal
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from navi.adapters.embedded.run_record import read_run
from navi.adapters.postgres.log.event_log import PostgresEventLog
from tests.adapters.nats.own_server import OwnServer
from tests.chaos.mind import METERED, Mind
from tests.support.http_client import http_client
from tests.support.model_server import ModelServer
from tests.support.navi_process import EndedAtStart, NaviProcess
from tests.support.servers import PostgresServer

ANSWER_SECONDS = 60.0

PROFILES: Mapping[str, Mapping[str, Any]] = {
    "planner": {"planning_enabled": True, "planning_phase2_enabled": True},
    "small": {"num_ctx": 4_000, "max_iterations": 6},
    "metered": {"max_tokens_per_turn": METERED},
    "careful": {"approvals": [{"tool": "count", "then": "ask"}]},
    "served": {"approvals": [{"tool": "parrot__*", "then": "allow"}]},
}

# Not safe to repeat: each run leaves a line outside of everything that navi keeps.
TOOLS = '''
from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from somewhere import ToolContext


async def count(label: str, context: ToolContext, seconds: float = 0.0) -> str:
    """Count a call."""
    with open({path!r}, "a") as counted:
        counted.write(context.call_id + "\\n")
    await asyncio.sleep(seconds)
    return "counted " + label
'''


class Service:
    """The server under test; `running_service` makes one and ends it.

    Attributes:
        up: set while a process of it takes work.
        down: set once the process that was started last has ended.
    """

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        data = directory / "data"
        self.counted = directory / "counted.txt"
        for name, config in PROFILES.items():
            (data / "profiles" / name).mkdir(parents=True)
            (data / "profiles" / name / "config.json").write_text(json.dumps(config))
        (data / "tools").mkdir()
        (data / "tools" / "counting.py").write_text(TOOLS.format(path=str(self.counted)))
        self.mind = Mind()
        self.models = ModelServer()
        self.models.capabilities.append("vision")
        self.models.otherwise = self.mind.answer
        self.navi = NaviProcess(data, settings)
        self.http = http_client(timeout=ANSWER_SECONDS)
        self.up = asyncio.Event()
        self.down = asyncio.Event()
        self._settings = settings
        self._forgotten = 0  # characters of the server's log
        self._mourner: asyncio.Task[None] | None = None
        self._reading = AsyncExitStack()
        self._log: PostgresEventLog | None = None

    # --- life and death ---

    async def start(self, failpoints: str = "") -> None:
        """Start it, with ``NAVI_FAILPOINTS``; it may be dead again when this returns."""
        await self.bury()
        self.down.clear()
        model = {"NAVI_LLM": "ollama", "OLLAMA_HOST": self.models.url}
        try:
            await self.navi.start(NAVI_FAILPOINTS=failpoints, **model)
        except EndedAtStart as end:
            if end.status != -signal.SIGKILL:
                raise
            self.down.set()
            return
        self.up.set()
        self._mourner = asyncio.create_task(self._mourn(), name="until the process ends")

    async def _mourn(self) -> None:
        await self.navi.ended(within=None)
        self.up.clear()
        self.down.set()

    async def bury(self) -> None:
        """End it, if it lives, and wait until everything here knows."""
        if self._mourner is not None:
            await self.navi.end()
            await self._mourner
            self._mourner = None

    async def close(self) -> None:
        """End it and let go of everything."""
        try:
            await self.bury()
        finally:
            await self._reading.aclose()
            await self.http.aclose()

    # --- what is known of it ---

    @property
    def is_embedded(self) -> bool:
        """Whether Postgres and NATS are its own children."""
        return "DATABASE_URL" not in self._settings

    async def close_log(self) -> None:
        """Let go of the log, where its Postgres is about to die."""
        self._log = None
        await self._reading.aclose()

    async def log(self) -> PostgresEventLog:
        """The log itself, read past the server; there must have been a start that migrated it."""
        if self._log is None:
            self._log = await self._reading.enter_async_context(
                PostgresEventLog.open(self.database_url, partitions=1, allow_unsafe_durability=True)
            )
        return self._log

    @property
    def database_url(self) -> str:
        """Where its Postgres is; an embedded one must be running."""
        return self._settings.get("DATABASE_URL") or self._recorded("database_url")

    @property
    def nats_url(self) -> str:
        """Where its NATS is; an embedded one must be running."""
        return self._settings.get("NATS_URL") or self._recorded("nats_url")

    def _recorded(self, name: str) -> str:
        run = read_run(self.navi.data_dir)
        assert run is not None
        url = getattr(run, name)
        assert isinstance(url, str)
        return url

    def forget(self) -> None:
        """Leave out what was before: runs of the unsafe tool, requests to the model, the server's log.

        An MCP server, too: to start one with every start would take its time.
        """
        (self.navi.data_dir / "mcp.json").unlink(missing_ok=True)
        self._forgotten = len(self.navi.log)
        self.models.requests.clear()
        self.counted.unlink(missing_ok=True)

    def errors_logged(self) -> list[str]:
        """What it logged as an error: none of the deaths is a reason for one."""
        lines = self.navi.log[self._forgotten :].splitlines()
        return [line for line in lines if '"level": "error"' in line]

    def times_counted(self) -> Mapping[str, int]:
        """How often the unsafe tool ran, by call."""
        lines = self.counted.read_text().split() if self.counted.exists() else []
        return {call_id: lines.count(call_id) for call_id in lines}

    # --- talking to it ---

    async def ask(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> Any:
        """The JSON that a route answers; None where it has none.

        Raises:
            httpx.HTTPError: it does not answer, or refuses.
        """
        url = f"{self.navi.url}{path}"
        answer = await self.http.request(method, url, json=body, headers=headers)
        answer.raise_for_status()
        return answer.json() if answer.content else None


@asynccontextmanager
async def running_service(
    directory: Path, postgres: PostgresServer | None
) -> AsyncGenerator[Service, None]:
    """A service that was not started yet.

    Args:
        postgres: where it gets a new database, and a NATS of its own beside it; None for navi's
            embedded servers, which die with it.
    """
    settings = {"CONTEXT_KEEP_RECENT": "2", "NAVI_DRAIN_SECONDS": "5"}
    if postgres is None:
        async with _open(Service(directory, settings)) as service:
            yield service
        return
    (directory / "nats").mkdir()
    nats = OwnServer(directory / "nats")
    database_url = await postgres.create_database()
    try:
        await nats.start()
        settings |= {"DATABASE_URL": database_url, "NATS_URL": nats.url}
        async with _open(Service(directory, settings)) as service:
            yield service
    finally:
        await nats.kill()
        await postgres.drop_database(database_url)


@asynccontextmanager
async def _open(service: Service) -> AsyncGenerator[Service, None]:
    async with service.models:
        try:
            yield service
        finally:
            await service.close()


def new_tag() -> str:
    """A word that stands nowhere else, to tell runs of a scenario apart."""
    return f"tag{secrets.token_hex(4)}"
