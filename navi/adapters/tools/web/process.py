"""Run a request of a web tool in a process of its own, and end it with the call."""

import asyncio
import signal
from collections.abc import Mapping
from typing import TypeVar

import msgspec
from msgspec import Struct

from navi.adapters.tools.program import clean_environment, command_of
from navi.adapters.tools.web.wire import Page, Request, RequestFailed, Results
from navi.ports.tools import StopSignal

A = TypeVar("A", Page, Results)

MAX_PROCESSES = 8  # at the same time; more calls wait
SECONDS = 60.0  # that a process may take; it gives itself less
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")  # where an operator says which to trust

_ENDED_BY = {
    signal.SIGALRM: "it took too long to get or to read",
    signal.SIGPROF: "it takes too long to read",
    signal.SIGXCPU: "it takes too long to read",
    signal.SIGKILL: "it takes too long to read",
    signal.SIGABRT: "it takes too much memory to read",
    signal.SIGSEGV: "it takes too much memory to read",
}


class WebProcesses:
    """Starts the processes of web tools; a few at a time."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Name what the processes get of the server's environment: nothing that is secret, no proxy."""
        self._environment = clean_environment(environment) | {
            name: environment[name] for name in CERTIFICATES if name in environment
        }
        self._places = asyncio.Semaphore(MAX_PROCESSES)

    async def ask(
        self, request: Request, stop: StopSignal, *, answer: type[A]
    ) -> A | RequestFailed:
        """The answer, of the kind that the request has; ends at once when ``stop`` is set."""
        kinds = answer | RequestFailed
        asked = asyncio.ensure_future(self._ask(request))
        stopped = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait(
                {asked, stopped}, timeout=SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            if asked.done():
                output = asked.result()
                return (
                    output
                    if isinstance(output, RequestFailed)
                    else msgspec.json.decode(output, type=kinds)
                )
            why = "Stopped before it was there." if stop.is_set() else "It took too long."
            return RequestFailed(outcome="error", why=why)
        finally:
            asked.cancel()
            stopped.cancel()
            await asyncio.wait({asked, stopped})

    async def _ask(self, request: Request) -> bytes | RequestFailed:
        async with self._places:
            process = await asyncio.create_subprocess_exec(
                *command_of("navi.adapters.tools.web.worker"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env=self._environment,
            )
            try:
                output, _ = await process.communicate(msgspec.json.encode(request))
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        if process.returncode != 0:
            code = process.returncode or 0
            why = _ENDED_BY.get(signal.Signals(-code)) if code < 0 else None
            return RequestFailed(
                outcome="error", why=why or f"its process ended with status {code}"
            )
        return output


class WebAccess(Struct, frozen=True, kw_only=True):
    """What the web tools work with.

    Attributes:
        allowed: what may be reached although it is private, as ``parse_allowed`` reads it.
        searxng: the address of a SearXNG with JSON answers; None where there is none.
    """

    processes: WebProcesses
    allowed: str
    searxng: str | None
