"""Examine a Postgres before use: reachable, version, durable settings."""

import re
import ssl
from urllib.parse import urlsplit

import asyncpg
from msgspec import Struct

from navi.adapters.postgres.connect import CONNECTION_ERRORS, QUERY_SECONDS, connect
from navi.domain.vocabulary.errors import LogUnavailable

_QUESTION = """
    select current_setting('server_version') as version,
           current_setting('server_version_num')::int / 10000 as major,
           (select default_version from pg_available_extensions where name = 'vector') as vector,
           current_setting('fsync') = 'on' as fsync,
           current_setting('synchronous_commit') <> 'off' as synchronous_commit,
           current_setting('full_page_writes') = 'on' as full_page_writes,
           (select setting from pg_settings where name = 'statement_timeout') as statement_timeout"""

# What asyncpg says of TLS quotes no address, as it does elsewhere.
_TLS = re.compile(r"root certificate file|`sslmode` parameter")


# A pooler such as PgBouncer refuses the settings that a connection begins with, or drops them.
DIRECTLY = "name Postgres itself in DATABASE_URL, not a pooler before it"


class Examined(Struct, frozen=True, kw_only=True):
    """A Postgres that answers.

    Attributes:
        version: without the packager's words, such as ``18.1``.
        vector: the version of pgvector that can be installed; None where there is none.
        careless: settings under which a power cut would lose what was committed.
        takes_settings: whether what navi connects with (time-outs, the role of reads) arrives there.
    """

    version: str
    major: int
    vector: str | None
    careless: tuple[str, ...]
    takes_settings: bool


class Reason(Struct, frozen=True, kw_only=True):
    """Why Postgres cannot be used; where it ``is_final``, waiting will not help."""

    text: str
    is_final: bool


async def examine(dsn: str) -> Examined:
    """What there is at this address.

    Raises:
        LogUnavailable: it does not answer; `reason_of` tells more.
    """
    connection = await connect(dsn)
    try:
        row = await connection.fetchrow(_QUESTION)
    except CONNECTION_ERRORS as error:
        raise LogUnavailable(f"Postgres: no answer ({type(error).__name__})") from error
    finally:
        connection.terminate()
    assert row is not None  # noqa: S101 - the question has one answer
    settings = ("fsync", "synchronous_commit", "full_page_writes")
    return Examined(
        version=row["version"].partition(" ")[0],
        major=row["major"],
        vector=row["vector"],
        careless=tuple(name for name in settings if not row[name]),
        takes_settings=row["statement_timeout"] == str(int(QUERY_SECONDS * 1000)),
    )


def reason_of(error: LogUnavailable) -> Reason:
    """The reason in words, without the driver's message, which may quote the address."""
    match error.__cause__:
        case asyncpg.InvalidCatalogNameError():
            return Reason(text="there is no such database", is_final=True)
        case asyncpg.InsufficientPrivilegeError():
            text = "the user may not connect to that database: grant connect on database"
            return Reason(text=text, is_final=True)
        case asyncpg.InvalidAuthorizationSpecificationError() as cause if "pg_hba" in str(cause):
            text = "its pg_hba.conf lets nobody in from here as that user"
            if "no encryption" in str(cause):
                text += "; perhaps only with TLS: sslmode=require in DATABASE_URL"
            return Reason(text=text, is_final=True)
        case asyncpg.InvalidAuthorizationSpecificationError():
            return Reason(text="it refuses the user or the password", is_final=True)
        case asyncpg.ClientConfigurationError() as cause if _TLS.match(str(cause)):
            text = f"{str(cause).splitlines()[0]} (sslmode, sslrootcert in DATABASE_URL)"
            return Reason(text=text, is_final=True)
        case asyncpg.ClientConfigurationError() | ValueError():
            return Reason(text="DATABASE_URL is not understood", is_final=True)
        case asyncpg.TooManyConnectionsError():
            text = (
                "it has no connection left: max_connections, or a limit of the user or the database"
            )
            return Reason(text=text, is_final=False)
        case asyncpg.ProtocolViolationError() as cause:  # of PgBouncer, whatever it is
            said = str(cause).partition("\n")[0]
            if "startup parameter" in said:
                text = f"a pooler in between refuses navi's settings ({said}): {DIRECTLY}"
                return Reason(text=text, is_final=True)
            return Reason(text=f"a pooler in between says: {said}", is_final=False)
        case asyncpg.CannotConnectNowError():
            return Reason(text="it is just starting or stopping", is_final=False)
        case ssl.SSLCertVerificationError() as cause:
            text = f"its certificate is not trusted ({cause.verify_message})"
            text += ": sslrootcert= in DATABASE_URL names the authority"
            return Reason(text=text, is_final=True)
        case ConnectionError() as cause if "SSL upgrade" in str(cause):
            text = "it has no TLS, which sslmode asks for: set ssl = on there, or sslmode=prefer"
            return Reason(text=f"{text} in DATABASE_URL", is_final=True)
        case ConnectionRefusedError():
            return Reason(text="connection refused", is_final=False)
        case TimeoutError():
            return Reason(text="no answer in time", is_final=False)
        case FileNotFoundError():
            text = "its socket is not there, or a file that sslrootcert, sslcert or sslkey names"
            return Reason(text=text, is_final=False)
        case OSError() as cause:
            return Reason(text=cause.strerror or type(cause).__name__, is_final=False)
        case _:
            return Reason(text=str(error), is_final=False)


def name_of(dsn: str) -> str:
    """Host, port and database of an address, without user and password."""
    parts = urlsplit(dsn)
    return f"{parts.netloc.rpartition('@')[2] or 'the local socket'}{parts.path}"
