"""``navi verify``: verify the log, one session of it, or an export."""

import asyncio
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import click

from navi.adapters.files.export_file import lines_of
from navi.adapters.files.heads_file import FILE_NAME as HEADS_FILE
from navi.adapters.files.heads_file import all_heads, heads_of, last_head
from navi.adapters.signing import known_keys, open_signer
from navi.adapters.signing import verify_signature as verify_signature
from navi.application.audit.restored import is_restored
from navi.application.audit.verify_log import verify_log, verify_session
from navi.bootstrap.store import attached_store
from navi.bootstrap.verification import looking
from navi.cli.audit.keys import warn_of_stranger
from navi.cli.shared.command import (
    DOES_NOT_HOLD,
    HOLDS,
    data_dir_option,
    json_option,
    log_to_stderr,
    print_json,
    run,
    settings_of,
)
from navi.domain.log.check_export import ExportCheck
from navi.domain.log.heads import HeadsCheck
from navi.domain.log.verdict import Verdict
from navi.domain.vocabulary.errors import NotFound
from navi.domain.vocabulary.ids import is_uuid, parse_session_id
from navi.settings import Settings

WORTH_A_BAR = 100_000  # events: a second or two


@click.command(
    epilog="\b\nExamples:\n  navi verify\n  navi verify SESSION --json\n  navi verify session.jsonl"
)
@click.argument("what", metavar="[SESSION|FILE]", required=False)
@click.option(
    "--heads",
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Signed heads to hold it against, in place of those in the data directory.",
)
@data_dir_option
@json_option
def verify(what: str | None, heads: Path | None, data_dir: str | None, as_json: bool) -> None:
    """Check the hash chain of SESSION, of an export, or of all sessions and the log they stand in.

    Every event is tied to the one before it by a hash: what was changed, removed or put in
    afterwards shows; what was cut off or removed shows against the signed heads (heads.jsonl).
    An export in FILE needs no server. Exit status 1 where something does not hold.
    """
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="warning")
    run(settings, _verify(settings, what, heads=heads, as_json=as_json))


async def _verify(
    settings: Settings, what: str | None, *, heads: Path | None, as_json: bool
) -> int:
    if what is None or is_uuid(what):
        verdict = await _verify_stored(settings, what, heads)
    elif await asyncio.to_thread(Path(what).is_file):
        verdict = await _verify_export(settings, Path(what), heads)
    else:
        raise NotFound(f"there is no session and no file {what!r}")
    _print(verdict, whole=what or "log", as_json=as_json)
    return HOLDS if verdict.ok else DOES_NOT_HOLD


async def _verify_stored(settings: Settings, what: str | None, heads: Path | None) -> Verdict:
    async with attached_store(settings) as store:
        # Before the log is looked at: what is signed meanwhile is none of this.
        signed = await asyncio.to_thread(_signed_heads, settings, heads, store.log.log_id)
        for head in signed.restored:
            click.echo(
                f"navi: at {head.at} it was acknowledged that an older state was put back; "
                f"{len(head.sessions)} sessions had lost events",
                err=True,
            )
        if signed.lines == 0:
            click.echo(
                "navi: nothing of this log is signed yet: what was cut off at its end cannot be seen",
                err=True,
            )
        if what is None:
            look = looking(store.database_url, store.log, _progress)
            verdict = await verify_log(store.log, signed, texts=store.texts, look=look)
            last = await asyncio.to_thread(
                last_head, heads or settings.data_dir / HEADS_FILE, store.log.log_id
            )
            if not verdict.ok and last is not None and await is_restored(store.log, last[0]):
                click.echo(
                    "navi: it is as if an older state had been put back; if one was, `navi restored` "
                    "acknowledges it",
                    err=True,
                )
            return verdict
        session_id = parse_session_id(what)
        if await store.log.head(session_id) == 0 and not signed.knows(session_id):
            raise NotFound(f"no session {session_id}")
        return await verify_session(store.log, session_id, signed, texts=store.texts)


@contextmanager
def _progress(events: int) -> Generator[Callable[[int], None]]:
    """A bar on standard error, where that is a terminal and there is time to read one."""
    hidden = events < WORTH_A_BAR or not sys.stderr.isatty()
    with click.progressbar(
        length=events, label="events", file=sys.stderr, hidden=hidden, show_pos=True
    ) as bar:
        yield bar.update


async def _verify_export(settings: Settings, file: Path, heads: Path | None) -> Verdict:
    check = await asyncio.to_thread(_check_export, settings, file, heads)
    if check.verdict.ok and check.header is not None:
        await warn_of_stranger(settings, check.header.public_key)
    return check.verdict


def _check_export(settings: Settings, file: Path, heads: Path | None) -> ExportCheck:
    check = ExportCheck(verify_signature)
    signed: HeadsCheck | None = None
    for event in check.read(lines_of(file)):
        if signed is None and check.header is not None:
            signed = _signed_heads(settings, heads, check.header.log_id)
        if signed is not None:
            check.found(signed.see(event.session_id, event.seq, event.hash))
    return check


def _signed_heads(settings: Settings, heads: Path | None, log_id: str) -> HeadsCheck:
    """The signed heads of a log: those of this navi, or in the file that was named."""
    lines = all_heads(settings.data_dir / HEADS_FILE) if heads is None else heads_of(heads)
    trusted = (key.public_key for key in known_keys(settings.keys_dir))
    own = open_signer(settings.keys_dir).public_key
    return HeadsCheck(lines, log_id=log_id, verify=verify_signature, trusted={own, *trusted})


def _print(verdict: Verdict, *, whole: str, as_json: bool) -> None:
    if as_json:
        print_json(verdict)
    else:
        for problem in verdict.problems:
            place = problem.session_id or whole
            at = "" if problem.seq is None else f" seq {problem.seq}"
            click.echo(f"{place}{at}: {problem.reason}")
        count = f"sessions: {verdict.sessions}, events: {verdict.events}"
        state = "all hold" if verdict.ok else f"{len(verdict.problems)} problems"
        click.secho(f"{count}: {state}", fg="green" if verdict.ok else "red")
