"""Whose a command on the server's machine reads: it acts as an admin, and the audit log says so."""

from collections.abc import Iterable, Mapping, Sequence

import click

from navi.application.accounts.manage_users import user_called
from navi.bootstrap.accounts import account_services
from navi.bootstrap.log_ports import command_services
from navi.bootstrap.store import Store
from navi.domain.vocabulary.errors import NotFound
from navi.domain.vocabulary.events import AuditEvent, SessionExported, SessionRead
from navi.domain.vocabulary.ids import LOCAL_OWNER, SYSTEM_OWNER, Owner, SessionId, is_uuid
from navi.domain.vocabulary.principal import CLI_ACTOR
from navi.settings import Settings

EVERYBODY = "all"


async def owner_named(store: Store, text: str | None) -> Owner | None:
    """The owner that ``--owner`` names, by id or name; None for everybody.

    Raises:
        NotFound: there is no such user.
    """
    if text is None or text == EVERYBODY:
        return None
    user = await user_called(store.accounts, text)
    if user is not None:
        return user.id
    if text == LOCAL_OWNER or is_uuid(text):  # also of a user who was removed
        return Owner(text)
    raise NotFound(f"no user {text[:100]!r}")


async def names_of_owners(store: Store) -> Mapping[Owner, str]:
    """The names of all users, by id; empty without accounts."""
    return {user.id: user.name for user in await store.accounts.users()}


async def note_reading(settings: Settings, store: Store, sessions: Iterable[SessionId]) -> None:
    """Write down that the command reads sessions, whosever they are."""
    for session_id in sessions:
        owner = await store.log.owner_of(session_id)
        if owner is not None and owner != SYSTEM_OWNER:
            await _note(settings, store, session_id, owner)


async def note_listing(settings: Settings, store: Store, owner: Owner | None) -> None:
    """Write down that the command lists what is an owner's, or everybody's."""
    await _note(settings, store, None, owner)


async def note_export(
    settings: Settings, store: Store, sessions: Sequence[SessionId] | None
) -> None:
    """Write down that the command exports sessions; one event for all there are, where None."""
    for session_id in (None,) if sessions is None else sessions:
        await _write(
            settings,
            store,
            SessionExported(by=CLI_ACTOR.by, address=CLI_ACTOR.address, session_id=session_id),
        )


async def _note(
    settings: Settings, store: Store, session_id: SessionId | None, owner: Owner | None
) -> None:
    read = SessionRead(
        by=CLI_ACTOR.by,
        address=CLI_ACTOR.address,
        session_id=session_id,
        owner=owner,
        route=_command(click.get_current_context()),
    )
    await _write(settings, store, read)


async def _write(settings: Settings, store: Store, event: AuditEvent) -> None:
    if not await store.accounts.any_user():
        return  # one person, and nobody to whom it would tell anything
    accounts = account_services(settings, store, command_services(settings, store))
    await accounts.audit_log.write(event)


def _command(context: click.Context) -> str:
    """The command as it is typed, however navi was started."""
    if context.parent is None:
        return "navi"
    return f"{_command(context.parent)} {context.info_name}"
