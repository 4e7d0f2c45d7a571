import asyncio
from pathlib import Path

import pytest

from tests.support.until import until


async def test_it_is_over_as_soon_as_it_holds() -> None:
    happened: list[str] = []
    asyncio.get_running_loop().call_soon(happened.append, "it")

    await until(lambda: happened == ["it"])

    assert happened == ["it"]


async def test_what_is_looked_at_may_be_awaited() -> None:
    answers = [False, False, True]

    async def answered() -> bool:
        await asyncio.sleep(0)
        return answers.pop(0)

    await until(answered)

    assert answers == []


async def test_what_never_comes_is_named(tmp_path: Path) -> None:
    heard: list[str] = []

    async def never_answers() -> bool:
        return await asyncio.Future[bool]()

    with pytest.raises(TimeoutError, match=r"never within 0 s: .*heard == .*it"):
        await until(lambda: heard == ["it"], seconds=0)
    with pytest.raises(TimeoutError, match="async def never_answers"):
        await until(never_answers, seconds=0)
    with pytest.raises(TimeoutError, match=r"exists of .*no-such"):
        await until((tmp_path / "no-such").exists, seconds=0)


async def test_an_error_of_what_is_looked_at_stays_what_it_is() -> None:
    async def slow_answer() -> bool:
        raise TimeoutError("no answer from the server")

    with pytest.raises(TimeoutError, match=r"^no answer from the server$"):
        await until(slow_answer)
