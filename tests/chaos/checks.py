"""What has to hold of a service that died and came back; each breach is a sentence."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import reduce
from typing import cast

import httpx
import msgspec
import nats
from nats.js import JetStreamContext
from nats.js.errors import NotFoundError

from navi.cli.audit.verify import verify_session
from navi.cli.reading.replay import replayed
from navi.domain.session.session import Session, evolve
from navi.domain.session.turn import HANDED_OVER, MAX_DEATHS, WAITED
from navi.domain.spending.budgets import BUDGET
from navi.domain.vocabulary.ids import SessionId
from navi.ports.event_log import Recorded
from navi.ports.log_admin import LogBackend
from tests.chaos.mind import DOOM
from tests.chaos.scenarios import memory_of
from tests.chaos.service import Service
from tests.chaos.talk import Talk, refused
from tests.support.promises import Event, broken_promises

PUBLISHED_SECONDS = 60.0
QUIET_SECONDS = 60.0
FOLLOWED_SECONDS = 5.0
NOT_FOUND, GONE = 404, 410


async def recovered(talk: Talk, log: LogBackend) -> list[str]:
    """Come back as a client would: send what was not acknowledged again, say one thing more."""
    await talk.send_again()
    words = f"and on, {talk.tag}"
    body = {"content": f"!say {words}", "message_id": f"{talk.tag}-next"}
    deciding = asyncio.create_task(allow_all(talk), name="allow what waits")
    try:
        answer = await talk.here("POST", "/messages", body)
    finally:
        deciding.cancel()
        await asyncio.wait({deciding})
    if (answer["outcome"], answer["content"]) != ("completed", words):
        return [f"the next message was answered with {answer}"]
    async with asyncio.timeout(QUIET_SECONDS):
        await talk.until(lambda: talk.events[-1]["seq"] >= answer["seq"])
        await talk.until(lambda: not _asides(talk.events))
        await _followed(talk, log)
    session = await talk.here("GET", "")
    return [] if session["status"] == "idle" else [f"the session is {session['status']} for ever"]


async def _followed(talk: Talk, log: LogBackend) -> None:
    """Wait for what follows the turns: the next cut would befall that in place of its own.

    Not for long: a summary is due until one can be made, and memories of words that were erased stay due.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(FOLLOWED_SECONDS):
            while True:
                rows = await rows_of(log, SessionId(talk.session_id))
                due = reduce(evolve, (row.envelope for row in rows), Session()).follow_up
                if due is None or due.due == ("compression",):
                    return
                await talk.until(lambda seen=rows[-1].seq: talk.events[-1]["seq"] > seen)


async def allow_all(talk: Talk) -> None:
    """Allow whatever waits for a person, as often as something does."""
    tried: set[str] = set()
    while True:
        await talk.until(lambda: bool(_undecided(talk.events) - tried))
        for call_id in _undecided(talk.events) - tried:
            tried.add(call_id)
            await refused(talk.here("POST", f"/approvals/{call_id}", {"decision": "allow"}))


def _undecided(events: Sequence[Event]) -> set[str]:
    asked = {e["data"]["call_id"] for e in events if e["type"] == "approval_requested"}
    return asked - {e["data"]["call_id"] for e in events if e["type"] == "approval_decided"}


async def inspected(talk: Talk, log: LogBackend, *, after: int) -> list[str]:
    """Everything that does not hold of the session, and of what else was appended.

    Args:
        after: the log's position up to which it was inspected before.
    """
    service = talk.service
    session_id = SessionId(talk.session_id)
    frames = tuple(talk.frames)  # as long as the log is now, or shorter
    rows = await rows_of(log, session_id)
    events = [read(row) for row in rows]
    news = await _without_forgotten(talk, log, after=after)
    touched = {row.session_id for row in news} | {session_id}
    problems = [*talk.problems, *_seen(frames, rows), *_receipts(talk, events)]
    problems += [*_attempts(events), *_tools(service, events)]
    problems += [f"it logged {line}" for line in service.errors_logged()]
    for other in touched:
        found = [read(row) for row in await rows_of(log, other)]
        problems += [f"{other}: {broken}" for broken in broken_promises(found)]
        verdict = await verify_session(log, other)
        problems += [f"{other} seq {p.seq}: {p.reason}" for p in verdict.problems]
    if is_deleted(events):
        if await refused(talk.here("GET", "")) != NOT_FOUND:
            problems.append("a deleted session is still there")
    else:
        problems += await _read_models(talk, log)
        problems += await _requests(talk, events)
    problems += _forgotten(talk, news)
    return [*problems, *await _published(service, log, after=after)]


def is_deleted(events: Iterable[Event]) -> bool:
    return any(event["type"] == "session_deleted" for event in events)


async def rows_of(log: LogBackend, session_id: SessionId) -> list[Recorded]:
    """The session's events, from the log itself."""
    async with aclosing(log.read(session_id)) as batches:
        return [row async for batch in batches for row in batch]


async def rows_after(log: LogBackend, position: int) -> list[Recorded]:
    """All events behind a position, of all sessions."""
    rows: list[Recorded] = []
    while True:
        page = await log.read_all(0, after=position, limit=1_000)
        rows += page.rows
        if page.reached <= position:
            return rows
        position = page.reached


def read(row: Recorded) -> Event:
    """The envelope."""
    return json.loads(row.wire)


def _asides(events: Sequence[Event]) -> set[str]:
    """Calls beside the turns that are open."""
    found: set[str] = set()
    for event in events:
        if event["type"] == "model_called" and "node" in event["data"]:
            found.add(event["data"]["call_id"])
        elif event["type"] in ("model_replied", "model_call_failed"):
            found.discard(event["data"]["call_id"])
    return found


def _is_erased(row: Recorded) -> bool:
    """Whether its words were forgotten since it was shown and published."""
    return row.salt is None


def _same(shown: bytes, row: Recorded) -> bool:
    """Whether an envelope is the log's, to the byte, but for words that were forgotten since."""
    if shown == row.wire:
        return True
    one, other = json.loads(shown), read(row)
    del one["data"], other["data"]
    return _is_erased(row) and one == other


def _seen(frames: Sequence[str], rows: Sequence[Recorded]) -> Iterable[str]:
    """What the socket showed: 1, 2, 3, ... over all deaths, the same bytes as in the log."""
    for frame, row in zip(frames, rows, strict=False):
        if not _same(frame.encode(), row):
            yield f"the socket showed at seq {row.seq}: {frame}"
    if len(frames) > len(rows):
        yield f"the socket showed {len(frames)} events, the log has {len(rows)}"


def _receipts(talk: Talk, events: Sequence[Event]) -> Iterable[str]:
    received = [e for e in events if e["type"] == "user_message_received"]
    ids = [event["data"]["message_id"] for event in received]
    for message_id in talk.posted:
        if message_id in talk.acknowledged and message_id not in ids:
            yield f"the acknowledged message {message_id} is lost"
        if ids.count(message_id) > 1:
            yield f"the message {message_id} was received {ids.count(message_id)} times"
    fates = [
        e["data"]["message_seq"]
        for e in events
        if e["type"] in ("message_delivered", "message_withdrawn")
    ]
    for event in received:
        if fates.count(event["seq"]) != 1:
            yield f"the message at seq {event['seq']} has {fates.count(event['seq'])} fates"


async def _without_forgotten(talk: Talk, log: LogBackend, *, after: int) -> list[Recorded]:
    """What was appended since; where a forgetting was cut off, once somebody has completed it."""
    rows = await rows_after(log, after)
    with suppress(TimeoutError):
        async with asyncio.timeout(QUIET_SECONDS):
            while list(_forgotten(talk, rows)):
                await asyncio.sleep(0.2)
                rows = await rows_after(log, after)
    return rows


def _forgotten(talk: Talk, rows: Sequence[Recorded]) -> Iterable[str]:
    """What was forgotten is not left in the log, wherever the forgetting was cut off."""
    if any(row.type == "memory_forgotten" for row in rows):
        words = memory_of(talk).encode()
        left = [f"{row.type} at {row.session_id} {row.seq}" for row in rows if words in row.wire]
        if left:
            yield f"a memory was forgotten, its words stand in {', '.join(left)}"


def _attempts(events: Sequence[Event]) -> Iterable[str]:
    """A turn that kills its process again and again is given up; a death alone fails none."""
    deaths: Counter[str] = Counter()
    for event in events:
        turn_id, data = event["turn_id"], event["data"]
        match event["type"]:
            case "turn_resumed" if data["reason"] not in (HANDED_OVER, WAITED):
                deaths[turn_id] += 1
                if deaths[turn_id] >= MAX_DEATHS:
                    yield f"turn {turn_id} was taken up {deaths[turn_id]} times"
            case "turn_failed" if data["kind"] == "crash_loop":
                if deaths[turn_id] != MAX_DEATHS - 1:
                    yield f"turn {turn_id} was given up behind {deaths[turn_id]} deaths"
            case "turn_failed" if data["kind"] not in (DOOM, BUDGET):
                yield f"turn {turn_id} failed: {data}"
            case _:
                pass


def _tools(service: Service, events: Sequence[Event]) -> Iterable[str]:
    """The tool that is not safe to repeat ran once at the most, whoever asked for it."""
    counted = service.times_counted()
    started: set[str] = set()
    running: set[str] = set()
    doubtful: set[str] = set()  # was running when its process ended
    for event in events:
        call_id, outcome = event["data"].get("call_id", ""), event["data"].get("outcome")
        match event["type"]:
            case "tool_started" if event["data"]["name"] == "count":
                started.add(call_id)
                running.add(call_id)
            case "turn_resumed":
                doubtful |= running
            case "tool_finished" if event["data"]["name"] == "count":
                times = counted.get(call_id, 0)
                if times not in {"ok": (1,), "unknown": (0, 1)}.get(outcome, (0,)):
                    yield f"the unsafe tool ran {times} times, and the log says {outcome}"
                if call_id in doubtful and outcome != "unknown":
                    yield f"the unsafe tool was cut off, and the log says {outcome}"
                running.discard(call_id)
            case _:
                pass
    if strangers := counted.keys() - started:
        yield f"the unsafe tool ran before the log knew: {sorted(strangers)}"


async def _read_models(talk: Talk, log: LogBackend) -> list[str]:
    """What the routes show is the fold of the log."""
    problems: list[str] = []
    for buffer in ("messages", "context"):
        shown = await talk.here("GET", f"/{buffer}")
        answer = await replayed(log, SessionId(talk.session_id), buffer=buffer, until=shown["seq"])
        if shown != json.loads(msgspec.json.encode(answer)):
            problems.append(f"{buffer} is not what the log folds to at seq {shown['seq']}")
    return problems


async def _requests(talk: Talk, events: Sequence[Event]) -> list[str]:
    """What model servers got is what the log renders."""
    problems: list[str] = []
    sent = {r.headers.get("x-navi-call"): r for r in talk.service.models.requests}
    forgetful = any(event["type"] == "memory_recalled" for event in events)
    for event in events:
        if event["type"] != "model_called":
            continue
        call_id = event["data"]["call_id"]
        try:
            again = await talk.here("GET", f"/calls/{call_id}/request")
        except httpx.HTTPStatusError as error:
            if not (forgetful and error.response.status_code == GONE):
                problems.append(f"call {call_id} cannot be rendered: {error}")
            continue
        got = sent.get(call_id)
        if not again["matches"] or (got is not None and again["body"] != got.body.decode()):
            problems.append(f"call {call_id} is rendered in other bytes than were sent")
    return problems


async def _published(service: Service, log: LogBackend, *, after: int) -> list[str]:
    """The stream is the log: each event at its position, the same bytes, none left out."""
    rows = await rows_after(log, after)
    if not rows:
        return []
    client = await nats.connect(service.nats_url)
    try:
        jetstream = client.jetstream()
        try:
            async with asyncio.timeout(PUBLISHED_SECONDS):
                while await _end_of(jetstream) < rows[-1].position:  # noqa: ASYNC110  # NATS is asked
                    await asyncio.sleep(0.02)
        except TimeoutError:
            return [f"NATS is behind position {rows[-1].position} for ever"]
        return [
            f"NATS holds something else at position {row.position}"
            for row in rows
            if not await _is_published(jetstream, row)
        ]
    finally:
        await client.close()


async def _end_of(jetstream: JetStreamContext) -> int:
    try:
        return (await jetstream.stream_info("NAVI_0")).state.last_seq
    except NotFoundError:
        return 0


async def _is_published(jetstream: JetStreamContext, row: Recorded) -> bool:
    try:
        message = await jetstream.get_msg("NAVI_0", seq=row.position)
    except NotFoundError:
        return _is_erased(row)
    headers = cast("Mapping[str, str]", message.headers or {})
    return (
        message.data is not None
        and headers.get("Navi-Position") == f"0-{row.position}"
        and headers.get("Nats-Msg-Id") == f"{row.session_id}:{row.seq}"
        and _same(message.data, row)
    )
