"""A developer's day in the terminal: find a bug, run the tests, see the difference, decide."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.model_server import ModelServer
from tests.support.model_wire import Done, Say, calls
from tests.support.navi_process import NaviProcess, running_navi

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]

BASKET = '''\
"""What a customer buys."""

from prices import price_of


def total(items):
    """The price of all items, in cents."""
    return sum(price_of(item) for item in items[1:])
'''
FIXED = BASKET.replace("items[1:]", "items")
PRICES = """\
PRICES = {"tea": 350, "milk": 120}


def price_of(item):
    return PRICES[item]
"""
TESTS = """\
import unittest

from basket import total


class TotalTest(unittest.TestCase):
    def test_all_items_count(self):
        self.assertEqual(total(["tea", "milk"]), 470)
"""
FILES = {"basket.py": BASKET, "prices.py": PRICES, "test_basket.py": TESTS}
QUESTION = "Find the bug in these files, run the tests, show me the diff."
ANSWER = "`total` left out the first item. Both tests pass now."
CHANGE = (
    "-    return sum(price_of(item) for item in items[1:])\n"
    "+    return sum(price_of(item) for item in items)\n"
)
RUN_TESTS = ("code_exec", {"language": "bash", "code": "python3 -m unittest 2>&1"})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def navi(
    tmp_path_factory: pytest.TempPathFactory, models: ModelServer
) -> AsyncGenerator[NaviProcess, None]:
    """A navi that offers code, and a developer who asks before files are changed."""
    data = tmp_path_factory.mktemp("navi") / "data"
    async with running_navi(
        data, NAVI_LLM="ollama", OLLAMA_HOST=models.url, NAVI_CODE_EXEC="auto"
    ) as running:
        profile = data / "profiles" / "careful"
        profile.mkdir(parents=True)
        writes = {"action": "^(write|append)$"}
        rules = [{"tool": "filesystem", "match": writes, "then": "ask"}]
        (profile / "config.json").write_text(json.dumps({"approvals": rules}))
        await running.has_logged("sandbox_holds")
        yield running


async def with_files(navi: NaviProcess, profile: str) -> str:
    """A session in whose directory the files are."""
    session = (await navi.post("/sessions", {"profile_id": profile}))["id"]
    directory = navi.data_dir / "files" / session
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in FILES.items():
        (directory / name).write_text(text)
    return session


def work(models: ModelServer) -> None:
    """What the model does: looks, runs the tests, mends, runs them again, tells."""
    look = ("filesystem", {"action": "read", "path": "basket.py"})
    mend = ("filesystem", {"action": "write", "path": "basket.py", "content": FIXED})
    models.answer(Say("I look, and run the tests."), calls(look, RUN_TESTS), Done())
    models.answer(Say("It skips the first item."), calls(mend), Done())
    models.answer(calls(RUN_TESTS), Done())
    models.answer(Say(ANSWER), Done())


async def results(navi: NaviProcess, session: str) -> list[dict[str, Any]]:
    events = (await navi.get(f"/sessions/{session}/events"))["events"]
    return [event["data"] for event in events if event["type"] == "tool_finished"]


async def test_in_a_pipe_there_is_the_answer_and_nothing_else(
    navi: NaviProcess, models: ModelServer
) -> None:
    session = await with_files(navi, "developer")
    work(models)

    answered = await navi.command("chat", "--session", session, QUESTION)

    assert (answered.status, answered.stdout, answered.stderr) == (0, f"{ANSWER}\n", "")
    done = await results(navi, session)
    assert [one["outcome"] for one in done] == ["ok", "error", "ok", "ok"]
    assert (navi.data_dir / "files" / session / "basket.py").read_text() == FIXED


async def test_on_a_terminal_each_step_is_seen_and_the_change_is_asked_about(
    navi: NaviProcess, models: ModelServer
) -> None:
    session = await with_files(navi, "careful")
    work(models)

    async with navi.on_terminal("chat", "--session", session, QUESTION) as terminal:
        await terminal.sees("✓ filesystem read basket.py")
        await terminal.sees("✗ code_exec python3 -m unittest 2>&1 · exit status 1")
        await terminal.sees("AssertionError: 120 != 470")
        await terminal.sees("? filesystem: A rule of the profile asks")
        await terminal.sees(CHANGE)
        await terminal.sees("filesystem? [y]es")
        terminal.type("y\r")
        await terminal.sees("✓ filesystem allowed by local")
        await terminal.sees("✓ filesystem write basket.py")
        await terminal.sees("✓ code_exec python3 -m unittest 2>&1 · exit status 0")
        await terminal.sees("Both tests pass now.")
        assert await terminal.ended() == 0

    assert [one["outcome"] for one in await results(navi, session)] == ["ok", "error", "ok", "ok"]


async def test_with_two_questions_the_second_comes_after_the_first_was_answered(
    navi: NaviProcess, models: ModelServer
) -> None:
    session = await with_files(navi, "careful")
    first = ("filesystem", {"action": "write", "path": "one.txt", "content": "1"})
    second = ("filesystem", {"action": "write", "path": "two.txt", "content": "2"})
    models.answer(calls(first, second), Done())
    models.answer(Say("Both are decided."), Done())

    async with navi.on_terminal("chat", "--session", session, "Write both.") as terminal:
        await terminal.sees("+++ one.txt")
        await terminal.sees("filesystem? [y]es")
        assert "two.txt" not in terminal.screen
        terminal.type("n\r")
        await terminal.sees("reason")
        terminal.type("one is taken\ry\r")  # too much: no answer to what is not asked yet
        await terminal.sees("✗ filesystem denied by local: one is taken")
        await terminal.sees("+++ two.txt")
        await terminal.sees("filesystem? [y]es")
        terminal.type("e\r")
        await terminal.sees("arguments:")
        terminal.type('\x15{"action": "write", "path": "three.txt", "content": "3"}\r')
        await terminal.sees("✓ filesystem allowed by local")
        await terminal.sees("Both are decided.")
        assert await terminal.ended() == 0

    directory = navi.data_dir / "files" / session
    assert not (directory / "one.txt").exists()
    assert not (directory / "two.txt").exists()
    assert (directory / "three.txt").read_text() == "3"
