"""Node liveness in Postgres: a lease by its clock, and an advisory lock on a connection.

The lock tells of a killed process long before its lease does: its connection is gone. So is that of
a living one whose connection was cut, or whose Postgres was started again; it takes its lock on a new
one, and its lease with it. The lease tells of a process that is stopped or cut off, whose connection
may stand for hours; but leases of living nodes run out as well while Postgres is away.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

import asyncpg
import structlog
from msgspec import Struct

from navi.adapters.postgres.connect import Connection, Pool, connect, fetch
from navi.adapters.postgres.transaction import answering
from navi.domain.vocabulary.errors import LogUnavailable
from navi.domain.vocabulary.ids import NodeId
from navi.ports.nodes import NodeState

log = structlog.get_logger()

LEASE_SECONDS = 10.0
RENEW_SHARE = 0.3  # of the lease: three tries before it runs out
ANSWER_SECONDS = 2.0  # a renewal that takes longer is tried again on a new connection
RETRY_SECONDS = 0.5  # until the connection is there again, and the lock on it
SILENT_SECONDS = 1.5  # without a new lease until a node is gone: three tries at coming back
OVERDUE_SECONDS = LEASE_SECONDS / 2  # left of a lease that should have been renewed by now

_LOCKS = 7002  # first key of the advisory locks; the second is the node's number

_JOIN = """
    insert into navi.node (id, expires_at) values ($1, now() + make_interval(secs => $2))
    on conflict (id) do update set expires_at = excluded.expires_at, left_at = null
    returning number"""

_RENEW = """
    update navi.node set expires_at = now() + make_interval(secs => $2) where id = $1
    returning number"""

_LOCK = "select pg_try_advisory_lock($1, $2)"

_LEAVE = "update navi.node set left_at = now(), expires_at = now() where id = $1"

_STATES = """
    select n.id::text, n.expires_at, n.expires_at < now() + make_interval(secs => $3) as overdue, case
      when n.left_at is not null then 'left'
      when n.expires_at > now() and exists (
        select from pg_locks l join pg_database d on d.oid = l.database
        where d.datname = current_database() and l.locktype = 'advisory' and l.granted
          and l.classid = $2::integer::oid and l.objid = n.number::oid and l.objsubid = 2
      ) then 'alive'
      else 'silent' end as state
    from navi.node n where n.id::text = any($1::text[])"""  # an imported session may name anything

_MARK = "update navi.node set marks_files = true where id = $1"

_KNOWN = "select id::text from navi.node"

_MARKING = """
    select n.id::text from navi.node n
    where n.marks_files and n.left_at is null and n.expires_at > now() and exists (
      select from pg_locks l join pg_database d on d.oid = l.database
      where d.datname = current_database() and l.locktype = 'advisory' and l.granted
        and l.classid = $1::integer::oid and l.objid = n.number::oid and l.objsubid = 2)"""

_FORGET_ENDED = """
    delete from navi.node
    where coalesce(left_at, expires_at) < now() - interval '1 hour' and id::text <> all($1::text[])"""


class _Silence(Struct, frozen=True):
    """Since when a node was seen without its lock or with an overdue lease, and that lease."""

    since: float  # the loop's time
    lease: datetime


class PostgresNodes:
    """``Nodes`` in Postgres: reads on the caller's pool, the lock on a connection of its own."""

    def __init__(self, dsn: str, pool: Pool, *, lease_seconds: float = LEASE_SECONDS) -> None:
        self._dsn = dsn
        self._pool = pool
        self._lease_seconds = lease_seconds
        self._membership: _Membership | None = None
        self._silent: Mapping[NodeId, _Silence] = {}  # each as of the last question about it

    async def join(self, node_id: NodeId) -> None:
        """Join the cluster; the lease is renewed until ``leave``.

        Raises:
            LogUnavailable: Postgres does not answer.
        """
        membership = _Membership(self._dsn, node_id, self._lease_seconds)
        await membership.begin()
        self._membership = membership

    async def leave(self) -> None:
        """Leave the cluster; the task that renews the lease has ended afterwards, whatever happens.

        Raises:
            LogUnavailable: Postgres does not answer: the others will see this process as gone.
        """
        membership, self._membership = self._membership, None
        if membership is not None:
            await membership.end()

    async def state_of(self, node_ids: Sequence[NodeId]) -> Mapping[NodeId, NodeState]:
        rows = await fetch(self._pool, _STATES, node_ids, _LOCKS, OVERDUE_SECONDS)
        states: dict[NodeId, NodeState] = dict.fromkeys(node_ids, "gone")
        now = asyncio.get_running_loop().time()
        silent: dict[NodeId, _Silence] = {}
        for row in rows:
            states[row["id"]] = row["state"]
            if row["state"] == "silent" or row["overdue"]:
                # A new lease: it was there in between.
                silence = self._silent.get(row["id"])
                if silence is None or silence.lease != row["expires_at"]:
                    silence = _Silence(now, row["expires_at"])
                silent[row["id"]] = silence
                if row["state"] == "silent" and now - silence.since >= SILENT_SECONDS:
                    states[row["id"]] = "gone"
        others = {id_: kept for id_, kept in self._silent.items() if id_ not in states}
        self._silent = others | silent
        return states

    async def mark_files(self, node_id: NodeId) -> None:
        """Tell the others that this node has left its mark in the files directory."""
        await fetch(self._pool, _MARK, node_id)

    async def known(self) -> tuple[NodeId, ...]:
        """All nodes that are not forgotten."""
        return tuple(NodeId(row["id"]) for row in await fetch(self._pool, _KNOWN))

    async def marking_files(self) -> tuple[NodeId, ...]:
        """The nodes alive that have left their mark in the files directory."""
        return tuple(NodeId(row["id"]) for row in await fetch(self._pool, _MARKING, _LOCKS))

    async def forget_ended(self, *, but: Collection[NodeId]) -> None:
        # One that was only frozen writes its row again when it renews its lease.
        await fetch(self._pool, _FORGET_ENDED, list(but))
        known = await self.known()
        self._silent = {id_: kept for id_, kept in self._silent.items() if id_ in known}


class _Membership:
    """A node's lease and lock, kept by a task between ``begin`` and ``end``."""

    def __init__(self, dsn: str, node_id: NodeId, lease_seconds: float) -> None:
        self._dsn = dsn
        self._node_id = node_id
        self._lease_seconds = lease_seconds
        self._connection: Connection | None = None
        self._lost = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        await self._open(_JOIN)
        self._keeper = asyncio.create_task(self._keep(), name="node-lease")

    async def end(self) -> None:
        keeper = self._keeper
        try:
            if keeper is not None:
                keeper.cancel()
                await asyncio.wait([keeper], timeout=ANSWER_SECONDS)
            if self._connection is None or self._connection.is_closed():
                self._connection = await connect(self._dsn, query_seconds=ANSWER_SECONDS)
            with answering(asyncpg.PostgresError):
                await self._connection.execute(_LEAVE, self._node_id)
        finally:
            self._drop()

    async def _keep(self) -> None:
        """Renew the lease in time, and at once where the connection was lost."""
        while True:
            try:
                async with asyncio.timeout(self._lease_seconds * RENEW_SHARE):
                    await self._lost.wait()
            except TimeoutError:
                pass
            try:
                await self._renew()
            except LogUnavailable as error:
                log.warning("node_lease_not_renewed", node=self._node_id, reason=str(error))
                self._drop()
                self._lost.set()
                await asyncio.sleep(RETRY_SECONDS)

    async def _renew(self) -> None:
        connection = self._connection
        if connection is None or connection.is_closed():
            await self._open(_RENEW)
            log.info("node_lease_taken_again", node=self._node_id)
            return
        with answering(asyncpg.PostgresError):
            number = await connection.fetchval(_RENEW, self._node_id, self._lease_seconds)
        if number is None:  # the database was emptied or restored
            await self._open(_JOIN)

    async def _open(self, statement: str) -> None:
        """Renew the lease on a new connection, and take the lock on it."""
        self._drop()
        self._lost.clear()
        connection = await connect(self._dsn, query_seconds=ANSWER_SECONDS)
        try:
            await self._take(connection, statement)
        except BaseException:
            connection.terminate()
            raise
        connection.add_termination_listener(self._on_termination)
        self._connection = connection

    async def _take(self, connection: Connection, statement: str) -> None:
        lease = (self._node_id, self._lease_seconds)
        with answering(asyncpg.PostgresError):
            number = await connection.fetchval(statement, *lease)
            if number is None:
                number = await connection.fetchval(_JOIN, *lease)
            locked = await connection.fetchval(_LOCK, _LOCKS, number)
        if not locked:
            raise LogUnavailable("Postgres: the lost connection still holds the lock")

    def _on_termination(self, connection: object) -> None:
        if connection is self._connection:
            self._lost.set()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()
