"""``navi tokens add --nats``: a key that reads one user's events on NATS."""

import asyncio
import time
from datetime import datetime

import click
from msgspec import Struct

from navi.adapters.embedded.nats_readers import read_served
from navi.adapters.embedded.run_record import read_run
from navi.adapters.nkeys import new_nkey
from navi.adapters.system import RandomIds
from navi.bootstrap.accounts import account_services
from navi.bootstrap.log_ports import command_services
from navi.bootstrap.store import attached_store
from navi.cli.shared.command import HOLDS, CommandFailed, WrongUsage, print_json, print_line
from navi.domain.accounts.nats_logins import DIRECT_API, NatsLogin, live_subjects, readers_accounts
from navi.domain.log.subjects import stream_name
from navi.domain.vocabulary.errors import NotFound
from navi.domain.vocabulary.principal import CLI_ACTOR
from navi.settings import Settings

SERVED_SECONDS = 15.0  # until a navi that runs lets a new login in
LOOK_SECONDS = 0.1


class MadeNatsLogin(Struct, frozen=True, kw_only=True):
    """A new login to NATS; the seed is shown this once.

    Attributes:
        id: null where the NATS is not navi's own: then there is nothing that navi could revoke.
        url: null where navi does not run, or the NATS is not its own.
        config: what an operator adds to the configuration of another NATS; else null.
    """

    id: str | None
    seed: str
    nkey: str
    url: str | None
    subjects: tuple[str, ...]
    streams: tuple[str, ...]
    durable: str
    config: str | None = None


async def add_nats_login(
    settings: Settings, name_of_user: str, name: str, expires_at: datetime | None, *, as_json: bool
) -> int:
    """Make the login and print its key on standard output, what it is for on standard error.

    Raises:
        WrongUsage: it is to expire, and the NATS is not navi's own.
        CommandFailed: there is no such user, or the login is not taken yet.
    """
    is_own = not await asyncio.to_thread(_is_given, settings)
    if expires_at is not None and not is_own:
        raise WrongUsage(
            "--expires: navi cannot end a login of the NATS of NATS_URL; take it out there by hand"
        )
    seed, nkey = new_nkey()
    async with attached_store(settings) as store:
        partitions = store.log.partitions
        accounts = account_services(settings, store, command_services(settings, store))
        try:
            user = await accounts.users.named(name_of_user)
            if not is_own:
                # navi cannot add users there, so it keeps nothing that it could revoke.
                login = NatsLogin(id=RandomIds().uuid(), owner=user.id, nkey=nkey)
            else:
                login = await accounts.tokens.add_nats(
                    CLI_ACTOR, user.id, name=name, nkey=nkey, expires_at=expires_at
                )
        except NotFound as error:
            raise CommandFailed(str(error)) from error
    made = MadeNatsLogin(
        id=login.id if is_own else None,
        seed=seed,
        nkey=nkey,
        url=await _url_once_served(settings, login) if is_own else None,
        subjects=live_subjects(login.owner, partitions),
        streams=tuple(stream_name(number) for number in range(partitions)),
        durable=login.durable,
        config=None if is_own else _snippet(login, partitions),
    )
    if as_json:
        print_json(made)
        return HOLDS
    print_line(seed.encode())
    click.echo(_words(made), err=True)
    return HOLDS


def _is_given(settings: Settings) -> bool:
    """Whether the NATS is one that navi was given; blocks."""
    run = read_run(settings.data_dir)
    return settings.nats_url is not None or (run is not None and run.nats_given)


async def _url_once_served(settings: Settings, login: NatsLogin) -> str | None:
    """Where the login can sign in now; None where navi does not run."""
    running = await asyncio.to_thread(read_run, settings.data_dir)
    if running is None or running.http_url is None:
        return None
    deadline = time.monotonic() + SERVED_SECONDS
    while time.monotonic() < deadline:
        served = await asyncio.to_thread(read_served, settings.data_dir)
        if served is not None and login.id in served.logins:
            return served.url
        await asyncio.sleep(LOOK_SECONDS)
    raise CommandFailed(
        f"the login {login.id} is made, but the NATS of readers does not take it yet: see the log of "
        "navi serve. `navi tokens revoke` takes it back."
    )


def _snippet(login: NatsLogin, partitions: int) -> str:
    return readers_accounts(
        [login],
        partitions=partitions,
        api=DIRECT_API,
        server_entries="# and all that the account has in which navi signs in",
    )


def _words(made: MadeNatsLogin) -> str:
    """What the key opens, for people."""
    reads = (
        f"  live       {'  '.join(made.subjects)}\n"
        f"  durable    {made.durable} on {' '.join(made.streams)}: pull and acknowledge"
    )
    if made.config is not None:
        return (
            "This navi uses a NATS of yours (NATS_URL), to which it can add nobody. The key above is kept "
            "nowhere, and\n`navi tokens revoke` does not know it. Add its public part to the configuration of your "
            f"NATS and reload it:\n\n{made.config}\nIt then reads:\n{reads}\n"
            "Make the durable with examples/python_consumer/create_durable.py (docs/nats.md)."
        )
    where = made.url or "as `navi status` says once navi runs"
    return f"The line above is the key (nkey seed), shown this once. It reads at {where}:\n{reads}"
