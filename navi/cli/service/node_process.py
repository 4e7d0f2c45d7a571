"""A node of a service of several processes: ``python -m navi.cli.service.node_process SUPERVISOR CHANNEL``.

Not a command: ``navi serve --processes`` starts it, and tells it over the channel what it is to be.
"""

import asyncio
import signal
import socket
import sys
from collections.abc import Sequence

import click
from structlog.contextvars import bind_contextvars

from navi.adapters.processes.channel import (
    Assigned,
    Channel,
    Drain,
    Migrating,
    NatsStalled,
    ToNode,
    inherited,
    open_to_supervisor,
)
from navi.adapters.tools.program import end_with
from navi.bootstrap.node import NodeSeat
from navi.bootstrap.serving import served_node
from navi.cli.service.announce import ready_of
from navi.cli.service.signals import Ending
from navi.cli.service.wait_for_postgres import wait_for_postgres
from navi.cli.shared.command import HOLDS, environment, fast_loop, log_to_stderr, run, settings_of
from navi.http.server.connection_limit import raise_file_limit
from navi.settings import Settings


@click.command()
@click.argument("supervisor", type=int)
@click.argument("channel", type=int)
def main(supervisor: int, channel: int) -> None:
    """Run one node until its supervisor, or a signal, says that it is to end."""
    # As if all had been killed: turns are taken up by other nodes, or at the next start. What a killed
    # service leaves running would serve at a port that the next one wants for itself.
    end_with(supervisor, by=signal.SIGKILL)
    end = inherited(channel)
    settings = settings_of()
    log_to_stderr(settings)
    raise_file_limit()
    run(settings, _main(settings, end), loop_factory=fast_loop())


async def _main(settings: Settings, end: socket.socket) -> int:
    main_task = asyncio.current_task()
    assert main_task is not None  # noqa: S101 - a coroutine that runs has a task
    ending = Ending(main_task)
    ending.install()
    channel = await open_to_supervisor(end)
    assigned = await channel.receive()
    assert isinstance(assigned, Assigned)  # noqa: S101 - it comes first
    listeners = [inherited(descriptor) for descriptor in assigned.listeners]
    bind_contextvars(process=assigned.process)
    orders = Orders(channel, ending)
    listening = asyncio.create_task(orders.take(), name="orders")
    try:
        return await _serve(settings, assigned, listeners, channel, orders, ending)
    except asyncio.CancelledError:
        if ending.asked.is_set():
            return HOLDS  # told to end before it had begun
        raise
    finally:
        listening.cancel()


class Orders:
    """What the supervisor says; ``succeeded`` of the last one that it was to end."""

    def __init__(self, channel: Channel[ToNode], ending: Ending) -> None:
        self._channel = channel
        self._ending = ending
        self.succeeded = False

    async def take(self) -> None:
        """Until the channel ends."""
        while (order := await self._channel.receive()) is not None:
            if isinstance(order, Drain):
                self.succeeded = order.succeeded
                self._ending.ask()
        self._ending.ask()  # without a supervisor


async def _serve(
    settings: Settings,
    assigned: Assigned,
    listeners: Sequence[socket.socket],
    channel: Channel[ToNode],
    orders: Orders,
    ending: Ending,
) -> int:
    assert assigned.addresses.database_url is not None  # noqa: S101 - given or embedded
    await wait_for_postgres(assigned.addresses.database_url)
    async with served_node(
        settings,
        assigned.addresses,
        environment(),
        seat=NodeSeat(process=assigned.process, pool_size=assigned.pool_size),
        listeners=listeners,
        migrating=lambda: channel.send(Migrating()),
        nats_stalled=lambda: channel.send(NatsStalled()),
    ) as served:
        channel.send(await ready_of(served.node, served.url))
        await ending.wait()
        await served.drain(succeeded=orders.succeeded)
    return HOLDS


if __name__ == "__main__":
    sys.exit(main())
