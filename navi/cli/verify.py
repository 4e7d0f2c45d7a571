"""``navi verify``: the hash chain of sessions, and the dense positions of the log."""

from contextlib import aclosing

import click
from msgspec import Struct

from navi.bootstrap import Store, attached_store
from navi.cli.command import (
    DOES_NOT_HOLD,
    HOLDS,
    data_dir_option,
    json_option,
    log_to_stderr,
    print_json,
    run,
    settings_of,
)
from navi.cli.reading import find
from navi.domain.errors import LogDamaged
from navi.domain.hash_chain import GENESIS, verify_chain
from navi.domain.ids import SessionId
from navi.settings import Settings

PAGE_ROWS = 1_000
MAX_PROBLEMS = 1_000  # a chain that is broken at its beginning has one for each event


class Problem(Struct, frozen=True, kw_only=True):
    """Something that does not hold; ``session_id`` is null for a damage of the log itself."""

    session_id: SessionId | None
    seq: int | None
    reason: str


class Verdict(Struct, frozen=True, kw_only=True):
    """What was looked at, and what was found; ``ok`` where there is no problem."""

    ok: bool
    sessions: int
    events: int
    problems: tuple[Problem, ...]


class _Chain(Struct):
    """How far the chain of a session has been followed."""

    seq: int = 0
    hash: bytes = GENESIS


@click.command(epilog="\b\nExamples:\n  navi verify\n  navi verify SESSION --json")
@click.argument("session", metavar="[SESSION]", required=False)
@data_dir_option
@json_option
def verify(session: str | None, data_dir: str | None, as_json: bool) -> None:
    """Check the hash chain of SESSION, or of all sessions and the log they stand in.

    Every event is tied to the one before it by a hash: what was changed, removed or put in
    afterwards shows. Exit status 1 where something does not hold.
    """
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="warning")
    run(settings, _verify(settings, session, as_json=as_json))


async def _verify(settings: Settings, session: str | None, *, as_json: bool) -> int:
    async with attached_store(settings) as store:
        if session is None:
            verdict = await verify_log(store)
        else:
            session_id, _ = await find(store, session)
            verdict = await verify_session(store, session_id)
    if as_json:
        print_json(verdict)
    else:
        for problem in verdict.problems:
            place = problem.session_id or "log"
            at = "" if problem.seq is None else f" seq {problem.seq}"
            click.echo(f"{place}{at}: {problem.reason}")
        count = f"sessions: {verdict.sessions}, events: {verdict.events}"
        state = "all hold" if verdict.ok else f"{len(verdict.problems)} problems"
        click.secho(f"{count}: {state}", fg="green" if verdict.ok else "red")
    return HOLDS if verdict.ok else DOES_NOT_HOLD


async def verify_session(store: Store, session_id: SessionId) -> Verdict:
    """Follow the chain of one session; of a fork through its origin."""
    problems: list[Problem] = []
    seq, previous = 0, GENESIS
    async with aclosing(store.log.read(session_id)) as batches:
        async for batch in batches:
            found = verify_chain(batch, after=seq, previous=previous)
            problems += [Problem(session_id=session_id, seq=at, reason=why) for at, why in found]
            seq, previous = batch[-1].seq, batch[-1].hash
            if len(problems) >= MAX_PROBLEMS:
                break
    head = await store.log.head(session_id)
    if seq < head and len(problems) < MAX_PROBLEMS:
        problems.append(Problem(session_id=session_id, seq=seq + 1, reason="the end is missing"))
    return _verdict(sessions=1, events=seq, problems=problems)


async def verify_log(store: Store) -> Verdict:
    """Read every partition once, in order of positions, and follow all chains on the way."""
    chains: dict[SessionId, _Chain] = {}
    problems: list[Problem] = []
    events = 0
    for partition in range(store.log.partitions):
        position = 0
        while len(problems) < MAX_PROBLEMS:
            try:
                page = await store.log.read_all(partition, after=position, limit=PAGE_ROWS)
            except LogDamaged as damage:
                problems.append(Problem(session_id=None, seq=None, reason=str(damage)))
                break
            for row in page.rows:
                chain = chains.get(row.session_id)
                if chain is None:
                    chain = chains[row.session_id] = await _start(store, row.session_id, row.seq)
                for at, why in verify_chain((row,), after=chain.seq, previous=chain.hash):
                    problems.append(Problem(session_id=row.session_id, seq=at, reason=why))
                chain.seq, chain.hash = row.seq, row.hash
            events += len(page.rows)
            position = page.reached
            if position >= page.head:
                break
    return _verdict(sessions=len(chains), events=events, problems=problems)


async def _start(store: Store, session_id: SessionId, first: int) -> _Chain:
    """Where the chain of a session begins: at nothing, or at the event that it was forked from."""
    chain = _Chain()
    if first > 1:
        async with aclosing(
            store.log.read(session_id, after=first - 2, until=first - 1)
        ) as batches:
            async for batch in batches:
                chain = _Chain(seq=batch[-1].seq, hash=batch[-1].hash)
    return chain


def _verdict(*, sessions: int, events: int, problems: list[Problem]) -> Verdict:
    return Verdict(
        ok=not problems,
        sessions=sessions,
        events=events,
        problems=tuple(problems[:MAX_PROBLEMS]),
    )
