"""``navi restored``: acknowledge that an older state of the log was put back."""

import asyncio

import click
from msgspec import Struct

from navi.adapters.files.heads_file import FILE_NAME as HEADS_FILE
from navi.adapters.files.heads_file import HeadsFile, all_heads
from navi.adapters.postgres.leader_lock import HEADS_LOCK, PostgresLeaderLock
from navi.adapters.signing import known_keys, open_signer, verify_signature
from navi.adapters.system import SystemClock
from navi.application.audit.restored import Lost, acknowledge, find_lost
from navi.bootstrap.accounts import account_services
from navi.bootstrap.log_ports import command_services
from navi.bootstrap.store import Store, attached_store
from navi.cli.shared.command import (
    DOES_NOT_HOLD,
    HOLDS,
    CommandFailed,
    data_dir_option,
    json_option,
    log_to_stderr,
    print_json,
    run,
    settings_of,
)
from navi.domain.log.heads import HeadsCheck
from navi.domain.vocabulary.events import LogRestored
from navi.domain.vocabulary.ids import SessionId
from navi.domain.vocabulary.principal import CLI_ACTOR
from navi.settings import Settings

LOCK_SECONDS = 20.0  # a navi that runs lets go of it as soon as it sees what was put back
LOOK_SECONDS = 0.2
MOST_NAMED = 20  # sessions, for people


class LostSession(Struct, frozen=True, kw_only=True):
    """A session that lost events; ``seq`` is where it ends now, 0 where it is gone."""

    session_id: SessionId
    signed_seq: int
    seq: int


class RestoredAnswer(Struct, frozen=True, kw_only=True):
    """What was acknowledged; nothing where the log has all that was signed."""

    acknowledged: bool
    events: int
    sessions: tuple[LostSession, ...]


@click.command(epilog="\b\nExamples:\n  navi restored\n  navi restored --yes --json")
@click.option("--yes", is_flag=True, help="Do not ask.")
@data_dir_option
@json_option
def restored(yes: bool, data_dir: str | None, as_json: bool) -> None:
    """Acknowledge that an older state of the database was put back.

    The signed heads know more than such a log has: `navi verify` reports what is gone, and nothing is
    signed any more, since it could as well have been cut off by somebody. This shows what is gone and,
    where you agree, says so in a signed line, from which on all holds again. `navi doctor` says when it
    is needed. It works while navi runs and without it.
    """
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="warning")
    run(settings, _restored(settings, yes=yes, as_json=as_json))


async def _restored(settings: Settings, *, yes: bool, as_json: bool) -> int:
    async with attached_store(settings) as store:
        signed = await asyncio.to_thread(_signed, settings, store)
        if signed.problems:
            raise CommandFailed(f"{signed.problems[0].reason}: navi verify")
        lost = await find_lost(store.log, signed.ends(), signed.positions)
        if not lost.is_nothing:
            if not yes and not await asyncio.to_thread(_agreed, lost, signed):
                click.echo("Nothing was acknowledged.", err=True)
                return DOES_NOT_HOLD
            await _acknowledge(settings, store)
    if as_json:
        print_json(_answer(lost, signed))
    elif lost.is_nothing:
        click.echo("The log has all that was signed: there is nothing to acknowledge.")
    else:
        click.echo(f"Acknowledged: {len(lost.sessions)} sessions ended earlier than was signed.")
    return HOLDS


async def _acknowledge(settings: Settings, store: Store) -> None:
    lock = PostgresLeaderLock(store.database_url, HEADS_LOCK)
    try:
        async with asyncio.timeout(LOCK_SECONDS):
            while not await lock.acquire():  # noqa: ASYNC110 - another process has it
                await asyncio.sleep(LOOK_SECONDS)
    except TimeoutError:
        raise CommandFailed(
            "a navi that runs is signing, and has seen nothing amiss: stop it, and try again"
        ) from None
    try:
        # Anew: what was signed in between is not acknowledged unseen, it stands behind.
        signed = await asyncio.to_thread(_signed, settings, store)
        lost = await find_lost(store.log, signed.ends(), signed.positions)
        accounts = account_services(settings, store, command_services(settings, store))
        await accounts.audit_log.write(
            LogRestored(
                by=CLI_ACTOR.by,
                address=CLI_ACTOR.address,
                sessions=len(lost.sessions),
                events=lost.events,
            )
        )
        await acknowledge(
            HeadsFile(settings.data_dir / HEADS_FILE, log_id=store.log.log_id),
            lost,
            log_id=store.log.log_id,
            clock=SystemClock(),
            signer=await asyncio.to_thread(open_signer, settings.keys_dir),
        )
    finally:
        lock.release()


def _signed(settings: Settings, store: Store) -> HeadsCheck:
    trusted = (key.public_key for key in known_keys(settings.keys_dir))
    own = open_signer(settings.keys_dir).public_key
    return HeadsCheck(
        all_heads(settings.data_dir / HEADS_FILE),
        log_id=store.log.log_id,
        verify=verify_signature,
        trusted={own, *trusted},
    )


def _agreed(lost: Lost, signed: HeadsCheck) -> bool:
    """Show what is gone, and ask."""
    answer = _answer(lost, signed)
    for each in answer.sessions[:MOST_NAMED]:
        now = f"ends at seq {each.seq}" if each.seq else "is gone"
        click.echo(f"{each.session_id}  was signed up to seq {each.signed_seq}, {now}", err=True)
    if len(answer.sessions) > MOST_NAMED:
        click.echo(f"and {len(answer.sessions) - MOST_NAMED} more", err=True)
    try:
        return click.confirm("Was an older state put back, and are these events lost?", err=True)
    except click.Abort:
        return False


def _answer(lost: Lost, signed: HeadsCheck) -> RestoredAnswer:
    ends = signed.ends()
    return RestoredAnswer(
        acknowledged=not lost.is_nothing,
        events=lost.events,
        sessions=tuple(
            LostSession(session_id=session_id, signed_seq=ends[session_id][0], seq=seq)
            for session_id, (seq, _) in lost.sessions.items()
        ),
    )
