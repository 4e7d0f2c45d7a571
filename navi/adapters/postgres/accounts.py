"""Users, logins and tokens in Postgres; of secrets only hashes."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import asyncpg
import msgspec

from navi.adapters.postgres.connect import Pool, fetch
from navi.adapters.postgres.transaction import LentConnection, answering, transaction
from navi.domain.accounts.accounts import (
    TRY_WINDOW,
    Credential,
    CredentialKind,
    FailedTry,
    OwnLimits,
    User,
    UserChange,
    changed_user,
    check_admin_left,
    name_key,
)
from navi.domain.vocabulary.errors import NotFound, RuleBroken
from navi.domain.vocabulary.ids import Owner, is_uuid
from navi.ports.accounts import Standing

_USER = "select id, name, role, disabled, limits, created_at from navi.account"
_ANY = "select exists (select from navi.account)"
_USERS = f"{_USER} order by name_key"
_BY_ID = f"{_USER} where id = $1"
_BY_NAME = f"{_USER} where name_key = $1"

# Held by whoever changes users: of two admins who each demote the other, one stays.
_LOCK = "select pg_advisory_xact_lock(7005, 0)"

_ADD = """
    insert into navi.account (id, name, name_key, role, disabled, limits, password, created_at)
    values ($1, $2, $3, $4, $5, $6, $7, $8)"""

_CHANGE = """
    update navi.account
    set role = $2, disabled = $3, limits = $4, password = coalesce($5, password)
    where id = $1"""

_CHANGE_PASSWORD = """
    update navi.account set password = $3
    where id = $1 and password = $2 and not disabled returning id"""  # noqa: S105 - a statement

_REMOVE = "delete from navi.account where id = $1"
_PASSWORD = "select password from navi.account where id = $1"  # noqa: S105 - a statement
_OPEN_SETUP = "insert into navi.setup_token (sha256) values ($1)"
_IS_SETUP = "select exists (select from navi.setup_token where sha256 = $1)"
_CLOSE_SETUP = "delete from navi.setup_token"

_CREDENTIAL = """
    select id::text, account_id, kind, secret_sha256, name, scopes, created_at, expires_at, used_at,
      nkey
    from navi.credential"""
_CREDENTIALS = f"{_CREDENTIAL} where account_id = $1 and kind = $2 order by created_at, id"
_NATS_LOGINS = """
    select credential.id::text, account_id, kind, secret_sha256, credential.name, scopes,
      credential.created_at, expires_at, used_at, nkey
    from navi.credential join navi.account on account.id = account_id
    where kind = 'nats' and not disabled order by credential.created_at, credential.id"""
# Each request asks this: one statement, so that users and credentials are of one moment, too.
_STANDING = """
    with wanted as (
      select unnest($1::text[]) as id
      union select account_id from navi.credential where id = any($2::uuid[]))
    select
      account.id as user_id, account.name as user_name, role, disabled, limits,
      account.created_at as user_since, credential.id::text, account_id, kind, secret_sha256,
      credential.name, scopes, credential.created_at, expires_at, used_at, nkey
    from wanted join navi.account on account.id = wanted.id
    left join navi.credential on account_id = account.id and credential.id = any($2::uuid[])"""

_ADD_CREDENTIAL = """
    insert into navi.credential
      (id, account_id, kind, secret_sha256, name, scopes, created_at, expires_at, used_at, nkey)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"""

# Of a change of the password at the same time one waits for the other: it ends this login, or there is none.
_ADD_LOGIN = """
    insert into navi.credential
      (id, account_id, kind, secret_sha256, name, scopes, created_at, expires_at, used_at, nkey)
    select $1::uuid, id, $3, $4::bytea, $5, $6::text[], $7::timestamptz, $8::timestamptz,
      $9::timestamptz, $10
    from navi.account where id = $2 and password = $11 and not disabled for share
    returning id"""

_DROP_CREDENTIAL = """
    delete from navi.credential where id = $1 and account_id = $2 and kind = $3 returning id"""

_DROP_LOGINS = """
    delete from navi.credential
    where account_id = $1 and kind = 'login' and id is distinct from $2"""

_USED = "update navi.credential set used_at = $2 where id = $1"

_FORGET_FAILURES = "delete from navi.login_failure where at <= $1"
_FAILED = "insert into navi.login_failure (address, name_sha256, at) values ($1, $2, $3)"
_FAILURES = "select name_sha256, at from navi.login_failure where address = $1 and at > $2"

_decode_limits = msgspec.json.Decoder(OwnLimits).decode


class PostgresAccounts:
    """``Accounts`` in Postgres; the pool is the caller's, and its owner closes it."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def any_user(self) -> bool:
        [row] = await fetch(self._pool, _ANY)
        return row[0]

    async def users(self) -> Sequence[User]:
        return [_user(row) for row in await fetch(self._pool, _USERS)]

    async def user(self, user_id: Owner) -> User | None:
        if "\0" in user_id:  # no text in Postgres has it, and it refuses to look for it
            return None
        return _first(await fetch(self._pool, _BY_ID, user_id))

    async def named(self, name: str) -> User | None:
        key = name_key(name)
        if "\0" in key:
            return None
        return _first(await fetch(self._pool, _BY_NAME, key))

    async def add_user(self, user: User, *, password: str | None) -> None:
        async with transaction(self._pool) as connection:
            await _add(connection, user, password)

    async def change_user(self, user_id: Owner, change: UserChange) -> User:
        async with transaction(self._pool) as connection:
            before = await _locked_users(connection)
            user = changed_user(_existing(before, user_id), change)
            check_admin_left([*before.values()], [*{**before, user_id: user}.values()])
            with answering():
                await connection.execute(
                    _CHANGE,
                    user_id,
                    user.role,
                    user.disabled,
                    msgspec.json.encode(user.limits),
                    change.password,
                )
                if change.ends_logins:
                    await connection.execute(_DROP_LOGINS, user_id, None)
        return user

    async def remove_user(self, user_id: Owner) -> None:
        async with transaction(self._pool) as connection:
            before = await _locked_users(connection)
            _existing(before, user_id)
            left = [user for id_, user in before.items() if id_ != user_id]
            check_admin_left([*before.values()], left)
            with answering():
                await connection.execute(_REMOVE, user_id)

    async def password_of(self, user_id: Owner) -> str | None:
        rows = await fetch(self._pool, _PASSWORD, user_id)
        return rows[0][0] if rows else None

    async def change_password(self, user_id: Owner, *, old: str, new: str, but: str) -> bool:
        async with transaction(self._pool) as connection:
            with answering():
                if await connection.fetchval(_CHANGE_PASSWORD, user_id, old, new) is None:
                    return False
                await connection.execute(_DROP_LOGINS, user_id, but)
        return True

    async def open_setup(self, sha256: bytes) -> None:
        await self._execute(_OPEN_SETUP, sha256)

    async def set_up(self, sha256: bytes, user: User, *, password: str) -> bool:
        async with transaction(self._pool) as connection:
            if await _locked_users(connection):
                raise RuleBroken("navi is set up already")
            with answering():
                if not await connection.fetchval(_IS_SETUP, sha256):
                    return False
                await connection.execute(_CLOSE_SETUP)
            await _add(connection, user, password)
        return True

    async def add_credential(self, credential: Credential) -> None:
        try:
            await self._execute(_ADD_CREDENTIAL, *_values(credential))
        except asyncpg.ForeignKeyViolationError as error:
            raise NotFound(f"no user {credential.user_id}") from error

    async def add_login(self, login: Credential, *, password: str) -> bool:
        async with transaction(self._pool) as connection:
            with answering():
                added = await connection.fetchval(_ADD_LOGIN, *_values(login), password)
        return added is not None

    async def credentials(self, user_id: Owner, kind: CredentialKind) -> Sequence[Credential]:
        return [_credential(row) for row in await fetch(self._pool, _CREDENTIALS, user_id, kind)]

    async def drop_credential(
        self, credential_id: str, *, user_id: Owner, kind: CredentialKind
    ) -> bool:
        if not is_uuid(credential_id):
            return False
        async with transaction(self._pool) as connection:
            with answering():
                found = await connection.fetchval(_DROP_CREDENTIAL, credential_id, user_id, kind)
        return found is not None

    async def nats_logins(self) -> Sequence[Credential]:
        return [_credential(row) for row in await fetch(self._pool, _NATS_LOGINS)]

    async def used(self, credential_id: str, at: datetime) -> None:
        await self._execute(_USED, credential_id, at)

    async def standing(
        self, user_ids: Collection[Owner], credential_ids: Collection[str]
    ) -> Standing:
        ids = [id_ for id_ in credential_ids if is_uuid(id_)]
        if not (user_ids or ids):
            return Standing(users={}, credentials={})
        rows = await fetch(self._pool, _STANDING, list(user_ids), ids)
        return Standing(
            users={row["user_id"]: _user_beside(row) for row in rows},
            credentials={row["id"]: _credential(row) for row in rows if row["id"] is not None},
        )

    async def failed(self, address: str, tried: FailedTry) -> None:
        async with transaction(self._pool) as connection:
            with answering():
                await connection.execute(_FORGET_FAILURES, tried.at - TRY_WINDOW)
                await connection.execute(_FAILED, address, tried.name_sha256, tried.at)

    async def failures(self, address: str, *, since: datetime) -> Sequence[FailedTry]:
        rows = await fetch(self._pool, _FAILURES, address, since)
        return [FailedTry(name_sha256=row["name_sha256"], at=row["at"]) for row in rows]

    async def _execute(self, statement: str, *values: Any) -> None:
        async with transaction(self._pool) as connection:
            with answering():
                await connection.execute(statement, *values)


async def _add(connection: LentConnection, user: User, password: str | None) -> None:
    values = (
        user.id,
        user.name,
        name_key(user.name),
        user.role,
        user.disabled,
        msgspec.json.encode(user.limits),
        password,
        user.created_at,
    )
    try:
        with answering():
            await connection.execute(_ADD, *values)
    except asyncpg.UniqueViolationError as error:
        raise RuleBroken(f"there is a user {user.name!r} already") from error


async def _locked_users(connection: LentConnection) -> Mapping[Owner, User]:
    """All users, who stay as they are until the transaction ends."""
    with answering():
        await connection.execute(_LOCK)
        rows = await connection.fetch(_USERS)
    return {row["id"]: _user(row) for row in rows}


def _existing(users: Mapping[Owner, User], user_id: Owner) -> User:
    user = users.get(user_id)
    if user is None:
        raise NotFound(f"no user {user_id}")
    return user


def _first(rows: Sequence[asyncpg.Record]) -> User | None:
    return _user(rows[0]) if rows else None


def _user(row: asyncpg.Record) -> User:
    return User(
        id=row["id"],
        name=row["name"],
        role=row["role"],
        disabled=row["disabled"],
        limits=_decode_limits(row["limits"]),
        created_at=row["created_at"],
    )


def _user_beside(row: asyncpg.Record) -> User:
    """The user of a row that has a credential, too."""
    return User(
        id=row["user_id"],
        name=row["user_name"],
        role=row["role"],
        disabled=row["disabled"],
        limits=_decode_limits(row["limits"]),
        created_at=row["user_since"],
    )


def _credential(row: asyncpg.Record) -> Credential:
    return Credential(
        id=row["id"],
        user_id=row["account_id"],
        kind=row["kind"],
        secret_sha256=row["secret_sha256"],
        name=row["name"],
        scopes=tuple(row["scopes"]),
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        used_at=row["used_at"],
        nkey=row["nkey"],
    )


def _values(credential: Credential) -> tuple[Any, ...]:
    return (
        credential.id,
        credential.user_id,
        credential.kind,
        credential.secret_sha256,
        credential.name,
        list(credential.scopes),
        credential.created_at,
        credential.expires_at,
        credential.used_at,
        credential.nkey,
    )
