r"""A bridge to navi for whatever writes and reads lines, such as a chat room: a session for each room.

$ printf 'kitchen\thello\n' | python bridge.py
kitchen\tHello! ...
"""

import asyncio
import sys

from navi.client import Navi, Receipt, Session


async def answer(session: Session, room: str, receipt: Receipt) -> None:
    """Say in a room what came of a message there."""
    said = (await session.answer(receipt)).content
    print(room, said.replace("\n", " "), sep="\t", flush=True)


async def bridge(url: str) -> None:
    """Answer each line, `ROOM<tab>TEXT`, until there are no more; rooms at the same time."""
    sessions: dict[str, Session] = {}
    async with Navi(url) as navi, asyncio.TaskGroup() as answers:
        while line := await asyncio.to_thread(sys.stdin.readline):
            room, _, text = line.rstrip("\n").partition("\t")
            if room not in sessions:
                sessions[room] = await navi.create_session(name=room)
            receipt = await sessions[room].send(text)  # in the order in which they were said
            answers.create_task(answer(sessions[room], room, receipt))


if __name__ == "__main__":
    asyncio.run(bridge(*sys.argv[1:2] or ["http://127.0.0.1:8000"]))
