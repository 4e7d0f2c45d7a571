"""``navi tokens``: what programs sign in with."""

from datetime import UTC, datetime

import click

from navi.bootstrap.accounts import attached_accounts
from navi.cli.accounts.nats_login import add_nats_login
from navi.cli.shared.command import (
    HOLDS,
    CommandFailed,
    data_dir_option,
    json_option,
    log_to_stderr,
    print_json,
    print_line,
    run,
    settings_of,
)
from navi.cli.shared.printable import one_line
from navi.domain.vocabulary.errors import Forbidden, NotFound
from navi.domain.vocabulary.principal import CLI_ACTOR, Scope
from navi.http.api.auth import MadeToken, TokenList, token_answer
from navi.settings import Settings

NAME_CHARACTERS = 60

scope_option = click.option(
    "--scope",
    "scopes",
    type=click.Choice(["read", "chat", "admin"]),
    multiple=True,
    help="read, chat (with read), admin (with both; of admins only); more than once. chat.",
)
nats_option = click.option(
    "--nats", "nats", is_flag=True, help="A login to NATS instead, which reads USER's events there."
)


@click.group(
    epilog="\b\nExamples:\n"
    "  navi tokens add ada laptop --scope chat      prints the token, this once\n"
    "  navi tokens add ada dashboard --scope read --expires 2027-01-01\n"
    "  navi tokens add ada reader --nats > ada.nk   the key that reads ada's events on NATS\n"
    "  navi tokens list ada\n"
    "  navi tokens revoke ID",
)
@data_dir_option
@click.pass_context
def tokens(context: click.Context, data_dir: str | None) -> None:
    """Make and revoke what programs sign in with, as `Authorization: Bearer` or on NATS."""
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="warning")
    context.obj = settings


@tokens.command()
@click.argument("user")
@click.argument("name")
@scope_option
@nats_option
@click.option(
    "--expires", type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"]), help="UTC; else never."
)
@json_option
@click.pass_obj
def add(
    settings: Settings,
    user: str,
    name: str,
    scopes: tuple[Scope, ...],
    nats: bool,
    expires: datetime | None,
    as_json: bool,
) -> None:
    """Make a token called NAME that acts for USER, and print it: the only time."""
    expires_at = None if expires is None else expires.replace(tzinfo=UTC)
    if nats:
        if scopes:
            raise click.UsageError("a login to NATS reads: --scope is for other tokens")
        run(settings, add_nats_login(settings, user, name, expires_at, as_json=as_json))
        return
    run(settings, _add(settings, user, name, scopes or ("chat",), expires_at, as_json=as_json))


@tokens.command("list")
@click.argument("user")
@json_option
@click.pass_obj
def list_(settings: Settings, user: str, as_json: bool) -> None:
    """List the tokens of USER, without their secrets."""
    run(settings, _list(settings, user, as_json=as_json))


@tokens.command()
@click.argument("token_id", metavar="ID")
@click.pass_obj
def revoke(settings: Settings, token_id: str) -> None:
    """Revoke a token: it is refused at once, and what it has open is closed."""
    run(settings, _revoke(settings, token_id))


async def _add(
    settings: Settings,
    name_of_user: str,
    name: str,
    scopes: tuple[Scope, ...],
    expires_at: datetime | None,
    *,
    as_json: bool,
) -> int:
    async with attached_accounts(settings) as accounts:
        try:
            user = await accounts.users.named(name_of_user)
            made = await accounts.tokens.add(
                CLI_ACTOR,
                user.id,
                role=accounts.rights.role_of(user),
                name=name,
                scopes=scopes,
                expires_at=expires_at,
            )
        except (NotFound, Forbidden) as error:
            raise CommandFailed(str(error)) from error
    if as_json:
        print_json(MadeToken(id=made.id, token=made.token))
    else:
        print_line(made.token.encode())
    return HOLDS


async def _list(settings: Settings, name_of_user: str, *, as_json: bool) -> int:
    async with attached_accounts(settings) as accounts:
        try:
            user = await accounts.users.named(name_of_user)
        except NotFound as error:
            raise CommandFailed(str(error)) from error
        found = await accounts.tokens.list(user.id)
    if as_json:
        print_json(TokenList(tokens=tuple(map(token_answer, found))))
        return HOLDS
    for token in found:
        ends = "never" if token.expires_at is None else f"{token.expires_at:%Y-%m-%d %H:%M}"
        used = "never" if token.used_at is None else f"{token.used_at:%Y-%m-%d %H:%M}"
        name = one_line(token.name, width=NAME_CHARACTERS)
        scopes = "nats" if token.kind == "nats" else "+".join(token.scopes)
        last = "" if token.kind == "nats" else f"  used {used}"  # navi does not see it used
        click.echo(f"{token.id}  {scopes:<10}  ends {ends}{last}  {name}")
    return HOLDS


async def _revoke(settings: Settings, token_id: str) -> int:
    async with attached_accounts(settings) as accounts:
        try:
            await accounts.tokens.revoke(
                CLI_ACTOR, await accounts.tokens.owner_of(token_id), token_id
            )
        except NotFound as error:
            raise CommandFailed(str(error)) from error
    return HOLDS
