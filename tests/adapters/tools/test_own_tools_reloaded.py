"""Own tools are loaded again when their files change; what is broken leaves what was good."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from navi.adapters.tools.own_tools.pool import ToolTimeouts
from navi.adapters.tools.own_tools.wire import LoadProblem
from navi.adapters.tools.toolbox import ToolPorts, Tools
from navi.ports.tools import ToolResult, UnavailableTool
from tests.support.tool_context import context_in

GOES_ON = "; its last good version goes on"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "tools"
    folder.mkdir()
    (folder / "one.py").write_text("async def one(): return 'one'")
    (folder / "two.py").write_text(
        "from _more import deep\nimport _helpers\nasync def two(): return _helpers.SAID + deep.SAID"
    )
    (folder / "_helpers.py").write_text("SAID = 'two'")
    (folder / "_more").mkdir()
    (folder / "_more" / "deep.py").write_text("SAID = '!'")
    return folder


@pytest.fixture
async def tools(folder: Path) -> AsyncGenerator[Tools, None]:
    timeouts = ToolTimeouts(reload=120.0, load=20.0)
    async with Tools(
        ToolPorts(), own_tools=folder, environment={"PATH": "/bin"}, timeouts=timeouts
    ) as tools:
        assert tools.problems == ()
        yield tools


async def run(tools: Tools, name: str, workspace: Path) -> str | None:
    tool = tools.find(name)
    return None if tool is None else (await tool.run({}, context_in(workspace))).output


async def test_an_edited_a_new_and_a_removed_file_count_from_the_next_look_on(
    tools: Tools, folder: Path, tmp_path: Path
) -> None:
    assert await run(tools, "one", tmp_path) == "one"
    (folder / "one.py").write_text('async def one(x: int = 1):\n    """Anew."""\n    return x')
    (folder / "three.py").write_text("async def three(): return 'three'")
    (folder / "two.py").unlink()

    await tools.look()

    assert [await run(tools, name, tmp_path) for name in ("one", "two", "three")] == [
        "1",
        None,
        "three",
    ]
    one = tools.find("one")
    assert one is not None
    assert one.description.description == "Anew."


async def test_a_file_that_breaks_leaves_its_last_good_version_and_says_so(
    tools: Tools, folder: Path, tmp_path: Path
) -> None:
    (folder / "one.py").write_text("async def one(: return 'broken'")
    (folder / "two.py").write_text("async def two(): return 'new'")

    await tools.look()

    assert (await run(tools, "one", tmp_path), await run(tools, "two", tmp_path)) == ("one", "new")
    error = "SyntaxError: invalid syntax (one.py, line 1)" + GOES_ON
    assert tools.problems == (LoadProblem(file="one.py", error=error),)
    assert UnavailableTool(name="one.py", reason=error) in tools.unavailable()

    (folder / "one.py").write_text("async def one(): return 'mended'")
    await tools.look()

    assert (await run(tools, "one", tmp_path), tools.problems) == ("mended", ())


async def test_a_helper_counts_like_its_file_and_one_that_breaks_leaves_both_as_they_were(
    tools: Tools, folder: Path, tmp_path: Path
) -> None:
    assert await run(tools, "two", tmp_path) == "two!"
    (folder / "_helpers.py").write_text("SAID = 'other'")
    await tools.look()
    assert await run(tools, "two", tmp_path) == "other!"

    (folder / "_helpers.py").write_text("SAID = 1 / 0")
    (folder / "one.py").write_text("async def one(): return 'new'")
    await tools.look()

    assert await run(tools, "two", tmp_path) == "other!"
    assert await run(tools, "one", tmp_path) == "new"
    [problem] = tools.problems
    assert problem == LoadProblem(
        file="two.py",
        error="ZeroDivisionError: division by zero (line 1 of _helpers.py)" + GOES_ON,
    )


async def test_a_helper_that_breaks_takes_none_of_the_files_along_that_import_it(
    tools: Tools, folder: Path, tmp_path: Path
) -> None:
    (folder / "also.py").write_text("import _helpers\nasync def also(): return _helpers.SAID")
    await tools.look()

    (folder / "_helpers.py").write_text("def broken(")
    await tools.look()

    assert (await run(tools, "also", tmp_path), await run(tools, "two", tmp_path)) == (
        "two",
        "two!",
    )
    assert [(p.file, p.error.endswith(GOES_ON)) for p in tools.problems] == [
        ("also.py", True),
        ("two.py", True),
    ]


async def test_a_call_under_way_ends_with_the_version_it_began_with(
    tools: Tools, folder: Path, tmp_path: Path
) -> None:
    (folder / "one.py").write_text(
        "import asyncio, pathlib\n"
        "async def one():\n"
        "    pathlib.Path('running').touch()\n"
        "    while not pathlib.Path('go').exists(): await asyncio.sleep(0.01)\n"
        "    return 'old'"
    )
    await tools.look()
    running = asyncio.create_task(run(tools, "one", tmp_path))
    while not await asyncio.to_thread((tmp_path / "running").exists):  # noqa: ASYNC110  # another process makes it
        await asyncio.sleep(0.01)

    (folder / "one.py").write_text("async def one(): return 'new'")
    await tools.look()

    assert await run(tools, "one", tmp_path) == "new"
    (tmp_path / "go").touch()
    assert await running == "old"


async def test_a_file_that_hangs_holds_up_nobody_for_long(folder: Path, tmp_path: Path) -> None:
    timeouts = ToolTimeouts(reload=0.01)
    async with Tools(
        ToolPorts(), own_tools=folder, environment={"PATH": "/bin"}, timeouts=timeouts
    ) as tools:
        (folder / "hangs.py").write_text("while True: pass")

        async with asyncio.timeout(15):  # half of what the file may take
            await tools.look()
            await tools.look()

        assert await run(tools, "one", tmp_path) == "one"


async def test_a_file_that_hangs_is_tried_again_once_it_is_another_and_not_with_each_edit(
    folder: Path, tmp_path: Path
) -> None:
    tried = tmp_path / "tried"
    hangs = f"open({str(tried)!r}, 'a').write('x')\nwhile True: pass"
    (folder / "hangs.py").write_text(hangs)
    timeouts = ToolTimeouts(reload=120.0, load=2.0)
    async with Tools(
        ToolPorts(), own_tools=folder, environment={"PATH": "/bin"}, timeouts=timeouts
    ) as tools:
        (folder / "one.py").write_text("async def one(): return 'new'")
        await tools.look()

        assert await run(tools, "one", tmp_path) == "new"
        assert tools.problems == (
            LoadProblem(file="hangs.py", error="loading it took longer than 2 s"),
        )
        assert tried.read_text() == "x"

        (folder / "hangs.py").write_text("async def hangs(): return 'no more'")
        await tools.look()

        assert (await run(tools, "hangs", tmp_path), tools.problems) == ("no more", ())


async def test_a_file_that_was_slow_once_is_there_again_with_the_next_edit(
    folder: Path, tmp_path: Path
) -> None:
    busy = tmp_path / "busy"
    slow = f"import pathlib\nwhile pathlib.Path({str(busy)!r}).exists(): pass\n"
    (folder / "slow.py").write_text(f"{slow}async def slow(): return 'slow'")
    timeouts = ToolTimeouts(reload=120.0, load=2.0)
    async with Tools(
        ToolPorts(), own_tools=folder, environment={"PATH": "/bin"}, timeouts=timeouts
    ) as tools:
        busy.touch()
        (folder / "one.py").write_text("async def one(): return 'new'")
        await tools.look()
        assert await run(tools, "one", tmp_path) == "new"
        assert [problem.file for problem in tools.problems] == ["slow.py"]

        busy.unlink()
        (folder / "one.py").write_text("async def one(): return 'newer'")
        await tools.look()

        assert (await run(tools, "slow", tmp_path), tools.problems) == ("slow", ())


async def test_a_helper_and_a_file_that_hang_are_each_tried_once(
    folder: Path, tmp_path: Path
) -> None:
    tried = tmp_path / "tried"
    hangs = f"open({str(tried)!r}, 'a').write('x')\nwhile True: pass\n"
    timeouts = ToolTimeouts(reload=120.0, load=2.0)
    async with Tools(
        ToolPorts(), own_tools=folder, environment={"PATH": "/bin"}, timeouts=timeouts
    ) as tools:
        (folder / "_helpers.py").write_text(hangs)
        text = (folder / "two.py").read_text()
        (folder / "two.py").write_text(f"{text} + 'new'")
        await tools.look()
        (folder / "one.py").write_text("async def one(): return 'new'")
        await tools.look()

        assert (await run(tools, "one", tmp_path), await run(tools, "two", tmp_path)) == (
            "new",
            "two!",
        )
        assert tried.read_text() == "xx"  # the new text with it, and the last good one


async def test_a_directory_that_cannot_be_read_for_a_while_takes_nothing_away(
    tools: Tools, folder: Path, tmp_path: Path
) -> None:
    # A link to itself: even root cannot read it.
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(folder)

    await tools.look()

    assert await run(tools, "one", tmp_path) == "one"
    [problem] = tools.problems
    assert (problem.file, "what was loaded goes on" in problem.error) == (str(folder), True)

    folder.unlink()
    (tmp_path / "elsewhere").rename(folder)
    await tools.look()
    assert (tools.problems, await run(tools, "two", tmp_path)) == ((), "two!")


async def test_a_module_that_python_has_is_no_helper(tmp_path: Path) -> None:
    (tmp_path / "_thread.py").write_text("")
    (tmp_path / "mine.py").write_text("import _thread\nasync def mine(): return _thread.__name__")

    async with Tools(ToolPorts(), own_tools=tmp_path, environment={"PATH": "/bin"}) as tools:
        tool = tools.find("mine")
        assert tool is not None
        assert await tool.run({}, context_in(tmp_path)) == ToolResult(
            outcome="ok", output="_thread"
        )
        assert tools.problems == (
            LoadProblem(
                file="_thread.py", error="Python itself has a module of this name; rename it"
            ),
        )
