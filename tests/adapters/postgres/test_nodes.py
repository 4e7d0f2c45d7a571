import asyncio
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from navi.adapters.postgres.connect import Pool, open_pool
from navi.adapters.postgres.nodes import SILENT_SECONDS, PostgresNodes
from navi.domain.vocabulary.errors import LogUnavailable
from navi.domain.vocabulary.ids import NodeId
from navi.ports.nodes import Nodes, NodeState
from tests.contracts.nodes import A, B, C, NodesContract, node
from tests.support.servers import PostgresServer

NOTICED_SECONDS = 60.0
D = node(4)

# A process of its own, so that it can be killed and stopped: dsn, node id, seconds of its lease, and
# seconds that its clock is ahead.
CHILD = """
import asyncio, sys, time
from navi.adapters.postgres.connect import open_pool
from navi.adapters.postgres.nodes import PostgresNodes

async def main(dsn, node_id, lease, ahead):
    real_time = time.time
    time.time = lambda: real_time() + float(ahead)
    async with open_pool(dsn, size=1) as pool:
        await PostgresNodes(dsn, pool, lease_seconds=float(lease)).join(node_id)
        print("joined", flush=True)
        await asyncio.Event().wait()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
async def pool(database: str) -> AsyncGenerator[Pool, None]:
    async with open_pool(database, size=3) as pool:
        yield pool


class TestPostgresNodes(NodesContract):
    @pytest.fixture
    def nodes(self, database: str, pool: Pool) -> Nodes:
        return PostgresNodes(database, pool)

    @pytest.fixture
    def elsewhere(self, database: str, pool: Pool) -> Nodes:
        return PostgresNodes(database, pool)

    @pytest.fixture
    async def killed(self, pool: Pool) -> NodeId:
        """Its lease runs for long, and nobody holds its lock."""
        await pool.execute(
            "insert into navi.node (id, expires_at) values ($1, now() + interval '10 minutes')", B
        )
        return B


async def test_a_killed_process_is_gone_within_moments(database: str, pool: Pool) -> None:
    nodes = PostgresNodes(database, pool)
    async with child(database, A, lease_seconds=600) as process:
        assert await nodes.state_of([A]) == {A: "alive"}

        process.send_signal(signal.SIGKILL)

        # Not by its lease, which runs for ten minutes.
        await becomes(nodes, A, "gone")


async def test_a_stopped_process_is_gone_when_its_lease_ends_and_comes_back(
    database: str, pool: Pool
) -> None:
    nodes = PostgresNodes(database, pool)
    async with child(database, A, lease_seconds=0.5) as process:
        await becomes(nodes, A, "alive")
        process.send_signal(signal.SIGSTOP)
        await becomes(nodes, A, "gone")

        process.send_signal(signal.SIGCONT)

        await becomes(nodes, A, "alive")


@pytest.mark.parametrize("ahead", [-86400.0, 86400.0])
async def test_a_wrong_clock_makes_no_difference(database: str, pool: Pool, ahead: float) -> None:
    nodes = PostgresNodes(database, pool)
    async with child(database, A, lease_seconds=2.0, ahead=ahead) as process:
        await outlives_its_lease(nodes, pool)

        process.send_signal(signal.SIGSTOP)
        await becomes(nodes, A, "gone")


async def test_nodes_that_ended_are_forgotten_unless_they_left_something_open(
    database: str, pool: Pool
) -> None:
    for node_id in (A, B, C):
        nodes = PostgresNodes(database, pool)
        await nodes.join(node_id)
        await nodes.leave()
    alive = PostgresNodes(database, pool)
    await alive.join(D)
    await pool.execute(
        "update navi.node set left_at = left_at - interval '2 hours' where id = any($1::uuid[])",
        [A, B],
    )

    await alive.forget_ended(but=[B])

    known = await pool.fetch("select id::text from navi.node order by id")
    assert [row["id"] for row in known] == [B, C, D]
    await alive.leave()


async def test_the_lease_of_a_living_node_never_runs_out(database: str, pool: Pool) -> None:
    nodes = PostgresNodes(database, pool, lease_seconds=2.0)
    await nodes.join(A)

    await outlives_its_lease(nodes, pool)

    await nodes.leave()


async def test_a_lost_connection_is_opened_again_and_the_lock_taken_on_it(
    database: str, pool: Pool
) -> None:
    nodes, other = PostgresNodes(database, pool), PostgresNodes(database, pool)
    await nodes.join(A)
    await other.join(B)
    lost = await pool.fetchval(
        "select pg_terminate_backend(pid, 60000) from pg_locks where locktype = 'advisory'"
        " and objid = (select number from navi.node where id = $1)",
        A,
    )
    assert lost

    await becomes(nodes, A, "alive")
    assert await nodes.state_of([A, B]) == {A: "alive", B: "alive"}

    await nodes.leave()
    await other.leave()
    assert await nodes.state_of([A, B]) == {A: "left", B: "left"}


async def test_a_node_whose_connection_is_cut_again_and_again_is_never_gone(
    database: str, pool: Pool
) -> None:
    """Else its turns would be taken over, and given up behind three cuts, while it runs them."""
    nodes, other = PostgresNodes(database, pool), PostgresNodes(database, pool)
    await nodes.join(A)
    cuts, seen = 0, set[NodeState]()
    until = asyncio.get_running_loop().time() + 2 * SILENT_SECONDS
    while asyncio.get_running_loop().time() < until:
        # Each cut is over before the next look: the last one would else come after the loop.
        cuts += await pool.fetchval(
            "select count(pg_terminate_backend(pid, 5000)) from pg_locks where locktype = 'advisory'"
            " and objid = (select number from navi.node where id = $1)",
            A,
        )
        seen |= set((await other.state_of([A])).values())

    assert cuts > 1
    assert seen <= {"alive", "silent"}
    await becomes(nodes, A, "alive")
    await nodes.leave()


async def test_a_lease_that_ran_out_while_postgres_was_away_is_not_held_against_a_node(
    database: str, pool: Pool
) -> None:
    """Postgres stood still for longer than a lease, and the others ask before it is renewed."""
    nodes, other = PostgresNodes(database, pool, lease_seconds=2.0), PostgresNodes(database, pool)
    await nodes.join(A)
    assert await other.state_of([A]) == {A: "alive"}

    state: NodeState = "alive"
    while state == "alive":  # it may be renewed just behind that
        await pool.execute("update navi.node set expires_at = now() - interval '1 minute'")
        state = (await other.state_of([A]))[A]

    assert state == "silent"
    await becomes(nodes, A, "alive")
    await nodes.leave()


async def test_a_node_whose_row_was_lost_writes_it_again(database: str, pool: Pool) -> None:
    nodes = PostgresNodes(database, pool, lease_seconds=0.5)
    await nodes.join(A)

    await pool.execute("delete from navi.node")

    await becomes(nodes, A, "alive")
    await nodes.leave()


async def test_without_postgres_joining_and_leaving_say_so_and_leave_no_task(
    postgres_server: PostgresServer, database: str, pool: Pool
) -> None:
    nodes, late = PostgresNodes(database, pool), PostgresNodes(database, pool)
    await nodes.join(A)
    await postgres_server.drop_database(database)

    with pytest.raises(LogUnavailable):
        await late.join(B)
    with pytest.raises(LogUnavailable):
        await nodes.leave()

    assert not [task for task in asyncio.all_tasks() if task.get_name() == "node-lease"]


@asynccontextmanager
async def child(
    dsn: str, node_id: NodeId, *, lease_seconds: float, ahead: float = 0.0
) -> AsyncGenerator[asyncio.subprocess.Process, None]:
    """A process that has joined; killed when the block ends."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        CHILD,
        dsn,
        node_id,
        str(lease_seconds),
        str(ahead),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            while (line := await process.stdout.readline()) != b"joined\n":
                assert line, "the child ended before it had joined"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def becomes(nodes: Nodes, node_id: NodeId, state: NodeState) -> None:
    """Wait until the node is in that state."""
    async with asyncio.timeout(NOTICED_SECONDS):
        while await nodes.state_of([node_id]) != {node_id: state}:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.02)


async def outlives_its_lease(nodes: Nodes, pool: Pool) -> None:
    """See that the only node is alive as long as its lease runs, and after it."""
    granted = await pool.fetchval("select expires_at from navi.node")
    async with asyncio.timeout(NOTICED_SECONDS):
        while await pool.fetchval("select now()") <= granted:
            assert await nodes.state_of([A]) == {A: "alive"}
            await asyncio.sleep(0.02)
    assert await nodes.state_of([A]) == {A: "alive"}
