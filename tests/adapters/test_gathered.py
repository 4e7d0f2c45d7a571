"""Questions that come while others are answered share a round, and see what was there when they came."""

import asyncio
from collections.abc import Collection, Mapping

import pytest

from navi.adapters.gathered import Gathered


class Slow:
    """Answers with what is there as its round begins."""

    def __init__(self) -> None:
        self.there = "old"
        self.rounds: list[list[str]] = []
        self.go_on = asyncio.Event()
        self.broken = False

    async def __call__(self, questions: Collection[str]) -> Mapping[str, str]:
        found = {question: f"{question}: {self.there}" for question in questions}
        self.rounds.append(sorted(questions))
        await self.go_on.wait()
        if self.broken:
            raise OSError("not there")
        return found


async def asked(gathered: Gathered[str, str], *questions: str) -> list[asyncio.Task[str]]:
    """Questions that are under way."""
    tasks = [asyncio.create_task(gathered.ask(question)) for question in questions]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return tasks


async def test_what_comes_meanwhile_is_answered_together_and_anew() -> None:
    slow = Slow()
    gathered = Gathered(slow)
    first = await asked(gathered, "a")
    slow.there = "new"
    later = await asked(gathered, "a", "b", "a")
    slow.go_on.set()

    assert await asyncio.gather(*first) == ["a: old"]
    assert await asyncio.gather(*later) == ["a: new", "b: new", "a: new"]
    assert slow.rounds == [["a"], ["a", "b"]]
    assert await gathered.ask("c") == "c: new"


async def test_who_gives_up_takes_the_answer_from_nobody_else() -> None:
    slow = Slow()
    gathered = Gathered(slow)
    gone, stays = await asked(gathered, "a", "a")
    gone.cancel()
    slow.go_on.set()

    assert await stays == "a: old"
    assert gone.cancelled()


async def test_a_failure_is_of_one_round() -> None:
    slow = Slow()
    slow.broken = True
    gathered = Gathered(slow)
    both = await asked(gathered, "a", "b")
    slow.go_on.set()

    for task in both:
        with pytest.raises(OSError, match="not there"):
            await task
    slow.broken = False
    assert await gathered.ask("a") == "a: old"
