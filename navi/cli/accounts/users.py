"""``navi users``: who may sign in."""

import sys

import click
from msgspec import UNSET

from navi.application.accounts.user_rights import UserRights
from navi.bootstrap.accounts import attached_accounts
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
)
from navi.domain.accounts.accounts import OwnLimits, User
from navi.domain.vocabulary.errors import NotFound, RuleBroken
from navi.domain.vocabulary.principal import (
    CLI_ACTOR,
    MAX_REQUESTS,
    MAX_SOCKETS,
    MAX_TOKENS,
    MAX_TURNS,
    Role,
)
from navi.http.api.users import UserAnswer, UserList, user_answer
from navi.settings import Settings

role_choice = click.Choice(["admin", "user"])


@click.group(
    epilog="\b\nExamples:\n"
    "  navi users add ada --role admin       asks for a password\n"
    "  navi users add bob < password.txt     or reads it, one line\n"
    "  navi users set bob --turns 2          limits of one user\n"
    "  navi users disable bob                signed out everywhere, within seconds\n"
    "  navi users reset bob                  another password",
)
@data_dir_option
@click.pass_context
def users(context: click.Context, data_dir: str | None) -> None:
    """Look after who may sign in (NAVI_AUTH=accounts); NAME may be an id.

    Whoever has the server's data acts as an admin here. The id of the first admin is `local`, so that
    what was there before accounts is theirs.
    """
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="warning")
    context.obj = settings


@users.command("list")
@json_option
@click.pass_obj
def list_(settings: Settings, as_json: bool) -> None:
    """List the users."""
    run(settings, _list(settings, as_json=as_json))


@users.command()
@click.argument("name")
@click.option("--role", type=role_choice, default="user", help="admin or user (user).")
@json_option
@click.pass_obj
def add(settings: Settings, name: str, role: Role, as_json: bool) -> None:
    """Add a user; the password is asked for, or read from standard input."""
    run(settings, _add(settings, name, new_password(), role, as_json=as_json))


@users.command("set")
@click.argument("name")
@click.option("--role", type=role_choice, help="admin or user.")
@click.option("--turns", type=click.IntRange(1, MAX_TURNS), help="Turns at once.")
@click.option("--requests", type=click.IntRange(1, MAX_REQUESTS), help="Requests a minute.")
@click.option("--sockets", type=click.IntRange(1, MAX_SOCKETS), help="Open WebSockets.")
@click.option("--tokens", metavar="N|none", help="Model tokens a day; none: as many as they like.")
@click.option("--default-limits", is_flag=True, help="The settings' limits again.")
@json_option
@click.pass_obj
def set_(
    settings: Settings,
    name: str,
    role: Role | None,
    turns: int | None,
    requests: int | None,
    sockets: int | None,
    tokens: str | None,
    default_limits: bool,
    as_json: bool,
) -> None:
    """Change the role or the limits of a user."""
    wanted = OwnLimits(
        turns=UNSET if turns is None else turns,
        requests=UNSET if requests is None else requests,
        sockets=UNSET if sockets is None else sockets,
        tokens=UNSET if tokens is None else _tokens(tokens),
    )
    limits = None if wanted == OwnLimits() else wanted
    if role is None and limits is None and not default_limits:
        raise WrongUsage("say what is to change")
    work = _set(settings, name, role, limits, default_limits=default_limits, as_json=as_json)
    run(settings, work)


@users.command()
@click.argument("name")
@click.option("--undo", is_flag=True, help="Let them in again.")
@json_option
@click.pass_obj
def disable(settings: Settings, name: str, undo: bool, as_json: bool) -> None:
    """Refuse a user, and close what they have open."""
    run(settings, _disable(settings, name, disabled=not undo, as_json=as_json))


@users.command()
@click.argument("name")
@json_option
@click.pass_obj
def reset(settings: Settings, name: str, as_json: bool) -> None:
    """Give a user another password, asked for or read from standard input; their logins end."""
    run(settings, _reset(settings, name, new_password(), as_json=as_json))


def new_password() -> str:
    """A password that is typed twice, or the first line of standard input; never an argument."""
    if sys.stdin.isatty():
        return click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    return sys.stdin.readline().rstrip("\r\n")


async def _list(settings: Settings, *, as_json: bool) -> int:
    async with attached_accounts(settings) as accounts:
        found, rights = await accounts.users.list(), accounts.rights
    if as_json:
        print_json(UserList(users=tuple(_answer(settings, rights, user) for user in found)))
    elif not found:
        click.echo("There is no user yet.")
    for user in () if as_json else found:
        click.echo(_line(rights, user))
    return HOLDS


async def _add(settings: Settings, name: str, password: str, role: Role, *, as_json: bool) -> int:
    async with attached_accounts(settings) as accounts:
        try:
            user = await accounts.users.add(CLI_ACTOR, name=name, password=password, role=role)
        except RuleBroken as error:
            raise CommandFailed(str(error)) from error
    return _print(settings, accounts.rights, user, as_json=as_json)


async def _set(
    settings: Settings,
    name: str,
    role: Role | None,
    limits: OwnLimits | None,
    *,
    default_limits: bool,
    as_json: bool,
) -> int:
    async with attached_accounts(settings) as accounts:
        try:
            user = await accounts.users.named(name)
            user = await accounts.users.change(
                CLI_ACTOR, user.id, role=role, limits=limits, default_limits=default_limits
            )
        except (NotFound, RuleBroken) as error:
            raise CommandFailed(str(error)) from error
    return _print(settings, accounts.rights, user, as_json=as_json)


async def _disable(settings: Settings, name: str, *, disabled: bool, as_json: bool) -> int:
    async with attached_accounts(settings) as accounts:
        try:
            user = await accounts.users.named(name)
            user = await accounts.users.change(CLI_ACTOR, user.id, disabled=disabled)
        except (NotFound, RuleBroken) as error:
            raise CommandFailed(str(error)) from error
    return _print(settings, accounts.rights, user, as_json=as_json)


async def _reset(settings: Settings, name: str, password: str, *, as_json: bool) -> int:
    async with attached_accounts(settings) as accounts:
        try:
            user = await accounts.users.named(name)
            user = await accounts.users.change(CLI_ACTOR, user.id, password=password)
        except NotFound as error:
            raise CommandFailed(str(error)) from error
    return _print(settings, accounts.rights, user, as_json=as_json)


def _tokens(text: str) -> int | None:
    if text.lower() == "none":
        return None
    # Python reads no number of more than some thousand digits.
    is_short = text.isdecimal() and len(text) <= len(str(MAX_TOKENS))
    if not is_short or not 1 <= int(text) <= MAX_TOKENS:
        raise WrongUsage(
            f"--tokens: {text[:20]!r} is neither a number from 1 to {MAX_TOKENS} nor none"
        )
    return int(text)


def _answer(settings: Settings, rights: UserRights, user: User) -> UserAnswer:
    return user_answer(user, role=rights.role_of(user), default=settings.user_limits)


def _print(settings: Settings, rights: UserRights, user: User, *, as_json: bool) -> int:
    if as_json:
        print_json(_answer(settings, rights, user))
    else:
        click.echo(_line(rights, user))
    return HOLDS


def _line(rights: UserRights, user: User) -> str:
    state = "disabled" if user.disabled else ""
    return f"{user.id:<36}  {rights.role_of(user):<5}  {state:<8}  {user.name}"
