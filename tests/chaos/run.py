"""Cut a scenario off at a point, start navi again, and see what holds; cut after cut."""

import asyncio
import json
import signal
import time
from collections.abc import AsyncGenerator, Awaitable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager

import httpx
from msgspec import Struct

from navi.domain.vocabulary.ids import SessionId
from navi.ports.event_log import Recorded
from navi.ports.log_admin import LogBackend
from tests.chaos.checks import inspected, is_deleted, read, recovered, rows_after, rows_of
from tests.chaos.phases import phase_of
from tests.chaos.scenarios import SCENARIOS
from tests.chaos.service import Service
from tests.chaos.talk import Talk

DRIVE_SECONDS = 90.0
AFTERWARDS_SECONDS = 20.0  # what followers of the log have to reach their failpoint
RECOVER_SECONDS = 120.0
LOG_TAIL = 4_000  # characters of the server's log with what is wrong

# What every recovery and the message after it come by, and what counts hits from the start.
EVERYWHERE = (
    *("log.", "turn.", "model.", "relay.", "projection.", "migrate."),
    "committed.user_message_received",
    "committed.turn_started",
    "committed.message_delivered",
    "committed.turn_resumed",
    "committed.model_called",
    "committed.model_replied",
    "committed.model_call_failed",
    "committed.text_delta",
    "committed.turn_completed",
    "committed.session_renamed",
)


class Cut(Struct, frozen=True):
    """A point to cut a scenario off at.

    Attributes:
        failpoints: what kills each process in turn: the first while it runs the scenario, the
            others while they take up what the one before left.
    """

    scenario: str
    failpoints: tuple[str, ...]  # a name, a name and its hit, or a time such as "0.5 s"

    @property
    def name(self) -> str:
        return f"{self.scenario}: {', '.join(self.failpoints)}"

    @property
    def may_wait(self) -> bool:
        """Whether a process may live with the failpoint until the scenario comes by it."""
        first = self.failpoints[0]
        return not ("@" in first or first.startswith(EVERYWHERE) or _seconds(first) is not None)

    @property
    def place(self) -> str:
        """The last failpoint, without its hit."""
        last = self.failpoints[-1]
        return last.partition("@")[0] if _seconds(last) is None else "at random"


class Outcome(Struct, frozen=True, kw_only=True):
    """What came of a cut.

    Attributes:
        reached: whether every process died where it was to; nothing was tried where not.
        phase: what the last one of them was doing.
        again: how many more died on the way back, at the point of the cut that comes next.
    """

    cut: Cut
    reached: bool
    phase: str
    again: int
    problems: tuple[str, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        return self.reached and not self.problems

    @property
    def kills(self) -> int:
        """Processes that died, all in all."""
        return len(self.cut.failpoints) + self.again


class Matrix:
    """Cuts one after another on one service.

    The service keeps its log from cut to cut, so that later ones stand on what the earlier left. A
    start costs the most, so the process that takes up what one cut left is the one that the next
    cut kills, where its failpoint is none that every recovery comes by.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._inspected = 0  # position of the log up to which everything was looked at
        self._armed_for: Cut | None = None

    async def run(self, cuts: Iterator[Cut]) -> AsyncGenerator[Outcome, None]:
        """The outcomes of cuts, which are taken one by one: others may take from them as well."""
        cut = next(cuts, None)
        while cut is not None:
            began = time.monotonic()
            self._service.forget()
            reached, phase, again, problems = True, "", 0, list[str]()
            following: Cut | None = None
            async with Talk(self._service) as talk:
                try:
                    reached = await self._die(cut, talk)
                    phase = await self._phase(cut, talk)
                    following = next(cuts, None)
                    if reached:
                        again, problems = await self._come_back(talk, following)
                except AssertionError as error:  # it refuses, does not start, or ends by itself
                    problems = [str(error)[-LOG_TAIL:]]
                    following = following or next(cuts, None)
            if following is None:
                problems += await self._at_last()
            yield Outcome(
                cut=cut,
                reached=reached,
                phase=phase,
                again=again,
                problems=tuple(dict.fromkeys(problems)),
                seconds=time.monotonic() - began,
            )
            cut = following

    async def _at_last(self) -> list[str]:
        """What does not hold of the whole log, and of what the commands say of it."""
        service = self._service
        await service.start()
        sessions = (await service.ask("GET", "/sessions"))["sessions"]
        problems = [f"{s['id']} runs for ever" for s in sessions if s["status"] != "idle"]
        verified = await service.navi.command("verify", "--json")
        if verified.status:
            problems.append(f"navi verify says {verified.stdout}{verified.stderr}")
        for session in sessions[:1]:
            replayed = await service.navi.command("replay", session["id"], "--json")
            if replayed.json != await service.ask("GET", f"/sessions/{session['id']}/messages"):
                problems.append(f"navi replay says something else of {session['id']}")
        await service.bury()
        return problems

    async def _die(self, cut: Cut, talk: Talk) -> bool:
        service = self._service
        for number, place in enumerate(cut.failpoints):
            seconds = _seconds(place)
            if number or self._armed_for is not cut or service.down.is_set():
                await service.start("" if seconds is not None else f"{place}=kill")
            scenario = _idle() if number else SCENARIOS[cut.scenario](talk)
            if not await _until_death(service, scenario, kill_after=seconds):
                self._armed_for = None
                return False
        return True

    async def _phase(self, cut: Cut, talk: Talk) -> str:
        if cut.place.startswith("migrate.") or self._service.is_embedded:
            return phase_of(cut.place, talk.events)  # Postgres does not answer
        log = await self._service.log()
        session_id = talk.session_id or await self._new_session(log)
        rows = await rows_of(log, SessionId(session_id)) if session_id else []
        return phase_of(cut.place, [read(row) for row in rows])

    async def _come_back(self, talk: Talk, following: Cut | None) -> tuple[int, list[str]]:
        """Start again and look; gives how often it died of the next cut already, and what is wrong."""
        if following is not None and following.may_wait:
            await self._service.start(f"{following.failpoints[0]}=kill")
            self._armed_for = following
            problems = await self._looked_over(talk)
            if problems is not None:
                return 0, problems
        again = int(self._armed_for is following and following is not None)
        self._armed_for = None
        await self._service.start()
        problems = await self._looked_over(talk)
        if problems is None:
            return again, ["it died by itself", *_tail(self._service)]
        return again, problems

    async def _looked_over(self, talk: Talk) -> list[str] | None:
        """What does not hold; None where the server died meanwhile."""
        service = self._service
        looking = asyncio.ensure_future(self._look_over(talk))
        death = asyncio.ensure_future(service.down.wait())
        try:
            await asyncio.wait(
                {looking, death}, timeout=RECOVER_SECONDS, return_when="FIRST_COMPLETED"
            )
            if looking.done() and isinstance(looking.exception(), httpx.TransportError):
                await asyncio.wait({death}, timeout=AFTERWARDS_SECONDS)
            if death.done():
                return None
            if not looking.done():
                return [f"it did not recover within {RECOVER_SECONDS:.0f} s", *_tail(service)]
            return looking.result()
        except (httpx.HTTPError, TimeoutError) as error:
            return [f"it does not answer as it should: {error!r}", *_tail(service)]
        finally:
            looking.cancel()
            death.cancel()
            await asyncio.wait({looking, death})
            if service.is_embedded:
                await service.close_log()

    async def _look_over(self, talk: Talk) -> list[str]:
        log = await self._service.log()
        if not talk.session_id:
            session_id = await self._new_session(log)
            if session_id:
                talk.attend(session_id)
            else:
                await talk.open()
        rows = await rows_of(log, SessionId(talk.session_id))
        gone = is_deleted(read(row) for row in rows)
        problems = [] if gone else await recovered(talk, log)
        problems += await inspected(talk, log, after=self._inspected)
        self._inspected = (await log.read_all(0, after=0, limit=1)).head
        return problems

    async def _new_session(self, log: LogBackend) -> str:
        """The session that a scenario has made without having been told of it."""
        rows = await rows_after(log, self._inspected)
        made = [row for row in rows if row.type == "session_created" and not _is_owners(row)]
        return made[-1].session_id if made else ""


def _is_owners(row: Recorded) -> bool:
    """Whether it is the stream of a user's memories, which is no session."""
    return json.loads(row.data)["profile_id"] == ""


async def _idle() -> None:
    """Nothing is done by the client."""


async def _until_death(
    service: Service, scenario: Awaitable[None], *, kill_after: float | None
) -> bool:
    """Do the scenario until the server dies; False where it lives on afterwards.

    Args:
        kill_after: seconds after which it is killed from outside; None where it does it itself.
    """
    driving = asyncio.ensure_future(scenario)
    death = asyncio.ensure_future(service.down.wait())
    try:
        if kill_after is not None:
            await asyncio.wait({death}, timeout=kill_after)
            service.navi.signal(signal.SIGKILL)
        await asyncio.wait({driving, death}, timeout=DRIVE_SECONDS, return_when="FIRST_COMPLETED")
        if driving.done() and not driving.cancelled():
            error = driving.exception()
            if isinstance(error, httpx.HTTPStatusError):
                raise AssertionError(f"refused: {error.response.text}") from error
            if error is not None and not isinstance(error, httpx.TransportError):
                raise error
        await asyncio.wait({death}, timeout=AFTERWARDS_SECONDS)
    finally:
        driving.cancel()
        death.cancel()
        await asyncio.wait({driving, death})
    return service.down.is_set()


def _tail(service: Service) -> tuple[str, ...]:
    return tuple(service.navi.log[-LOG_TAIL:].splitlines())


async def run_cuts(
    services: Iterable[AbstractAsyncContextManager[Service]], cuts: Iterable[Cut]
) -> AsyncGenerator[Outcome, None]:
    """The outcomes as they come, of cuts that the services share among themselves."""
    shared = iter(cuts)
    outcomes: asyncio.Queue[Outcome | None] = asyncio.Queue()

    async def work(opening: AbstractAsyncContextManager[Service]) -> None:
        try:
            async with opening as service:
                async for outcome in Matrix(service).run(shared):
                    await outcomes.put(outcome)
        finally:
            await outcomes.put(None)

    async with asyncio.TaskGroup() as tasks:
        left = len([tasks.create_task(work(opening)) for opening in services])
        while left:
            outcome = await outcomes.get()
            if outcome is None:
                left -= 1
            else:
                yield outcome


def _seconds(place: str) -> float | None:
    """The time after which a process is killed, where it is no failpoint that does it."""
    number, _, unit = place.partition(" ")
    return float(number) if unit == "s" else None
