"""``navi verify``: the hash chain of sessions, and the dense positions of the log."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from pathlib import Path

import click
from msgspec import Struct

from navi.adapters.files.export_file import lines_of
from navi.adapters.signing import verify as verify_signature
from navi.bootstrap.store import attached_store
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
from navi.cli.transfer import warn_of_stranger
from navi.domain.check_export import check_export
from navi.domain.errors import LogDamaged
from navi.domain.hash_chain import GENESIS, verify_chain
from navi.domain.ids import SessionId, is_uuid
from navi.domain.subjects import format_position
from navi.domain.verdict import MAX_PROBLEMS, Problem, Verdict, verdict_of
from navi.ports import EventLog, Recorded
from navi.settings import Settings

PAGE_ROWS = 1_000


class _Chain(Struct):
    """How far the chain of a session has been followed."""

    seq: int = 0
    hash: bytes = GENESIS


@click.command(
    epilog="\b\nExamples:\n  navi verify\n  navi verify SESSION --json\n  navi verify session.jsonl"
)
@click.argument("what", metavar="[SESSION|FILE]", required=False)
@data_dir_option
@json_option
def verify(what: str | None, data_dir: str | None, as_json: bool) -> None:
    """Check the hash chain of SESSION, of an export, or of all sessions and the log they stand in.

    Every event is tied to the one before it by a hash: what was changed, removed or put in
    afterwards shows. An export in FILE needs no server. Exit status 1 where something does not hold.
    """
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="warning")
    run(settings, _verify(settings, what, as_json=as_json))


async def _verify(settings: Settings, what: str | None, *, as_json: bool) -> int:
    if what is not None and not is_uuid(what) and await asyncio.to_thread(Path(what).is_file):
        verdict = await _verify_export(settings, Path(what))
    else:
        async with attached_store(settings) as store:
            if what is None:
                verdict = await verify_log(store.log)
            else:
                session_id, _ = await find(store.log, what)
                verdict = await verify_session(store.log, session_id)
    _print(verdict, as_json=as_json)
    return HOLDS if verdict.ok else DOES_NOT_HOLD


async def _verify_export(settings: Settings, file: Path) -> Verdict:
    check = await asyncio.to_thread(lambda: check_export(lines_of(file), verify_signature))
    if check.verdict.ok and check.header is not None:
        await warn_of_stranger(settings, check.header.public_key)
    return check.verdict


def _print(verdict: Verdict, *, as_json: bool) -> None:
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


async def verify_session(log: EventLog, session_id: SessionId) -> Verdict:
    """Follow the chain of one session; of a fork through its origin."""
    chain = _Chain()
    problems: list[Problem] = []
    events = 0
    head = await log.head(session_id)
    reached, stretch = 0, PAGE_ROWS
    while reached < head and len(problems) < MAX_PROBLEMS:
        until = min(reached + stretch, head)
        try:
            rows = [row async for row in _rows(log, session_id, after=reached, until=until)]
        except LogDamaged:
            # An event is missing: shorter and shorter stretches find it, and then pass over it.
            if until - reached == 1:
                reached += 1
            stretch = max(1, stretch // 2)
            continue
        problems += _follow(chain, session_id, rows)
        events += len(rows)
        reached, stretch = until, min(2 * stretch, PAGE_ROWS)
    if chain.seq < head and len(problems) < MAX_PROBLEMS:
        reason = f"seq {chain.seq + 1} is missing"
        problems.append(Problem(session_id=session_id, seq=chain.seq + 1, reason=reason))
    return verdict_of(sessions=1, events=events, problems=problems)


async def verify_log(log: EventLog) -> Verdict:
    """Read every partition once, in order of positions, and follow all chains on the way."""
    chains: dict[SessionId, _Chain] = {}
    problems: list[Problem] = []
    events = 0
    for partition in range(log.partitions):
        head = (await log.read_all(partition, after=0, limit=1)).head
        reached, stretch = 0, PAGE_ROWS
        while reached < head and len(problems) < MAX_PROBLEMS:
            try:
                page = await log.read_all(partition, after=reached, limit=stretch)
            except LogDamaged:
                if stretch == 1:  # as for a session
                    reached += 1
                    place = format_position(partition, reached)
                    reason = f"position {place} is missing"
                    problems.append(Problem(session_id=None, seq=None, reason=reason))
                stretch = max(1, stretch // 2)
                continue
            for row in page.rows:
                chain = chains.get(row.session_id)
                if chain is None:
                    chain = chains[row.session_id] = await _start(log, row.session_id, row.seq)
                problems += _follow(chain, row.session_id, (row,))
            events += len(page.rows)
            reached, stretch = page.reached, min(2 * stretch, PAGE_ROWS)
    return verdict_of(sessions=len(chains), events=events, problems=problems)


def _follow(chain: _Chain, session_id: SessionId, rows: Sequence[Recorded]) -> list[Problem]:
    """What does not hold in the next rows of a chain, which then ends with the last of them."""
    found = verify_chain(rows, after=chain.seq, previous=chain.hash)
    problems = [Problem(session_id=session_id, seq=at, reason=why) for at, why in found]
    if rows:
        chain.seq, chain.hash = rows[-1].seq, rows[-1].hash
    return problems


async def _rows(
    log: EventLog, session_id: SessionId, *, after: int, until: int
) -> AsyncGenerator[Recorded, None]:
    async with aclosing(log.read(session_id, after=after, until=until)) as batches:
        async for batch in batches:
            for row in batch:
                yield row


async def _start(log: EventLog, session_id: SessionId, first: int) -> _Chain:
    """Where the chain of a session begins: at nothing, or at the event that it was forked from."""
    chain = _Chain()
    if first > 1:
        with suppress(LogDamaged):  # then it is told where it is missed
            async for row in _rows(log, session_id, after=first - 2, until=first - 1):
                chain = _Chain(seq=row.seq, hash=row.hash)
    return chain
