"""``navi rerun``: rerun a session from its log, and show the first difference."""

import asyncio
from pathlib import Path

import click
from msgspec import Raw, Struct

from navi.application.rerun.in_words import difference_lines
from navi.application.rerun.load import LoadedRecording, load_recording
from navi.application.rerun.rerun import Difference
from navi.application.rerun.try_mine import trial_lines
from navi.bootstrap.rerun import rerun as run_again
from navi.bootstrap.store import attached_store
from navi.bootstrap.try_mine import try_session
from navi.cli.reading.named_session import seq_type
from navi.cli.rerun.rerun_live import changed_of, rerun_live
from navi.cli.rerun.rerun_save import Saved, files_of, save
from navi.cli.shared.command import (
    DOES_NOT_HOLD,
    HOLDS,
    WrongUsage,
    data_dir_option,
    environment,
    json_option,
    log_to_stderr,
    print_json,
    run,
    settings_of,
    width_of_output,
)
from navi.cli.shared.owners import note_reading
from navi.cli.shared.printable import printable
from navi.domain.vocabulary.event_codec import encode_data, encode_envelope, type_of, version_of
from navi.domain.vocabulary.events import AgentEvent, Envelope
from navi.domain.vocabulary.ids import SessionId, SubagentId, parse_session_id
from navi.settings import Settings

LINE = 2_000  # characters of a line where there is no terminal


class Made(Struct, frozen=True, kw_only=True):
    """The event of the rerun in place of the recorded one."""

    type: str
    v: int
    subagent_id: SubagentId | None
    data: Raw


class FirstDifference(Struct, frozen=True, kw_only=True):
    """Where a rerun differs; ``fields`` of the payload, or ``type``."""

    seq: int
    expected: Raw
    got: Made | None
    fields: tuple[str, ...]


class RerunAnswer(Struct, frozen=True, kw_only=True):
    """What ``navi rerun --json`` prints; ``events`` is how many were made again."""

    ok: bool
    session_id: SessionId
    events: int
    first_difference: FirstDifference | None


@click.command(
    epilog="\b\nExamples:\n"
    "  navi rerun SESSION                      does this navi still do what was done then?\n"
    "  navi rerun SESSION --with model=qwen3:8b   the last message once more, live, in a fork\n"
    "  navi rerun SESSION --save tests/reruns/tea   a test that runs it again\n"
    "  navi rerun SESSION --mine --profile tutor    your own tools and rules on its calls"
)
@click.argument("session", metavar="SESSION")
@click.option("--until", type=seq_type, help="The last event to make again; else all of them.")
@click.option(
    "--with",
    "given",
    metavar="KEY=VALUE",
    multiple=True,
    help="Live from there, in a fork: model=NAME, profile=ID, from=SEQ.",
)
@click.option(
    "--save",
    "place",
    metavar="DIR/NAME",
    type=click.Path(path_type=Path),
    help="Write it as a regression test: NAME.jsonl and test_NAME.py.",
)
@click.option(
    "--mine", is_flag=True, help="Run your own tools on its calls; the model is recorded."
)
@click.option(
    "--profile", "profile_id", metavar="ID", help="With --mine: whose rules judge the calls."
)
@data_dir_option
@json_option
def rerun(
    session: str,
    until: int | None,
    mine: bool,
    profile_id: str | None,
    given: tuple[str, ...],
    place: Path | None,
    data_dir: str | None,
    as_json: bool,
) -> None:
    """Run SESSION again from its log alone, and compare event by event.

    The loop is the one that runs turns; what came from outside (messages, replies of models, results
    of tools, deaths of processes) is served from the log, and no network is used. The first event
    that comes out another way is reported, with exit status 1.

    With --with the message of the last turn, or of the turn at `from`, is said again in a fork from
    before it, and answered live; what came out another way is shown, with exit status 0 where the
    turn was completed.

    With --mine the tools of your own that SESSION called are run again, as they are now, with the arguments that
    were recorded, in a directory that is thrown away; what they give is compared. The model is not asked. With
    --profile its `enabled_tools` and `approvals` judge the calls, too. SESSION stays as it is.
    """
    if profile_id is not None and not mine:
        raise WrongUsage("--profile goes with --mine; see --with profile=ID for a live run")
    if mine and (given or until is not None or place is not None):
        raise WrongUsage("--mine excludes --with, --until and --save")
    if given and (until is not None or place is not None):
        raise WrongUsage("--with excludes --until and --save")
    if until is not None and place is not None:
        raise WrongUsage("--until and --save exclude each other")
    changed = changed_of(given)
    if place is not None:
        files_of(place)
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="error")
    if mine:
        run(settings, _try(settings, session, profile_id=profile_id, as_json=as_json))
    if given:
        run(settings, rerun_live(settings, session, changed, as_json=as_json))
    run(settings, _rerun(settings, session, until=until, place=place, as_json=as_json))


async def _rerun(
    settings: Settings, session: str, *, until: int | None, place: Path | None, as_json: bool
) -> int:
    session_id = parse_session_id(session)
    saved: Saved | None = None
    async with attached_store(settings) as store:
        await note_reading(settings, store, (session_id,))
        loaded = await load_recording(store.log, store.texts, session_id, until=until)
        end = len(loaded.envelopes) if until is None else until
        difference = await _difference(loaded, end)
        if place is not None and difference is None:
            saved = await save(settings, store, session_id, place)
    if as_json:
        print_json(_answer(session_id, end, difference))
    else:
        _print(end, difference)
    if saved is not None:
        click.echo(f"saved: {saved.recording}, {saved.test}", err=True)
    return HOLDS if difference is None else DOES_NOT_HOLD


async def _try(settings: Settings, session: str, *, profile_id: str | None, as_json: bool) -> int:
    session_id = parse_session_id(session)
    async with attached_store(settings) as store:
        await note_reading(settings, store, (session_id,))
        loaded = await load_recording(store.log, store.texts, session_id, until=None)
    trial = await try_session(
        loaded.envelopes,
        tools=settings.tools_dir,
        profiles=settings.profiles_dir,
        profile_id=profile_id,
        environment=environment(),
        variables=settings.tools_env,
    )
    for fault in trial.left_out:
        click.echo(f"left out: {printable(fault)}", err=True)
    if as_json:
        print_json(trial)
    else:
        for line in trial_lines(trial):
            click.secho(printable(line), fg={"-": "red", "+": "green"}.get(line[:1]))
    return DOES_NOT_HOLD if trial.differences else HOLDS


async def _difference(loaded: LoadedRecording, until: int) -> Difference | None:
    return await asyncio.to_thread(run_again, loaded.envelopes, loaded.texts, until=until)


def _answer(session_id: SessionId, end: int, difference: Difference | None) -> RerunAnswer:
    if difference is None:
        return RerunAnswer(ok=True, session_id=session_id, events=end, first_difference=None)
    return RerunAnswer(
        ok=False,
        session_id=session_id,
        events=difference.seq - 1,
        first_difference=FirstDifference(
            seq=difference.seq,
            expected=Raw(_wire(difference.expected)),
            got=None if difference.got is None else _made(difference.got, difference.got_by),
            fields=difference.fields,
        ),
    )


def _wire(envelope: Envelope) -> bytes:
    return encode_envelope(
        session_id=envelope.session_id,
        seq=envelope.seq,
        id=envelope.id,
        type=type_of(envelope.event),
        v=version_of(envelope.event),
        at=envelope.at,
        turn_id=envelope.turn_id,
        subagent_id=envelope.subagent_id,
        data=encode_data(envelope.event),
    )


def _made(event: AgentEvent, subagent_id: SubagentId | None) -> Made:
    data = Raw(encode_data(event))
    return Made(type=type_of(event), v=version_of(event), subagent_id=subagent_id, data=data)


def _print(end: int, difference: Difference | None) -> None:
    if difference is None:
        click.echo(f"the same: {end} events")
        return
    first, *lines = difference_lines(difference, width=width_of_output() or LINE)
    click.echo(printable(first))
    for line in lines:
        click.secho(printable(line), fg="red" if line.startswith("-") else "green")
