"""``navi rerun --with``: answer a message again, live, with another model or profile."""

import re
from collections.abc import Sequence

import click
from msgspec import Struct
from msgspec.structs import replace

from navi import failpoints
from navi.adapters.embedded.servers import Addresses
from navi.application.reading.await_turn import TurnOutcome
from navi.application.rerun.rerun_live import LiveRerun, RerunLive
from navi.bootstrap.node import open_node
from navi.bootstrap.store import attached_servers, require_migrated
from navi.cli.reading.diff import DiffAnswer, diff_answer, print_comparison
from navi.cli.shared.command import (
    DOES_NOT_HOLD,
    HOLDS,
    CommandFailed,
    WrongUsage,
    environment,
    print_json,
)
from navi.cli.shared.owners import note_reading
from navi.domain.vocabulary.ids import SessionId, parse_session_id
from navi.settings import Settings


class Changed(Struct, frozen=True, kw_only=True):
    """What to change; None leaves it as recorded."""

    model: str | None = None
    profile: str | None = None
    from_seq: int | None = None


class LiveAnswer(Struct, frozen=True, kw_only=True):
    """What ``navi rerun --with ... --json`` prints."""

    session_id: SessionId
    fork: SessionId
    common: int
    outcome: TurnOutcome
    difference: DiffAnswer


def changed_of(given: Sequence[str]) -> Changed:
    """What the options ``--with`` say together.

    Raises:
        WrongUsage: one of them is not understood, or says again what another one says.
    """
    values: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if key not in ("model", "profile", "from") or not equals or not value:
            raise WrongUsage(f"--with: {text!r} is none of model=NAME, profile=ID, from=SEQ")
        if key in values:
            raise WrongUsage(f"--with: {key} is given twice")
        values[key] = value
    place = values.get("from")
    if place is not None and re.fullmatch(r"[0-9]{1,16}", place) is None:
        raise WrongUsage(f"--with: from={place} is no seq")
    return Changed(
        model=values.get("model"),
        profile=values.get("profile"),
        from_seq=None if place is None else int(place),
    )


async def rerun_live(settings: Settings, session: str, changed: Changed, *, as_json: bool) -> int:
    """Answer a message once more, in this process, on the servers of a running navi or on its own.

    It changes no tables under others: neither is a database that they use migrated, nor has its log more
    partitions afterwards.

    Raises:
        StoreRefused: such a database lacks a migration.
        CommandFailed: the turn takes longer than it may.
    """
    session_id = parse_session_id(session)
    failpoints.arm(settings.failpoints)
    async with attached_servers(settings, nats=True) as servers:
        await require_migrated(servers)
        addresses = Addresses(database_url=servers.database_url, nats_url=servers.nats_url)
        alone = replace(settings, log_partitions=1)  # the fork is in one that there always is
        async with open_node(alone, addresses, environment(), model=changed.model) as node:
            # As a node of its own, alive to the others: whatever happens to it they take over.
            await node.store.nodes.join(node.id)
            try:
                await note_reading(settings, node.store, (session_id,))
                again = RerunLive(node.store.log, node.agent.sessions, node.services.fork_session)
                ran = await again(session_id, from_seq=changed.from_seq, profile_id=changed.profile)
            except TimeoutError as error:
                raise CommandFailed("the turn takes too long: it goes on by itself") from error
            finally:
                await node.agent.runs.drain(0)
                await node.store.nodes.leave()
    if as_json:
        print_json(_answer(session_id, ran))
    else:
        click.echo(f"{ran.outcome.outcome} in fork {ran.fork}")
        print_comparison(ran.difference)
    return HOLDS if ran.outcome.outcome == "completed" else DOES_NOT_HOLD


def _answer(session_id: SessionId, ran: LiveRerun) -> LiveAnswer:
    return LiveAnswer(
        session_id=session_id,
        fork=ran.fork,
        common=ran.seq,
        outcome=ran.outcome,
        difference=diff_answer(ran.difference),
    )
