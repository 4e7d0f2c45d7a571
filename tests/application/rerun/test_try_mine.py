"""Own tools and rules are tried on the calls of a recorded session, without a model."""

import asyncio
import json
from pathlib import Path

import pytest

from navi.adapters.files.export_file import lines_of
from navi.application.rerun.load import load_export
from navi.application.rerun.try_mine import recorded_calls, without_place
from navi.bootstrap.try_mine import try_file, try_session
from navi.domain.vocabulary.errors import BadInput

EVERYTHING = Path(__file__).parents[2] / "reruns" / "everything.jsonl"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    (tmp_path / "profiles" / "strict").mkdir(parents=True)
    (tmp_path / "profiles" / "same").mkdir()
    strict = {
        "enabled_tools": ["filesystem", "todo"],
        "approvals": [{"tool": "filesystem", "match": {"action": "^write$"}, "then": "ask"}],
    }
    (tmp_path / "profiles" / "strict" / "config.json").write_text(json.dumps(strict))
    (tmp_path / "profiles" / "same" / "config.json").write_text("{}")
    return tmp_path


def test_a_tool_of_ones_own_is_run_with_the_recorded_arguments_and_compared(mine: Path) -> None:
    (mine / "tools" / "mine.py").write_text(
        "from pathlib import Path\nasync def no_such_tool(): return Path('a.txt').read_text()"
    )

    with pytest.raises(AssertionError) as failed:
        try_file(EVERYTHING, tools=mine / "tools")

    assert str(failed.value).splitlines() == [
        "1 come out another way: 1 calls of your own tools were run, 0 were judged",
        "event 32: no_such_tool gives",
        "- error: There is no tool 'no_such_tool' for you. There are: filesystem, view_image, todo,"
        " scratchpad, spawn_agent, switch_profile, memory, web_fetch.",
        "+ ok: one",  # what the recorded call before it wrote
    ]


def test_where_the_directory_of_the_session_was_makes_no_difference(tmp_path: Path) -> None:
    first, other = (
        load_export(lines_of(EVERYTHING)).envelopes[0].session_id,
        "0199c0de-0000-7000-8000-000000000001",
    )

    assert without_place(f"No such file: '/a/b/{first}/x.txt'", first) == (
        "No such file: 'WORKSPACE/x.txt'"
    )
    assert without_place(f"/a/{other}/x", first) == f"/a/{other}/x"


def test_calls_are_judged_by_a_profile_of_ones_own(mine: Path) -> None:
    try_file(EVERYTHING, tools=mine / "tools", profile_id="same")

    with pytest.raises(AssertionError) as failed:
        try_file(EVERYTHING, tools=mine / "tools", profile_id="strict")

    lines = str(failed.value).splitlines()
    assert lines[1:4] == ["event 23: filesystem is judged", "- allow", "+ ask"]
    assert "event 110: memory is judged" in lines


def test_what_cannot_be_tried_is_named(mine: Path) -> None:
    (mine / "tools" / "broken.py").write_text("async def x(")

    with pytest.raises(BadInput, match=r"broken\.py"):
        try_file(EVERYTHING, tools=mine / "tools")
    with pytest.raises(BadInput, match="there is no profile 'gone'"):
        try_file(EVERYTHING, tools=mine / "tools", profile_id="gone")


async def test_a_function_that_cannot_be_offered_is_named_and_hinders_nobody(mine: Path) -> None:
    (mine / "tools" / "mine.py").write_text(
        "async def no_such_tool(): ...\nasync def other(*names): ..."
    )

    trial = await try_session(
        load_export(lines_of(EVERYTHING)).envelopes,
        tools=mine / "tools",
        profiles=mine / "profiles",
        profile_id=None,
        environment={},
    )

    assert trial.run == 1
    assert trial.left_out == (
        "mine.py: other: *names cannot be described to a model; name each parameter",
    )
    with pytest.raises(BadInput, match="other"):
        await asyncio.to_thread(try_file, EVERYTHING, tools=mine / "tools")


def test_every_tool_call_of_a_recording_is_found() -> None:
    calls = recorded_calls(load_export(lines_of(EVERYTHING)).envelopes)

    assert [call.name for call in calls][:4] == ["filesystem", "filesystem", "todo", "no_such_tool"]
    assert calls[0].arguments == {"action": "write", "path": "a.txt", "content": "one"}
    assert sum(call.of_subagent for call in calls) == 1
