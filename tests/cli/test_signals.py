"""What SIGHUP does to a service, whoever sends it."""

import asyncio
import os
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager

import pytest

from navi.cli.service.signals import Ending, taking_hangups


@pytest.fixture
def hangups() -> Generator[Callable[[signal.Handlers], None], None, None]:
    """Sets what SIGHUP did when this process was started; puts back what it did."""
    before = signal.getsignal(signal.SIGHUP)

    def were(handler: signal.Handlers) -> None:
        signal.signal(signal.SIGHUP, handler)

    yield were
    signal.signal(signal.SIGHUP, before)


@contextmanager
def installed() -> Generator[Ending, None, None]:
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    ending = Ending(task)
    ending.install()
    try:
        yield ending
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.remove_signal_handler(number)


async def hung_up() -> None:
    os.kill(os.getpid(), signal.SIGHUP)
    for _ in range(10):
        await asyncio.sleep(0)


async def test_sighup_shuts_down_gracefully_however_often_it_comes(
    hangups: Callable[[signal.Handlers], None],
) -> None:
    hangups(signal.SIG_DFL)
    with installed() as ending:
        waiting = asyncio.ensure_future(ending.wait())
        await asyncio.sleep(0)

        await hung_up()
        await hung_up()  # a terminal that is closed sends it, and so does its shell

        await waiting


async def test_sighup_does_nothing_where_it_was_ignored_from_the_start(
    hangups: Callable[[signal.Handlers], None],
) -> None:
    hangups(signal.SIG_IGN)  # as by nohup
    said: list[str] = []

    with installed() as ending:
        with taking_hangups(lambda: said.append("replace"), end=lambda: said.append("end")):
            await hung_up()
        await hung_up()

    assert (said, ending.asked.is_set()) == ([], False)
