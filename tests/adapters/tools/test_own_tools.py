import asyncio
import sys
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import psutil
import pytest
from structlog.testing import capture_logs

from navi.adapters.tools.own_tools.pool import ToolTimeouts
from navi.adapters.tools.own_tools.results import as_text
from navi.adapters.tools.own_tools.wire import LoadProblem
from navi.adapters.tools.toolbox import ToolPorts, Tools
from navi.domain.vocabulary.events import Json, JsonObject
from navi.ports.tools import Tool, ToolDescription, ToolResult
from tests.adapters.tools.own_tools_examples import BROKEN, HOSTILE, WEATHER
from tests.contracts.tool import ToolContract
from tests.support.tool_context import SESSION, context_in

PARENT = "tools"
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "DATABASE_URL": "secret"}


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp(PARENT, numbered=False)
    (directory / "weather.py").write_text(WEATHER)
    (directory / "hostile.py").write_text(HOSTILE)
    assert directory.name == PARENT
    (directory / "_private.py").write_text("async def hidden(): ...")
    return directory


@pytest.fixture
async def tools(examples: Path) -> AsyncGenerator[Tools, None]:
    timeouts = ToolTimeouts(call=20.0)
    async with Tools(
        ToolPorts(), own_tools=examples, environment=ENVIRONMENT, timeouts=timeouts
    ) as tools:
        assert tools.problems == ()
        yield tools


def named(tools: Tools, name: str) -> Tool:
    tool = tools.find(name)
    assert tool is not None
    return tool


async def run(tools: Tools, name: str, workspace: Path, **arguments: Json) -> ToolResult:
    return await named(tools, name).run(arguments, context_in(workspace))


async def stopped(tools: Tools, name: str, workspace: Path) -> tuple[ToolResult, float]:
    """The result of a call that is stopped while it runs, and how many seconds that took."""
    stop = asyncio.Event()
    running = asyncio.create_task(named(tools, name).run({}, context_in(workspace, stop=stop)))
    while not await asyncio.to_thread((workspace / "running").exists):  # noqa: ASYNC110  # another process makes it
        await asyncio.sleep(0.01)
    began = time.monotonic()
    stop.set()
    return await running, time.monotonic() - began


class TestAsATool(ToolContract):
    @pytest.fixture
    def tool(self, tools: Tools) -> Tool:
        return named(tools, "forecast")

    @pytest.fixture
    def arguments(self) -> JsonObject:
        return {"place": {"city": "Delft"}, "days": 3}


async def test_public_async_functions_are_offered_after_the_built_in_tools(tools: Tools) -> None:
    names = [tool.description.name for tool in tools.all()]

    assert names[:3] == ["filesystem", "view_image", "todo"]
    assert {"forecast", "whose", "count", "environment"} < set(names)
    assert not {"_private", "synchronous", "hidden", "Place"} & set(names)


async def test_a_function_describes_its_tool(tools: Tools) -> None:
    assert named(tools, "forecast").description == ToolDescription(
        name="forecast",
        description="The weather to come.",
        parameters={
            "type": "object",
            "properties": {
                "place": {
                    "type": "object",
                    "properties": {
                        "city": {"type": "string"},
                        "country": {"type": "string", "default": "NL"},
                    },
                    "required": ["city"],
                },
                "days": {"description": "how many days", "type": "integer", "default": 1},
                "unit": {"enum": ["C", "F"], "default": "C"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "extra": {
                    "type": "object",
                    "additionalProperties": {"type": "number"},
                },
                "note": {"type": "string"},
            },
            "required": ["place"],
        },
        safe_to_repeat=True,
        source="weather.py",
    )


async def test_arguments_come_as_the_types_they_are_declared_with(
    tools: Tools, tmp_path: Path
) -> None:
    result = await run(tools, "forecast", tmp_path, place={"city": "Delft"}, extra={"x": 1.5})

    assert result == ToolResult(outcome="ok", output="Delft NL 1 C ['a'] {'x': 1.5} None")


def test_a_dataclass_that_came_as_an_argument_is_whole_in_a_result() -> None:
    @dataclass
    class Place:
        city: str
        country: str = "NL"
        _known: bool = False

    came = msgspec.convert({"city": "Delft"}, Place)

    assert as_text({"places": [came, Place("Gent", "BE")]}) == (
        '{"places":[{"city":"Delft","country":"NL"},{"city":"Gent","country":"BE"}]}'
    )


def test_a_field_that_was_never_set_is_left_out_of_a_result() -> None:
    @dataclass
    class Place:
        city: str
        river: str = field(init=False)

    assert as_text(Place("Delft")) == '{"city":"Delft"}'


async def test_arguments_that_do_not_fit_are_named(tools: Tools, tmp_path: Path) -> None:
    wrong_type = await run(tools, "forecast", tmp_path, place={"city": 3})
    wrong_value = await run(tools, "forecast", tmp_path, place={"city": "Delft"}, unit="K")

    assert (wrong_type, wrong_value) == (
        ToolResult(outcome="error", output="argument place.city: expected str, got int"),
        ToolResult(outcome="error", output="argument unit: invalid enum value 'K'; allowed: C, F"),
    )
    assert named(tools, "forecast").check({}) == "argument place: is missing"


async def test_the_context_says_whose_call_it_is(tools: Tools, tmp_path: Path) -> None:
    result = await run(tools, "whose", tmp_path)

    assert result.output == f"{SESSION}|local|admin|Ada|call_00000000000a|True"


async def test_no_secret_of_the_server_is_passed_on(tools: Tools, tmp_path: Path) -> None:
    assert (await run(tools, "environment", tmp_path)).output == "LANG,PATH"


async def test_variables_that_are_named_are_passed_on(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import os\nNAMES = ('WEATHER_KEY', 'OTHER', 'NOT_SET')\n"
        "async def mine(): return [os.environ.get(name) for name in NAMES]"
    )
    environment = {"WEATHER_KEY": "k", "OTHER": "o"}
    variables = ("WEATHER_KEY", "NOT_SET")

    with capture_logs() as logs:
        box = Tools(ToolPorts(), own_tools=tmp_path, environment=environment, variables=variables)

    assert [(one["event"], one["names"]) for one in logs] == [
        ("own_tools_variables_not_set", ["NOT_SET"])
    ]
    async with box as tools:
        assert (await run(tools, "mine", tmp_path)).output == '["k",null,null]'


async def test_why_a_file_does_not_load_is_told_without_secrets(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import os\nraise RuntimeError(' '.join(os.environ[name] for name in ('X_TOKEN', 'PLACE')))"
    )
    (tmp_path / "other.py").write_text("async def hunter2_hunter2(x: 'hunter2-hunter2'): ...")
    environment = {"X_TOKEN": "hunter2-hunter2", "PLACE": "ber1in-m1tte"}

    with capture_logs() as logs:
        async with Tools(
            ToolPorts(), own_tools=tmp_path, environment=environment, variables=tuple(environment)
        ) as tools:
            told = {one.name: one.reason for one in tools.unavailable() if one.name != "memory"}

    assert told["mine.py"] == "RuntimeError: hu*** be*** (line 2 of mine.py)"
    assert "hunter2-hunter2" not in f"{told} {logs}"
    assert told.keys() == {"mine.py", "other.py"}


async def test_a_module_keeps_its_state_from_call_to_call(tools: Tools, tmp_path: Path) -> None:
    assert [(await run(tools, "count", tmp_path)).output for _ in range(3)] == ["1", "2", "3"]


async def test_calls_run_at_the_same_time(tools: Tools, tmp_path: Path) -> None:
    tool = named(tools, "parallel")

    results = await asyncio.gather(
        *(tool.run({}, context_in(tmp_path, call_id=f"call_{number}")) for number in range(2))
    )

    assert results == [ToolResult(outcome="ok", output="both ran at once")] * 2


async def test_a_tool_that_heeds_its_stop_gives_what_it_has(tools: Tools, tmp_path: Path) -> None:
    result, seconds = await stopped(tools, "heeds", tmp_path)

    assert result == ToolResult(outcome="ok", output="heeded")
    assert seconds < 10  # of the 20 s that the call might take


async def test_a_tool_that_waits_is_cancelled_and_cleans_up(tools: Tools, tmp_path: Path) -> None:
    result, seconds = await stopped(tools, "sleeps", tmp_path)

    assert (result.outcome, (tmp_path / "cleaned_up").exists()) == ("unknown", True)
    assert seconds < 30


async def test_a_tool_that_blocks_is_killed_with_all_it_started(
    tools: Tools, tmp_path: Path
) -> None:
    result, seconds = await stopped(tools, "blocks", tmp_path)

    assert result == ToolResult(
        outcome="unknown",
        output="stopped before the tool had ended; what it has done by then is not known",
    )
    assert seconds < 30
    left = [p for p in psutil.process_iter(["cmdline"]) if "4321.5" in (p.info["cmdline"] or ())]
    assert psutil.wait_procs(left, timeout=60)[1] == []
    assert (await run(tools, "count", tmp_path)).outcome == "ok"


async def test_a_call_has_a_longest_time(examples: Path, tmp_path: Path) -> None:
    timeouts = ToolTimeouts(call=0.2)
    async with Tools(
        ToolPorts(), own_tools=examples, environment=ENVIRONMENT, timeouts=timeouts
    ) as tools:
        result = await run(tools, "sleeps", tmp_path)

    assert result == ToolResult(
        outcome="unknown",
        output="ended after 0.2 s, before the tool had; what it has done by then is not known",
    )


@pytest.mark.parametrize(
    ("name", "result"),
    [
        (
            "exit_at_once",
            ToolResult(
                outcome="unknown",
                output="the process of the tool ended: it exited with status 7; "
                "what it has done by then is not known",
            ),
        ),
        (
            "exit_safely",
            ToolResult(
                outcome="error",
                output="the process of the tool ended: it exited with status 7; "
                "it may be called again",
            ),
        ),
        ("leave", ToolResult(outcome="error", output="SystemExit: bye (line 47 of hostile.py)")),
        (
            "fail",
            ToolResult(outcome="error", output="ValueError: no such city (line 51 of hostile.py)"),
        ),
        (
            "fail_nastily",
            ToolResult(
                outcome="error",
                output="Nasty: (its message cannot be shown) (line 60 of hostile.py)",
            ),
        ),
        (
            "give_up",
            ToolResult(
                outcome="error",
                output="CancelledError: no answer from the city (line 84 of hostile.py)",
            ),
        ),
        ("dirty", ToolResult(outcome="ok", output="a\ufffdb\ufffdc")),
        ("numbers", ToolResult(outcome="ok", output='{"1":[2.5,null],"at":"2026-01-02"}')),
        ("nothing", ToolResult(outcome="ok", output="null")),
    ],
)
async def test_whatever_a_tool_does_its_call_has_a_clear_result(
    tools: Tools, tmp_path: Path, name: str, result: ToolResult
) -> None:
    assert await run(tools, name, tmp_path) == result
    assert (await run(tools, "process", tmp_path)).outcome == "ok"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("circular", "list: "),
        ("strange", "type object"),
        ("raw", "bytes: decode them"),
        ("forgotten", "coroutine: it was not awaited"),
    ],
)
async def test_a_result_that_is_neither_text_nor_json_is_an_error_that_says_what_was_expected(
    tools: Tools, tmp_path: Path, name: str, why: str
) -> None:
    result = await run(tools, name, tmp_path)

    assert result.outcome == "error"
    assert why in result.output
    assert "a tool returns a str, or numbers, lists, dicts and dataclasses" in result.output


async def test_what_a_call_that_goes_wrong_printed_last_and_where_it_was_stand_in_its_result(
    tools: Tools, tmp_path: Path
) -> None:
    with capture_logs() as logs:
        failed = await run(tools, "fail_below", tmp_path)

    assert failed == ToolResult(
        outcome="error",
        output="ValueError: no such city (line 127 of hostile.py)\n\n"
        "It was raised at:\n"
        f"  line 123 of {PARENT}/hostile.py, in fail_below: _look_up()\n"
        f'  line 127 of {PARENT}/hostile.py, in _look_up: raise ValueError("no such city")\n\n'
        "It printed last:\nlooking\nit up",
    )
    assert {
        "event": "own_tool_printed",
        "log_level": "info",
        "tool": "fail_below",
        "text": "it up",
    } in logs
    [told] = [entry for entry in logs if entry["event"] == "own_tool_failed"]
    assert told["tool"] == "fail_below"
    assert told["traceback"].startswith("Traceback (most recent call last):\n  File ")
    assert "line 123, in fail_below" in told["traceback"]
    assert "worker.py" not in told["traceback"]

    crashed = await run(tools, "crash", tmp_path)

    assert crashed.outcome == "unknown"
    assert "it was ended by SIGSEGV; what it has done by then is not known" in crashed.output
    assert "It printed last:" in crashed.output
    assert "Fatal Python error" in crashed.output


async def test_a_tool_that_prints_without_end_is_logged_in_part_and_counted(
    tools: Tools, tmp_path: Path
) -> None:
    with capture_logs() as logs:
        await run(tools, "chatter", tmp_path)
        failed = await run(tools, "fail_below", tmp_path)

    printed = [entry for entry in logs if entry.get("tool") == "chatter"]
    assert len(printed) == 201
    assert printed[-1]["event"] == "own_tool_printed_more"
    assert printed[-1]["lines"] == 4_800
    assert failed.output.endswith("It printed last:\nlooking\nit up")


async def test_all_faults_of_arguments_are_named_at_once(tools: Tools, tmp_path: Path) -> None:
    wrong = await run(tools, "forecast", tmp_path, place={}, days="soon", unit="K")
    with_names = named(tools, "forecast").check({"city": "Delft", "days": "soon", "unit": "K"})

    assert wrong == ToolResult(
        outcome="error",
        output="argument place.city: is missing; "
        "argument days: expected int, got str; argument unit: invalid enum value 'K'; allowed: C, F",
    )
    assert with_names == (
        "argument city: is not an argument of this tool; "
        "there are: place, days, unit, tags, extra, note; argument place: is missing; "
        "argument days: expected int, got str; argument unit: invalid enum value 'K'; allowed: C, F"
    )


async def test_a_huge_output_is_kept_whole_as_a_file(tools: Tools, tmp_path: Path) -> None:
    result = await run(tools, "huge", tmp_path)

    assert (result.outcome, result.truncated) == ("ok", True)
    assert len(result.output.encode()) <= 256 * 1024
    kept = tmp_path / ".navi" / "outputs" / "call_00000000000a.txt"
    assert kept.stat().st_size == 10_000_000


async def test_a_process_in_which_something_goes_on_is_not_used_again(
    tools: Tools, tmp_path: Path
) -> None:
    before = await run(tools, "leave_a_task", tmp_path)

    assert (await run(tools, "process", tmp_path)).output != before.output


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux tells whose child has lost its parent"
)
async def test_what_a_call_started_ends_with_it(tools: Tools, tmp_path: Path) -> None:
    before = await run(tools, "process", tmp_path)
    left = int((await run(tools, "leave_a_child", tmp_path)).output)

    await _ended(left)
    assert (await run(tools, "process", tmp_path)).output != before.output

    result, _ = await stopped(tools, "leave_a_child_and_wait", tmp_path)

    assert result.outcome == "unknown"
    await _ended(int((tmp_path / "child").read_text()))


async def _ended(pid: int) -> None:
    """Wait for the end of a process: a signal that was sent takes its time on a busy machine."""
    async with asyncio.timeout(60):
        while _runs(pid):  # noqa: ASYNC110  # the kernel tells nobody
            await asyncio.sleep(0.01)


def _runs(pid: int) -> bool:
    """Whether a process is at work: one that was killed may still wait for its parent to see it."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def test_files_that_do_not_load_are_named_and_left_out(tmp_path: Path) -> None:
    for name, text in {**BROKEN, "a_weather.py": WEATHER}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "bytes.py").write_bytes(b"x = '\xff'")
    timeouts = ToolTimeouts(load=1.0)

    async with Tools(
        ToolPorts(), own_tools=tmp_path, environment=ENVIRONMENT, timeouts=timeouts
    ) as tools:
        problems = set(tools.problems)
        offered = {tool.description.source for tool in tools.all()}

    errors = {problem.file: problem.error for problem in problems}
    assert set(errors) == {*BROKEN, "bytes.py"}
    assert offered == {"built-in", "a_weather.py", "marked.py", "half.py"}
    assert {p.file for p in problems if not p.whole} == {
        "taken.py",
        "twice.py",
        "star.py",
        "marked.py",
        "half.py",
    }
    assert problems >= {
        LoadProblem(file="ends.py", error="loading it ended the process: it exited with status 1"),
        LoadProblem(file="exits.py", error="SystemExit: 3 (line 2 of exits.py)"),
        LoadProblem(file="hangs.py", error="loading it took longer than 1 s"),
        LoadProblem(
            file="taken.py",
            error="filesystem: a built-in tool has this name; rename the function",
            whole=False,
        ),
        LoadProblem(
            file="twice.py",
            error="forecast: a_weather.py has a tool of this name; rename one of them",
            whole=False,
        ),
        LoadProblem(
            file="marked.py",
            error="SAFE_TO_REPEAT names 'gone', which is no tool of this file",
            whole=False,
        ),
        LoadProblem(
            file="half.py",
            error="bad: *names cannot be described to a model; name each parameter",
            whole=False,
        ),
    }


async def test_without_own_tools_no_process_is_started(tmp_path: Path) -> None:
    before = psutil.Process().children()

    async with Tools(ToolPorts(), own_tools=tmp_path / "missing", environment={}) as tools:
        assert [tool.description.source for tool in tools.all()] == ["built-in"] * 6
        assert psutil.Process().children() == before


async def test_processes_end_with_their_owner(examples: Path, tmp_path: Path) -> None:
    async with Tools(ToolPorts(), own_tools=examples, environment=ENVIRONMENT) as tools:
        process = int((await run(tools, "process", tmp_path)).output)
        assert psutil.pid_exists(process)

    assert not psutil.pid_exists(process)
