"""Threads of a command that is ended."""

import asyncio
import threading

import pytest

from navi.cli.shared.threads import to_its_end


async def test_who_is_cancelled_goes_on_when_its_thread_has_ended() -> None:
    loop, begun, let_go = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    done: list[str] = []

    def work() -> None:
        loop.call_soon_threadsafe(begun.set)
        let_go.wait()
        done.append("written")

    async def command() -> None:
        try:
            await to_its_end(work)
        finally:
            done.append("put away")

    task = asyncio.create_task(command())
    await begun.wait()
    task.cancel()
    loop.call_later(0.05, let_go.set)  # it would have gone on long before

    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == ["written", "put away"]


async def test_it_gives_what_the_work_gives_or_raises() -> None:
    def refuse() -> None:
        raise OSError("no room")

    assert await to_its_end(max, 1, 2) == 2
    with pytest.raises(OSError, match="no room"):
        await to_its_end(refuse)
