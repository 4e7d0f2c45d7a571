"""What the database's user may do there, before anything is made in it."""

from msgspec import Struct

from navi.adapters.postgres.connect import CONNECTION_ERRORS, Connection, connect
from navi.domain.vocabulary.errors import LogUnavailable

_QUESTION = """
    select current_user::text as name,
           current_database()::text as database,
           (select rolsuper from pg_roles where rolname = current_user) as superuser,
           has_database_privilege(current_database(), 'CREATE') as may_create,
           (select nspowner::regrole::text from pg_namespace where nspname = 'navi') as owner,
           coalesce((select pg_has_role(nspowner, 'MEMBER') from pg_namespace where nspname = 'navi'),
                    true) as owns,
           current_setting('transaction_read_only') = 'on' as read_only,
           (select extnamespace::regnamespace::text from pg_extension where extname = 'vector')
             as vector_in,
           to_regtype('vector') is not null as sees_vector,
           exists (select from pg_available_extensions where name = 'vector') as vector_there,
           coalesce((select bool_or(trusted) from pg_available_extension_versions
                     where name = 'vector'), false) as vector_trusted,
           current_setting('server_version_num')::int / 10000 as major"""


class Rights(Struct, frozen=True, kw_only=True):
    """What the user may do in the database, and what is there.

    Attributes:
        owner: of the schema ``navi``; None where it is still to be made.
        owns: whether the user is the owner, or of its role; true where there is no schema yet.
        vector_in: the schema that pgvector is in; None where it is still to be added.
        sees_vector: whether the user finds it there, by its search path.
        vector_trusted: whether whoever may create in the database may add pgvector.
    """

    name: str
    database: str
    superuser: bool
    may_create: bool
    owner: str | None
    owns: bool
    read_only: bool
    vector_in: str | None
    sees_vector: bool
    vector_there: bool
    vector_trusted: bool
    major: int

    @property
    def missing(self) -> str | None:
        """What is to be granted or installed, in a line; None where nothing is missing."""
        user, database = _quoted(self.name), _quoted(self.database)
        if self.read_only:
            return f"the database {database} can only be read: a standby, or default_transaction_read_only is on"
        if self.vector_in is None and not self.vector_there:
            return (
                f"the server has no pgvector: install it there (Debian: postgresql-{self.major}-pgvector, "
                "Docker: the image pgvector/pgvector)"
            )
        if not self.owns:
            return (
                f"the schema navi belongs to {self.owner}: set DATABASE_URL to that user, or, as a "
                f"superuser: grant {self.owner} to {user}"
            )
        if self.owner is None and not self.may_create:
            return (
                f"{user} may create nothing in the database {database}: as its owner or a superuser: "
                f"grant create on database {database} to {user}"
            )
        if self.vector_in is not None and not self.sees_vector:
            return (
                f"{user} does not find pgvector, which is in the schema {self.vector_in}: grant usage on "
                f"schema {self.vector_in} to {user}; alter role {user} in database {database} "
                f'set search_path = "$user", public, {self.vector_in}'
            )
        if self.vector_in is None and not (
            self.superuser or (self.vector_trusted and self.may_create)
        ):
            return (
                f"{user} may not add pgvector: as a superuser, connected to the database {database}: "
                "create extension vector"
            )
        return None


async def rights_on(connection: Connection) -> Rights:
    """The rights of the user of a connection."""
    row = await connection.fetchrow(_QUESTION)
    assert row is not None  # noqa: S101 - the question has one answer
    return Rights(**dict(row))


async def examine_rights(dsn: str) -> Rights:
    """The rights of the user of an address.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    connection = await connect(dsn)
    try:
        return await rights_on(connection)
    except CONNECTION_ERRORS as error:
        raise LogUnavailable(f"Postgres: no answer ({type(error).__name__})") from error
    finally:
        connection.terminate()


def _quoted(name: str) -> str:
    """A name as it stands in a statement."""
    return name if name.isidentifier() and name.islower() else '"' + name.replace('"', '""') + '"'
