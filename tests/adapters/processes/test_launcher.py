"""What processes of nodes hold of each other's sockets."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable

import uvloop

from navi.adapters.processes.channel import (
    Migrating,
    inherited,
    open_to_node,
    open_to_supervisor,
)
from navi.adapters.processes.launcher import ChildNode

LONG_SECONDS = 60.0
HELD = "import os, sys; os.fstat(int(sys.argv[1]))"


def in_the_loop_of_nodes(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(LONG_SECONDS):
            await test()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(bounded())


async def holds(descriptor: int) -> bool:
    """Whether a process that this one starts gets a descriptor."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-S", "-c", HELD, str(descriptor), stderr=asyncio.subprocess.DEVNULL
    )
    return await process.wait() == 0


def test_what_a_node_starts_has_neither_its_listeners_nor_its_channel() -> None:
    async def test() -> None:
        given = socket.socket()
        given.set_inheritable(True)  # as it comes from the supervisor
        assert await holds(given.fileno())

        with inherited(given.detach()) as kept:
            assert not await holds(kept.fileno())

    in_the_loop_of_nodes(test)


def test_a_node_that_says_that_it_migrates_was_heard() -> None:
    async def test() -> None:
        ours, theirs = socket.socketpair()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-S", "-c", "import time; time.sleep(600)"
        )
        node = ChildNode(process, await open_to_node(ours), lambda: None)
        channel = await open_to_supervisor(theirs)
        started = node.heard
        try:
            async with asyncio.timeout(LONG_SECONDS / 2):
                while node.heard == started:
                    channel.send(Migrating())
                    await asyncio.sleep(0.01)
        finally:
            node.kill()
            await node.ended()
            channel.close()

    in_the_loop_of_nodes(test)


def test_the_end_of_a_process_is_seen_while_its_children_hold_the_channel() -> None:
    async def test() -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-S", "-c", "import time; time.sleep(600)"
            )
            # This process stands for the child: it holds the node's end until the test ends.
            node = ChildNode(process, await open_to_node(ours), lambda: None)

            os.kill(node.pid, signal.SIGKILL)

            assert await node.ended() == -signal.SIGKILL
            assert await node.ready() is None

    in_the_loop_of_nodes(test)
