"""``python -m bench.peers.driver PEER DSN TURNS``: a peer in its own environment, told on standard input what to measure.

``{"turns": 40}`` gives milliseconds of a turn in one session, ``{"seconds": 2}`` turns a second of sixteen
new sessions at once. The one session holds TURNS turns already. It imports nothing of navi.
"""

import asyncio
import importlib
import json
import statistics
import sys
import time
from typing import Any

AT_ONCE = 16


async def drive(peer: str, dsn: str, turns: int) -> None:
    """Answer each line with one, until there are no more."""
    async with importlib.import_module(f"bench.peers.{peer}").opened(dsn) as store:
        first = await store.session(turns)
        many = [await store.session(0) for _ in range(AT_ONCE)]
        print("{}", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            asked = json.loads(line)
            if "turns" in asked:
                found = {"milliseconds": await _one(store, first, asked["turns"])}
            else:
                found = {"a_second": await _sixteen(store, many, asked["seconds"])}
            print(json.dumps(found), flush=True)


async def _one(store: Any, session: Any, turns: int) -> float:
    times: list[float] = []
    for _ in range(turns):
        started = time.perf_counter()
        await store.turn(session)
        times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times)


async def _sixteen(store: Any, sessions: list[Any], seconds: float) -> float:
    started = time.perf_counter()

    async def turns(session: Any) -> int:
        done = 0
        while time.perf_counter() - started < seconds:
            await store.turn(session)
            done += 1
        return done

    done = await asyncio.gather(*(turns(session) for session in sessions))
    return sum(done) / (time.perf_counter() - started)


if __name__ == "__main__":
    asyncio.run(drive(sys.argv[1], sys.argv[2], int(sys.argv[3])))
