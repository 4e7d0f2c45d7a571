"""``navi approvals``: what waits for a person, and the decision."""

import sys
from collections.abc import Mapping

import click
import msgspec

from navi.application.reading.list_approvals import WaitingApproval, waiting_approvals
from navi.bootstrap.store import attached_store
from navi.cli.shared.command import (
    HOLDS,
    CommandFailed,
    WrongUsage,
    data_dir_option,
    json_option,
    log_to_stderr,
    print_json,
    run,
    settings_of,
    words_type,
)
from navi.cli.shared.elsewhere import elsewhere
from navi.cli.shared.owners import names_of_owners, note_listing, owner_named
from navi.cli.shared.printable import one_line, printable
from navi.cli.shared.remote import open_remote
from navi.cli.shared.running import find_running
from navi.domain.vocabulary.event_codec import format_at
from navi.domain.vocabulary.events import Decision, DecisionScope, JsonObject
from navi.domain.vocabulary.ids import Owner
from navi.http.api.approvals import ApprovalList
from navi.http.requests.decisions import DecisionBody
from navi.settings import Settings

REASON_CHARACTERS = 200

scope_option = click.option(
    "--scope",
    type=click.Choice(["once", "session"]),
    default="once",
    help="session: also for every later call that the same rule asks about.",
)
note_option = click.option(
    "--note", type=words_type, help="A reason; of a denial it is what the model reads."
)


@click.group(
    invoke_without_command=True,
    epilog="\b\nExamples:\n"
    "  navi approvals                                    what waits, oldest first\n"
    "  navi approvals --owner bob                        of one user, on the server's machine\n"
    "  navi approvals allow CALL                         let it run\n"
    "  navi approvals allow CALL --scope session         and all that the same rule asks about\n"
    '  navi approvals allow CALL --arguments \'{"command": "ls"}\'\n'
    '  navi approvals deny CALL --note "not on a Friday"',
)
@click.option("--owner", metavar="USER", help="Only this user's, else everybody's.")
@data_dir_option
@json_option
@click.pass_context
def approvals(
    context: click.Context, owner: str | None, data_dir: str | None, as_json: bool
) -> None:
    """List the tool calls that wait for a person, or decide on them; with accounts, whose each is."""
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="warning")
    context.obj = settings
    if context.invoked_subcommand is None:
        run(settings, _list(settings, owner=owner, as_json=as_json))
    elif owner is not None:
        raise WrongUsage("--owner narrows the list; a decision names its call")


@approvals.command()
@click.argument("call_id", metavar="CALL")
@scope_option
@note_option
@click.option(
    "--arguments",
    metavar="JSON",
    type=words_type,
    help="What the tool gets in place of the model's.",
)
@click.pass_obj
def allow(
    settings: Settings, call_id: str, scope: DecisionScope, note: str | None, arguments: str | None
) -> None:
    """Let a tool call run."""
    edited = None if arguments is None else _arguments(arguments)
    run(settings, _decide(settings, call_id, "allow", scope, note, edited))


@approvals.command()
@click.argument("call_id", metavar="CALL")
@scope_option
@note_option
@click.pass_obj
def deny(settings: Settings, call_id: str, scope: DecisionScope, note: str | None) -> None:
    """Refuse a tool call; the agent goes on without it."""
    run(settings, _decide(settings, call_id, "deny", scope, note, None))


async def _list(settings: Settings, *, owner: str | None, as_json: bool) -> int:
    if settings.navi_url is not None and owner is not None:
        raise WrongUsage("--owner is for the server's machine: a navi elsewhere lists your own")
    found, names = await _waiting(settings, owner=owner)
    if as_json:
        print_json(ApprovalList(approvals=found))
    elif not found:
        click.echo("Nothing waits.")
    for approval in () if as_json else found:
        print_approval(approval, names)
    return HOLDS


def print_approval(approval: WaitingApproval, names: Mapping[Owner, str]) -> None:
    """Print what waits, the whole of its reason too; where there are names, whose it is."""
    whose = f" of {printable(names.get(approval.owner, approval.owner))}" if names else ""
    click.echo(f"{approval.call_id}  {approval.name}  in {approval.session_id}{whose}")
    # Of an MCP tool that has changed, what has changed stands in the lines behind the first.
    reason, *more = approval.reason.split("\n")
    click.secho(f"    since {format_at(approval.at)}: {_in_line(reason)}", dim=True)
    for line in more:
        click.secho(f"    {printable(line)}", dim=True)
    for line in printable(approval.preview).split("\n"):
        click.echo(f"    {line}")


def _in_line(text: str) -> str:
    return one_line(text, width=REASON_CHARACTERS)


async def _decide(
    settings: Settings,
    call_id: str,
    decision: Decision,
    scope: DecisionScope,
    note: str | None,
    arguments: JsonObject | None,
) -> int:
    url = settings.navi_url
    if url is None:
        running = await find_running(settings)
        if running is None:
            raise CommandFailed("navi does not run here; start it with `navi serve`")
        url = running.http_url
    waiting, _ = await _waiting(settings, owner=None)
    approval = next((each for each in waiting if each.call_id == call_id), None)
    if approval is None:
        raise CommandFailed(f"no tool call {printable(call_id)} waits for a decision")
    body = DecisionBody(decision=decision, scope=scope, arguments=arguments, note=note)
    async with open_remote(url, token=settings.navi_token) as navi:
        await navi.decide(approval.session_id, call_id, body)
    done = "allowed" if decision == "allow" else "denied"
    click.echo(f"{approval.name}: {done}", file=sys.stderr)
    return HOLDS


async def _waiting(
    settings: Settings, *, owner: str | None
) -> tuple[tuple[WaitingApproval, ...], Mapping[Owner, str]]:
    """What waits, and the names of the users here; of a navi elsewhere one's own."""
    if settings.navi_url is not None:
        async with elsewhere(settings) as navi:
            return (await navi.ask("GET", "/approvals", ApprovalList)).approvals, {}
    async with attached_store(settings) as store:
        whose = await owner_named(store, owner)
        await note_listing(settings, store, whose)
        found = await waiting_approvals(store.log, store.read_models, owner=whose)
        return found, await names_of_owners(store)


def _arguments(text: str) -> JsonObject:
    try:
        return msgspec.json.decode(text, type=JsonObject)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise WrongUsage(f"--arguments: is not a JSON object: {error}") from error
